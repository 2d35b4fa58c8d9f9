package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// on publishes a script of the tenant acme that runs on the event.
func (r *remembering) on(event, name string, change ...func(*registry.PublishRequest)) error {
	r.t.Helper()
	req := registry.PublishRequest{
		Write:    registry.Write{Name: script.Name{Tenant: "acme", Script: name}, Author: "ann", By: everybody},
		Source:   []byte("x"),
		Settings: &script.Settings{Spec: script.Spec{Trigger: script.Trigger{Event: event}}},
	}
	for _, c := range change {
		c(&req)
	}
	_, err := r.Publish(r.t.Context(), req)
	r.catchUp()
	return err
}

// tooMany fails the test unless the error says that too many scripts have the event.
func (r *remembering) tooMany(what string, err error) {
	r.t.Helper()
	if e := script.AsError(err); e == nil || e.Kind != script.Limit || e.Field != "trigger.event" || !strings.Contains(e.Message, "pre-route") {
		r.t.Errorf("%s: %v", what, err)
	}
}

// TestScriptsOfAnEvent: no write has more enabled scripts run on an event than agents take, whether it
// publishes, enables, retries or rolls back. A candidate counts from the beginning: it may run by its key.
func TestScriptsOfAnEvent(t *testing.T) {
	r := bounded(t, script.TenantSettings{})
	disabled := func(req *registry.PublishRequest) { req.Enabled = new(false) }
	staged := func(req *registry.PublishRequest) {
		req.Settings.Rollout = script.Plan{Steps: []script.Step{{By: script.ByKey, Percent: 1}}}
	}
	must := func(err error) {
		t.Helper()
		r.catchUp()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string) registry.Write {
		return registry.Write{Name: script.Name{Tenant: "acme", Script: name}, Author: "ann", By: everybody}
	}
	enable := func(name string, so bool) error {
		_, err := r.SetEnabled(t.Context(), registry.SetEnabledRequest{Write: write(name), Enabled: so})
		r.catchUp()
		return err
	}
	must(r.on("pre-route", "was"))
	must(r.on("other", "was"))
	for i := range script.MaxEventScripts {
		must(r.on("pre-route", fmt.Sprint("s-", i)))
	}
	r.tooMany("another script", r.on("pre-route", "more"))
	r.tooMany("a script of another event", r.on("pre-route", "was"))
	r.tooMany("its candidate", r.on("pre-route", "was", staged))
	must(r.on("pre-route", "off", disabled))
	r.tooMany("to enable one", enable("off", true))
	_, err := r.Rollback(t.Context(), registry.RollbackRequest{Write: write("was"), Version: 1})
	r.tooMany("to roll back to the event", err)

	must(r.on("pre-route", "s-0", func(req *registry.PublishRequest) { req.Source = []byte("y") }))
	must(r.on("other", "more"))
	must(enable("s-1", false))
	must(r.on("pre-route", "was", staged))
	r.tooMany("one beside a candidate", r.on("pre-route", "more"))
	r.tooMany("to enable one beside a candidate", enable("s-1", true))
	_, err = r.Steer(t.Context(), registry.SteerRequest{Write: write("was"), Steering: registry.Abort})
	must(err)
	must(enable("off", true))
	_, err = r.Steer(t.Context(), registry.SteerRequest{Write: write("was"), Steering: registry.Retry})
	r.tooMany("to retry the candidate", err)
	_, err = r.Delete(t.Context(), registry.DeleteRequest{Write: write("s-2")})
	must(err)
	must(r.on("pre-route", "more"))
}
