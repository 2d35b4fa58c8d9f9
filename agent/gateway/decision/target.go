package decision

import (
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Target is what a gateway asks: a script, or all scripts of a tenant that run on an event.
type Target struct {
	Script string // "tenant/name" or "tenant/name@7"; "" if Event is set
	Tenant string // of the event
	Event  string
}

// ParseTarget reads "tenant/name", "tenant/name@7" or "event=NAME/TENANT".
func ParseTarget(text string) (t Target, err error) {
	if event, tenant, ok := script.CutEvent(text); ok {
		t = Target{Event: event, Tenant: tenant}
	} else {
		t.Script = text
	}
	return t, t.Validate()
}

// String names the target, for a log.
func (t Target) String() string {
	if t.Event != "" {
		return t.Tenant + ", event " + t.Event
	}
	return t.Script
}

// Validate returns an Invalid error unless the target is one script, or one event of a tenant.
func (t Target) Validate() error {
	switch {
	case t.Event == "" && t.Tenant == "" && t.Script == "":
		return invalid("script", "is missing: want script = tenant/name, or event and tenant")
	case t.Event == "" && t.Tenant == "":
		if _, err := script.ParseRef(t.Script); err != nil {
			return invalid("script", "names no script: want tenant/name or tenant/name@7: %v", err)
		}
		return nil
	case t.Script != "":
		return invalid("script", "is there with event or tenant: want either a script, or event and tenant")
	}
	if err := script.ValidateLabel("event", t.Event); err != nil {
		return err
	}
	return script.ValidateLabel("tenant", t.Tenant)
}

// Check returns nil if the grant lets its peer ask for a decision of the target, else a Denied error.
func (t Target) Check(grant gateway.Grant) error {
	if t.Event != "" {
		return grant.CheckTenant(t.Tenant)
	}
	return grant.Check(t.Script)
}
