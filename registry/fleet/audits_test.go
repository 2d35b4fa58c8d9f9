package fleet_test

import (
	"fmt"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestStrictAuditsThatAgentsDoNotKnow: an older agent that follows a tenant with a strict audit is in trouble, until
// it is upgraded or the audit ends, and also if the registry learns of the audit by a snapshot.
func TestStrictAuditsThatAgentsDoNotKnow(t *testing.T) {
	b := newBench(t)
	b.hear("old", 10)
	b.follow("other", 10, "shop")
	current := b.report("new", 10)
	current.Queries = true
	b.Heard(current)
	want := func(what, want string, failed int) {
		t.Helper()
		got := ""
		for _, a := range b.Agents(fleet.AgentFilter{Troubled: true}).Agents {
			for _, f := range a.Failures {
				got += fmt.Sprint(a.Name, " ", a.Failed, " ", f.Name, "@", f.Revision, " ", f.Err.Kind)
			}
		}
		if b.Sweep(); got != want || b.Troubled().Failed != failed {
			t.Errorf("%s: %q, and %d agents failed; want %q, and %d", what, got, b.Troubled().Failed, want, failed)
		}
	}
	tenant := func(revision script.Revision, audit script.Audit) script.Tenant {
		return script.Tenant{Name: "acme", Revision: revision, ChangedAt: b.now, Settings: script.TenantSettings{Audit: audit}}
	}
	const says = "old 1 acme/tenant:settings@11 UNAVAILABLE"
	want("no audit", "", 0)
	b.Apply(registry.Transaction{Revision: 11, Tenants: []script.Tenant{tenant(11, script.AuditStrict)}})
	for _, agent := range []string{"old", "new"} {
		r := b.report(agent, 11)
		r.Queries = agent == "new"
		b.Heard(r)
	}
	b.follow("other", 11, "shop")
	want("strict", says, 1)
	b.Reset(registry.State{Fleet: fleetID, Head: 11, Tenants: []script.Tenant{tenant(11, script.AuditStrict)}})
	want("strict in a snapshot", says, 1)
	upgraded := b.report("old", 11)
	upgraded.Queries, upgraded.Incarnation = true, "old-2"
	b.Heard(upgraded)
	want("upgraded", "", 0)
	downgraded := b.report("old", 11)
	downgraded.Incarnation = "old-3"
	b.Heard(downgraded)
	want("downgraded", says, 1)
	b.Apply(registry.Transaction{Revision: 12, Tenants: []script.Tenant{tenant(12, "")}})
	for _, agent := range []string{"old", "new"} {
		r := b.report(agent, 12)
		if r.Queries = agent == "new"; agent == "old" {
			r.Incarnation = "old-3"
		}
		b.Heard(r)
	}
	want("no audit any more", "", 0)
}
