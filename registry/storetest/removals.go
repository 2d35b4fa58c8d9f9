package storetest

import (
	"maps"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// watchRemovals returns the last that a watch says of removals between two revisions.
func watchRemovals(t *testing.T, s registry.Store, after, until script.Revision) registry.Removals {
	t.Helper()
	last := registry.Removals{Made: map[string]int64{}}
	for tx, err := range s.Watch(t.Context(), after) {
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(last.Made, tx.Removals.Made)
		if tx.Removals.At != 0 {
			last.Accepted, last.At = tx.Removals.Accepted, tx.Removals.At
		}
		if tx.Revision >= until {
			break
		}
	}
	return last
}

// testRemovals: snapshots and watches tell how many objects were removed so far, and which
// loss was accepted; the collection of tombstones changes nothing of it.
func (h Harness) testRemovals(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	spoilable(t, s)
	want := func(when string, made, accepted int64) registry.Removals {
		t.Helper()
		snap, err := s.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got := snap.Removals; got.Made["acme"]+got.Made["other"] != made || got.Accepted != accepted {
			t.Errorf("%s: %+v, want %d removals and %d accepted", when, got, made, accepted)
		}
		return snap.Removals
	}
	want("at first", 0, 0)
	before, err := s.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rules(s).Delete(ctx, registry.DeleteRequest{Write: write(named(0))}); err != nil {
		t.Fatal(err)
	}
	remove(t, s, keyed("acme", "a"))
	set(t, s, "other", 0)
	want("after a script, a value and settings", 3, 0)
	accepted, err := registry.New(registry.Config{Store: s, Checkup: s.(registry.Checkup)}).AcceptLoss(ctx, registry.AcceptLoss{By: access.Everybody("unix"), Objects: 25, Author: "ann", Note: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	if got := want("after a loss was accepted", 3, 25); got.At != accepted {
		t.Errorf("accepted at %d, want %d", got.At, accepted)
	}
	if _, err := collector(s).Collect(ctx); err != nil {
		t.Fatal(err)
	}
	want("after the tombstones were collected", 3, 25)
	watched := watchRemovals(t, s, before, accepted)
	if watched.Made["acme"] != 2 || watched.Made["other"] != 1 || watched.Accepted != 25 || watched.At != accepted {
		t.Errorf("the watch yields %+v", watched)
	}
	entries, _, err := s.Audit(ctx, registry.AuditFilter{}, "", 1)
	if err != nil || len(entries) != 1 || entries[0].Note != "25 objects. gone" || entries[0].Author != "ann" {
		t.Errorf("the audit trail ends with %+v: %v", entries, err)
	}
}
