package timeline

import (
	"slices"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// eventOfWrite returns the event of an audit entry. It leaves out fields that only administrators may read, such as
// addresses.
func eventOfWrite(e *script.AuditEntry) script.Event {
	event := script.Event{
		ID: idOf(e.Revision, e.Name, e.Key), Revision: e.Revision, Time: e.Time, Type: typeOf(e), What: string(e.Change),
		Tenant: e.Name.Tenant, Script: e.Name.Script, Key: e.Key, Version: e.Version, Candidate: e.Candidate, ChangeSet: e.ChangeSet,
		Author: registry.Attribution(access.Identity{Name: e.Identity, Peer: e.Peer}, e.Author), Text: e.Note,
	}
	if event.Type == script.EventTenant || event.Type == script.EventFreeze || event.Type == script.EventLoss {
		event.Version = 0
	}
	return event
}

// isEvent reports whether the audit entry is an event. An unreadable one has no Change. That somebody tried a script changes
// nothing that others see, and happens each time that an author presses a key.
func isEvent(e *script.AuditEntry) bool { return e.Change != "" && e.Change != script.ChangeTry }

// typeOf returns the type of a write. The object decides where several kinds of objects have the same change.
func typeOf(e *script.AuditEntry) script.EventType {
	switch t := e.Change.EventType(); {
	case e.Key != "":
		return script.EventValue
	case e.Name.Script == "" && e.Name.Tenant != "":
		return script.EventTenant
	default:
		return t
	}
}

// eventOfLine returns the event of an entry of a script's history. It equals the event of the audit entry.
func eventOfLine(name script.Name, e *script.HistoryEntry) script.Event {
	return script.Event{
		ID: idOf(e.Revision, name, ""), Revision: e.Revision, Time: e.Time, Type: e.Change.EventType(), What: string(e.Change),
		Tenant: name.Tenant, Script: name.Script, Version: e.Version, Candidate: e.Candidate, ChangeSet: e.ChangeSet,
		Author: e.Author, Text: e.Note,
	}
}

// idOf returns the id of a write. It differs for each write of a transaction.
func idOf(revision script.Revision, name script.Name, key string) string {
	id := strconv.FormatInt(int64(revision), 10) + "/" + name.Tenant
	switch {
	case name.Script != "":
		return id + "/" + name.Script
	case key != "":
		return id + "/kv:" + key
	}
	return id
}

// redact removes what the caller may not see: the exceptions from a freeze name tenants.
func redact(e script.Event, by access.Identity) script.Event {
	if e.Type == script.EventFreeze && strings.HasSuffix(e.Text, "]") && !by.AllowsAll(access.Admin, script.Selector{}) {
		e.Text = strings.TrimSpace(e.Text[:max(0, strings.LastIndexByte(e.Text, '['))])
	}
	return e
}

// Filter selects events.
type Filter struct {
	Tenant string // the whole fleet if empty
	Script string // all scripts of the tenant if empty
	Types  []script.EventType
}

func (f *Filter) validate(by access.Identity) error {
	if f.Tenant == "" && f.Script == "" {
		if err := by.CheckAll(access.Read, script.Selector{}); err != nil {
			refusal := *script.AsError(err)
			refusal.Message += "; name a tenant to see its events alone"
			return &refusal
		}
	} else {
		err := script.ValidateLabel("tenant", f.Tenant)
		if err == nil && f.Script != "" {
			err = script.Name{Tenant: f.Tenant, Script: f.Script}.Validate()
		}
		if err == nil {
			err = by.Check(access.Read, f.Tenant)
		}
		if err != nil {
			return err
		}
	}
	known := script.EventTypes()
	if len(f.Types) > len(known) {
		return script.Errorf(script.Invalid, "types", "%d are more than there are", len(f.Types))
	}
	for _, t := range f.Types {
		if !slices.Contains(known, t) {
			return script.Errorf(script.Invalid, "types", "%.80q is no type of events: want %s", string(t), join(known))
		}
	}
	return nil
}

func join(types []script.EventType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}

// wants reports whether the filter selects the event. A freeze is an event of every tenant. A quota of a tenant is an
// event of every script of the tenant.
func (f *Filter) wants(e *script.Event) bool {
	switch {
	case !e.IsOf(f.Types):
		return false
	case f.Tenant == "":
		return true
	case f.Script == "":
		return e.Tenant == f.Tenant || e.Type == script.EventFreeze
	}
	return e.Tenant == f.Tenant && (e.Script == f.Script || e.Type == script.EventQuota)
}

// sources reports whether the filter can select writes, and records.
func (f *Filter) sources() (writes, records bool) {
	if len(f.Types) == 0 {
		return true, true
	}
	for _, t := range f.Types {
		if slices.Contains(recorded, t) {
			records = true
		} else {
			writes = true
		}
	}
	return writes, records
}
