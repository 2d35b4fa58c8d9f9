package mirror_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestRemovalsOfSeveralCounters: all counters of a tenant together are its removals, however they
// come, and those of another tenant are not.
func TestRemovalsOfSeveralCounters(t *testing.T) {
	m := newMirror()
	acme, all := selector(t, "acme"), script.Selector{}
	m.Keep(acme)
	want := func(when string, ofAcme, ofAll int64) {
		t.Helper()
		if got := m.Group(acme).Removed; got != ofAcme {
			t.Errorf("%s: %d removals of acme, want %d", when, got, ofAcme)
		}
		if got := m.Group(all).Removed; got != ofAll {
			t.Errorf("%s: %d removals, want %d", when, got, ofAll)
		}
	}
	m.Reset(registry.State{Fleet: fleet, Head: 1, Removals: registry.Removals{Made: map[string]int64{"acme": 5, "acme/2": 2, "acme/3": 1, "acme-b": 9}}})
	want("in a snapshot", 8, 17)
	m.Apply(registry.Transaction{Revision: 2, Removals: registry.Removals{Made: map[string]int64{"acme": 6, "acme/2": 3}}})
	want("after a change set", 10, 19)
	m.Apply(registry.Transaction{Revision: 3, Removals: registry.Removals{Made: map[string]int64{"acme": 7}}})
	want("after another removal", 11, 20)
	m.Reset(registry.State{Fleet: fleet, Head: 3, Removals: registry.Removals{Made: map[string]int64{"acme": 7, "acme/2": 3, "acme/3": 1, "acme-b": 9}}})
	want("in another snapshot", 11, 20)
}
