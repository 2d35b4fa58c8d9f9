package registryclient_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/client/archive"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// A write that is sent again changes nothing, whatever others wrote in between.
func TestSentAgain(t *testing.T) {
	s := newTruth(t)
	w := ada
	w.RequestID = registryclient.NewRequestID()
	first, changed, err := s.client.Rollback(t.Context(), route, 0, w)
	if err != nil || !changed || first.Active.Number != 1 {
		t.Fatalf("%+v, %t, %v", first, changed, err)
	}
	if _, _, err := s.client.LiftHold(t.Context(), route, registryclient.Write{Author: "grace"}); err != nil {
		t.Fatal(err)
	}
	again, changed, err := s.client.Rollback(t.Context(), route, 0, w)
	if err != nil || !changed || again.Revision != first.Revision+1 || again.Active.Number != 3 {
		t.Errorf("sent again: v%d at revision %d, changed %t, %v; want v3, which another writer made of it", again.Active.Number, again.Revision, changed, err)
	}
}

// TestRolledBackAlready: who names no version after another rollback learns that it is no change.
func TestRolledBackAlready(t *testing.T) {
	s := newTruth(t)
	if _, changed, err := s.client.Rollback(t.Context(), route, 0, ada); err != nil || !changed {
		t.Fatal(changed, err)
	}
	publish(t, s.client, route, "return 'stored'")
	again, changed, err := s.client.Rollback(t.Context(), route, 0, registryclient.Write{Author: "grace"})
	if err != nil || changed || again.Active.Number != 1 || again.Hold.Author != ada.Author {
		t.Errorf("%+v, %t, %v", again, changed, err)
	}
}

// fill publishes n scripts of a tenant, each with two versions, the second of which
// all share.
func (s *truth) fill(t *testing.T, tenant string, n int) {
	t.Helper()
	for i := range n {
		name := script.Name{Tenant: tenant, Script: fmt.Sprintf("s%03d", i)}
		publish(t, s.client, name, fmt.Sprint("return ", i))
		publish(t, s.client, name, "return 'shared'")
	}
}

func (s *truth) export(t *testing.T, tenant string) []archive.Item {
	t.Helper()
	var items []archive.Item
	for item, err := range s.client.Export(t.Context(), tenant) {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}

func (s *truth) list(t *testing.T, tenant string) (all []script.Release) {
	t.Helper()
	for r, err := range s.client.List(t.Context(), tenant) {
		if err != nil {
			t.Fatal(err)
		}
		r.Revision, r.ChangedAt = 0, time.Time{} // are the registry's own
		all = append(all, r)
	}
	return all
}

// An import that broke off in the middle of anything goes on where it was.
func TestImportGoesOn(t *testing.T) {
	const scripts = 20
	from := newTruth(t)
	from.fill(t, "acme", scripts)
	from.fill(t, "shop", 3)
	items := from.export(t, "acme")
	options := registryclient.ImportOptions{Author: "ada", Overwrite: true} // route had numbers that the archive has
	for broken := 0; broken < len(items); broken += 7 {
		to := newTruth(t)
		if _, err := to.client.Delete(t.Context(), route, ada); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := to.client.Import(ctx, options, func(yield func(archive.Item, error) bool) {
			for i, item := range items {
				if i == broken {
					cancel()
				}
				if !yield(item, nil) {
					return
				}
			}
		})
		cancel()
		if script.KindOf(err) != script.Timeout {
			t.Fatalf("broken off at item %d: %v, want Timeout", broken, err)
		}
		got, err := to.client.Import(t.Context(), options, sequence(nil, items...))
		if err != nil || got.Created+got.Unchanged != scripts+1 || got.Replaced != 0 {
			t.Fatalf("broken off at item %d, then %+v, %v", broken, got, err)
		}
		if d := cmp.Diff(from.list(t, "acme"), to.list(t, "")); d != "" {
			t.Errorf("broken off at item %d: %s", broken, d)
		}
	}
}

func TestAuditOfAll(t *testing.T) {
	s := newTruth(t)
	s.fill(t, "acme", 5)
	var all, five []script.AuditEntry
	for e, err := range s.client.Audit(t.Context(), registryclient.AuditFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	for e, err := range s.client.Audit(t.Context(), registryclient.AuditFilter{Limit: 5}) {
		if err != nil {
			t.Fatal(err)
		}
		five = append(five, e)
	}
	if !slices.IsSortedFunc(all, func(a, b script.AuditEntry) int { return int(b.Revision - a.Revision) }) || len(all) != 14 || all[13].Name != route {
		t.Errorf("the audit trail is %+v", all)
	}
	if d := cmp.Diff(all[:5], five); d != "" {
		t.Errorf("its newest five: %s", d)
	}
}
