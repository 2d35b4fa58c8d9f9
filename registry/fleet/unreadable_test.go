package fleet_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestUnreadableScripts: a script whose record cannot be read keeps its status, as it was
// before, or with nothing but its name; it is not converged, and no candidate of it moves.
func TestUnreadableScripts(t *testing.T) {
	b := newBench(t)
	b.hear("a1", 10)
	unknown := script.Name{Tenant: "acme", Script: "unknown"}
	lost := []registry.Unreadable{
		{Key: "releases/" + route.String(), Revision: 12}, {Key: "releases/" + unknown.String(), Revision: 13}, {Key: "values/acme/flag", Revision: 14},
	}
	b.apply(b.candidate(route, 11, 11, 0))
	if got := len(b.Candidacies()); got != 1 {
		t.Fatalf("%d candidates", got)
	}
	check := func(when string) {
		t.Helper()
		status := b.Status(fleet.Filter{})
		if len(status.Unreadable) != 3 || len(status.Scripts) != 2 {
			t.Fatalf("%s: %d scripts, and unreadable are %+v", when, len(status.Scripts), status.Unreadable)
		}
		for _, s := range status.Scripts {
			if s.Unreadable == nil || s.Converged || s.Release.Name == route && s.Release.Revision != 11 {
				t.Errorf("%s: %+v", when, s)
			}
		}
		if one := b.Status(fleet.Filter{Tenant: route.Tenant, Script: route.Script}); len(one.Unreadable) != 1 || len(one.Scripts) != 1 {
			t.Errorf("%s, of one script: %+v", when, one)
		}
		if got := len(b.Candidacies()); got != 0 {
			t.Errorf("%s: %d candidates move", when, got)
		}
	}
	b.Apply(registry.Transaction{Revision: 14, Foreign: true, Unreadable: lost})
	check("watched")
	b.Reset(registry.State{Fleet: fleetID, Head: 14, Unreadable: lost})
	check("from a snapshot that does not say what they were")

	b.commit(route, 15)
	b.Apply(registry.Transaction{Revision: 16, Releases: []script.Release{{Name: unknown, Revision: 16, Deleted: true, ChangedAt: b.now}}})
	b.hear("a1", 16)
	if status := b.Status(fleet.Filter{}); len(status.Unreadable) != 1 || len(status.Scripts) != 1 || !status.Scripts[0].Converged {
		t.Errorf("repaired: %+v", status)
	}
}
