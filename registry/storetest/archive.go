package storetest

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (h Harness) runExports(t *testing.T) {
	t.Helper()
	t.Run("ExportImport", h.testExportImport)
	t.Run("ExportOneTenant", h.testExportOneTenant)
	t.Run("ExportIsOfOneMoment", h.testExportIsOfOneMoment)
}

// archive exports all, or one tenant.
func archive(t *testing.T, s registry.Store, tenant string) []registry.Item {
	t.Helper()
	items := gather(t, rules(s).Export(t.Context(), registry.ExportRequest{By: access.Everybody("unix"), Tenant: tenant}))
	if len(items) == 0 || items[0].Header == nil {
		t.Fatal("the archive has no header")
	}
	return items
}

// from yields the items.
func from(items []registry.Item) iter.Seq2[registry.Item, error] {
	return func(yield func(registry.Item, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// comparable returns the archive without what may differ between a registry and its
// copy: revisions, and what the import left.
func comparable(items []registry.Item) []string {
	var lines []string
	for _, item := range items {
		switch {
		case item.Source != nil:
			lines = append(lines, fmt.Sprintf("source %s %q", item.Source.Digest, item.Source.Content))
		case item.Value != nil:
			lines = append(lines, fmt.Sprintf("value %s %s %q", item.Value.Value.Key, item.Value.Value.Digest, item.Value.Content))
		case item.Tenant != nil:
			lines = append(lines, fmt.Sprintf("tenant %s %+v", item.Tenant.Name, item.Tenant.Settings))
		case item.Record != nil:
			r := *item.Record
			r.Release.Revision, r.Release.ChangedAt = 0, time.Time{}
			history := slices.DeleteFunc(slices.Clone(r.History), func(e script.HistoryEntry) bool { return e.Change == script.ChangeImport })
			for i := range history {
				history[i].Revision = 0
			}
			if c := r.Release.Candidate; c != nil { // where it is imported it begins anew
				r.Release.Candidate = &script.Candidate{Version: c.Version, Failed: c.Failed}
			}
			lines = append(lines, fmt.Sprintf("script %s %+v %+v", text(r.Release), r.Versions, history))
		}
	}
	slices.Sort(lines)
	return lines
}

// furnish fills a store with all there can be.
func furnish(t *testing.T, s registry.Store) {
	t.Helper()
	ctx, r := t.Context(), rules(s)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	settings := &script.Settings{
		Spec: script.Spec{
			Limits:  script.Limits{Instructions: 5},
			Trigger: script.Trigger{Event: "http-request", Priority: 3, Match: script.Match{Headers: map[string]string{"x-b": "*", "x-a": "1"}}},
			OnError: script.OnError{Status: 429, Body: "later\n"}, Decisions: &script.Decisions{Sample: 0.5, Mask: []string{"body"}},
			Config: []byte(`{"a":1}`),
		},
		HistoryLimit: 3,
	}
	for i := range 6 {
		w := write(named(1))
		w.Owner, w.Note = "kubernetes:prod/s1", fmt.Sprint("note ", i)
		_, err := r.Publish(ctx, registry.PublishRequest{Write: w, Source: fmt.Append(nil, "source ", i), Settings: settings})
		must(err)
	}
	owned := write(named(1))
	owned.Owner = "kubernetes:prod/s1"
	_, err := r.Rollback(ctx, registry.RollbackRequest{Write: owned})
	must(err)
	_, err = r.SetEnabled(ctx, registry.SetEnabledRequest{Write: owned})
	must(err)
	for _, name := range []script.Name{named(2), named(3), {Tenant: "other", Script: "s"}} {
		_, err = r.Publish(ctx, registry.PublishRequest{Write: write(name), Source: []byte("source 5")})
		must(err)
	}
	tests := &script.Settings{Spec: script.Spec{Tests: []script.Test{{Name: "answers", Expect: []byte(`1`)}}}}
	for _, source := range []string{"source 5", "source 6"} {
		_, err = r.Publish(ctx, registry.PublishRequest{Write: write(script.Name{Tenant: "other", Script: "s"}), Source: []byte(source), Settings: tests})
		must(err)
	}
	for _, name := range []script.Name{named(2), named(3)} {
		_, err = r.Delete(ctx, registry.DeleteRequest{Write: write(name)})
		must(err)
	}
	tombstone, err := s.Release(ctx, named(3))
	must(err)
	must(s.(registry.Garbage).Purge(ctx, object(tombstone)))
	furnishTenants(t, s)
}

// furnishTenants makes values and settings, some of which are gone again: of acme two
// values and settings that they need, of other one value.
func furnishTenants(t *testing.T, s registry.Store) {
	t.Helper()
	_, _, err := rules(s).SetTenant(t.Context(), registry.SetTenant{
		Tenant: "acme", Settings: &script.TenantSettings{Concurrency: 3, ValueBytes: 20 << 20, Audit: script.AuditStrict, Decisions: &script.Decisions{Errors: true}}, Author: "ann", By: access.Everybody("unix"),
	})
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, "other", 4)
	set(t, s, "other", 0)
	put(t, s, keyed("acme", "flags/a"), "replaced")
	put(t, s, keyed("acme", "flags/a"), "\x00on")
	put(t, s, keyed("acme", "empty"), "")
	put(t, s, keyed("acme", "gone"), "gone")
	remove(t, s, keyed("acme", "gone"))
	put(t, s, keyed("other", "flags/a"), "\x00on")
}

var importing = registry.ImportRequest{By: access.Everybody("unix"), Author: "eve", Note: "move"}

func (h Harness) testExportImport(t *testing.T) {
	a, b := h.Open(t), h.Open(t)
	furnish(t, a)
	items := archive(t, a, "")
	dry := importing
	dry.DryRun = true
	want := registry.ImportResult{Created: 4, Values: 3, Tenants: 1}
	if got, err := rules(b).Import(t.Context(), dry, from(items)); err != nil || got != want {
		t.Errorf("a dry run: %+v, %v; want %+v", got, err, want)
	}
	if head, err := b.Head(t.Context()); err != nil || head != 0 {
		t.Errorf("a dry run was stored: head %d, %v", head, err)
	}
	if got, err := rules(b).Import(t.Context(), importing, from(items)); err != nil || got != want {
		t.Fatalf("Import: %+v, %v; want %+v", got, err, want)
	}
	wantSources(t, b)
	if x, y := comparable(items), comparable(archive(t, b, "")); !slices.Equal(x, y) {
		t.Errorf("the copy differs:\n%s\nwant\n%s", strings.Join(y, "\n"), strings.Join(x, "\n"))
	}
	history, err := b.History(t.Context(), named(1))
	if err != nil || history[0].Change != script.ChangeImport || history[0].Author != "eve" || history[0].Note != "move" || history[0].Version != 5 {
		t.Errorf("History: %+v, %v; want the import on top", history, err)
	}
	if entries := trail(t, b, registry.AuditFilter{Tenant: "acme", Script: named(1).Script}, 10); len(entries) != 1 || entries[0].Change != script.ChangeImport {
		t.Errorf("Audit: %+v", entries)
	}

	testImportAgain(t, b, items)
}

// testImportAgain: nothing changes, and numbers go on as they would have in the first
// registry.
func testImportAgain(t *testing.T, b registry.Store, items []registry.Item) {
	t.Helper()
	head, _ := b.Head(t.Context())
	want := registry.ImportResult{Unchanged: 4}
	if got, err := rules(b).Import(t.Context(), importing, from(items)); err != nil || got != want {
		t.Errorf("again: %+v, %v; want %+v", got, err, want)
	}
	if again, err := b.Head(t.Context()); err != nil || again != head {
		t.Errorf("importing again moved the head from %d to %d, %v", head, again, err)
	}
	for name, want := range map[script.Name]uint64{named(1): 7, named(2): 2, named(3): 2, {Tenant: "other", Script: "s"}: 4} {
		w := write(name)
		w.Force = true
		if result, err := rules(b).Publish(t.Context(), registry.PublishRequest{Write: w, Source: []byte("next")}); err != nil || result.Version.Number != want {
			t.Errorf("%s goes on with %d, %v; want %d", name, result.Version.Number, err, want)
		}
	}
}

func (h Harness) testExportOneTenant(t *testing.T) {
	a, b := h.Open(t), h.Open(t)
	furnish(t, a)
	items := archive(t, a, "other")
	want := registry.ImportResult{Created: 1, Values: 1}
	if got, err := rules(b).Import(t.Context(), importing, from(items)); err != nil || got != want {
		t.Errorf("Import: %+v, %v; want %+v", got, err, want)
	}
	if _, _, _, all := snapshot(t, b); len(all) != 1 {
		t.Errorf("%d scripts, want 1", len(all))
	}
	wantSources(t, b)
}

// testExportIsOfOneMoment: what changes while somebody exports does not show.
func (h Harness) testExportIsOfOneMoment(t *testing.T) {
	s := h.Open(t)
	furnish(t, s)
	want := comparable(archive(t, s, ""))
	var items []registry.Item
	for item, err := range rules(s).Export(t.Context(), registry.ExportRequest{By: access.Everybody("unix")}) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Header != nil { // and not before: the export has begun
			w := write(named(1))
			w.Force = true
			_, first := rules(s).Publish(t.Context(), registry.PublishRequest{Write: w, Source: []byte("later")})
			_, second := rules(s).Delete(t.Context(), registry.DeleteRequest{Write: w})
			_, third := rules(s).Publish(t.Context(), registry.PublishRequest{Write: write(named(3)), Source: []byte("later")})
			if first != nil || second != nil || third != nil {
				t.Fatal(first, second, third)
			}
			put(t, s, keyed("acme", "flags/a"), "later")
			remove(t, s, keyed("acme", "empty"))
			set(t, s, "acme", 0)
		}
		items = append(items, item)
	}
	if got := comparable(items); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
