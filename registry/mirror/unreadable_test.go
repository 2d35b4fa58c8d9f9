package mirror_test

import (
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestReplicasOfDifferentMemoryAgree: one has seen what was there before the unreadable
// record, one has it from the store, and one does not know it. All name the record, and come
// to the same position, also after the repair; those that know what was there still send it.
func TestReplicasOfDifferentMemoryAgree(t *testing.T) {
	a, b := release("acme", "a", 5, "one"), release("acme", "b", 6, "one")
	lost := registry.Unreadable{Key: "releases/acme/a", Revision: 9, Reason: "garbage"}
	state := registry.State{Fleet: fleet, Head: 6, Heads: map[string]script.Revision{"acme": 6}, Releases: []script.Release{a, b}}

	watched := newMirror()
	watched.Keep(selector(t, "ac*"))
	watched.Reset(state)
	watched.Apply(registry.Transaction{Revision: 9, Foreign: true, Unreadable: []registry.Unreadable{lost}})

	told := newMirror()
	told.Keep(selector(t, "ac*"))
	remembered := lost
	remembered.Last = &script.Object{Release: &a}
	state.Head, state.Unreadable = 9, []registry.Unreadable{remembered}
	told.Reset(state)

	late := newMirror()
	state.Releases, state.Unreadable = []script.Release{b}, []registry.Unreadable{lost}
	late.Reset(state)
	watched.Reset(state) // one that knows it keeps it

	agree := func(when string, unreadable int) {
		t.Helper()
		for _, tenants := range []script.Selector{{}, selector(t, "ac*"), selector(t, "acme", "x"), selector(t, "zoo")} {
			want := late.Group(tenants)
			for name, m := range map[string]*mirror.Mirror{"watched": watched, "told": told} {
				if got := m.Group(tenants); got != want {
					t.Errorf("%s, %v: the one that %s is at %+v, the one that does not know at %+v", when, tenants, name, got, want)
				}
			}
		}
		for _, m := range []*mirror.Mirror{watched, told, late} {
			if got := m.Unreadable(); len(got) != unreadable || unreadable > 0 && got[0].Key != lost.Key {
				t.Errorf("%s: unreadable are %+v, want %d", when, got, unreadable)
			}
		}
	}
	agree("with garbage", 1)
	for name, m := range map[string]*mirror.Mirror{"watched": watched, "told": told} {
		changes := m.Changes(mirror.Query{})
		if !changes.Full || len(changes.Entries) != 2 || !slices.Equal(changes.Unreadable, []string{lost.Key}) {
			t.Errorf("the one that %s has %d entries in a snapshot, without %v", name, len(changes.Entries), changes.Unreadable)
		}
	}
	if changes := late.Changes(mirror.Query{}); len(changes.Entries) != 1 || !slices.Equal(changes.Unreadable, []string{lost.Key}) {
		t.Errorf("the one that does not know has %d entries, without %v", len(changes.Entries), changes.Unreadable)
	}
	if changes := late.Changes(mirror.Query{Tenants: selector(t, "zoo")}); len(changes.Unreadable) != 0 {
		t.Errorf("another tenant's group gets %v", changes.Unreadable)
	}
	repaired := registry.Transaction{Revision: 12, Releases: []script.Release{release("acme", "a", 12, "one", "two")}}
	for _, m := range []*mirror.Mirror{watched, told, late} {
		m.Apply(repaired)
	}
	agree("repaired", 0)
}
