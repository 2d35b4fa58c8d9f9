package registry_test

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

func (b *bench) export(by access.Identity, tenant string) ([]registry.Item, error) {
	var items []registry.Item
	for item, err := range b.Export(b.t.Context(), registry.ExportRequest{By: by, Tenant: tenant}) {
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
	return items, nil
}

// archive is that of a script with two versions.
func archive(t *testing.T) []registry.Item {
	t.Helper()
	b := newBench(t)
	b.publish("one", settings(script.Settings{HistoryLimit: 4}))
	b.publish("two")
	items, err := b.export(everybody, "")
	if err != nil || len(items) != 5 {
		t.Fatalf("%d items, %v; want a header, two sources, what both versions run with, and a script", len(items), err)
	}
	items[2], items[3] = items[3], items[2] // the second source, and what they run with
	return items
}

func from(items []registry.Item) iter.Seq2[registry.Item, error] {
	return func(yield func(registry.Item, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// TestStepsOfManyLabelsAreExported: what the history says of them is no longer than an archive may
// have it, and says what the step was begun for.
func TestStepsOfManyLabelsAreExported(t *testing.T) {
	labels := map[string]string{}
	for i := range script.MaxSelectorLabels {
		labels[strings.Repeat("n", 60)+fmt.Sprint(i)] = strings.Repeat("v", script.MaxAgentLabelLen)
	}
	selector, err := script.NewAgentSelector("selector", labels)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.publish("one")
	r := b.publish("two", settings(script.Settings{Rollout: script.Plan{Steps: []script.Step{{Selector: selector, Percent: 50}, {Selector: selector}}}})).Release
	for step := 1; step <= 2; step++ {
		req := registry.AdvanceRequest{Name: route, At: r.Revision, Move: registry.Move{Step: step, Threshold: script.AllSelected}}
		if step == 2 {
			req.Evidence = "step 1: it ran on 7 of 7 agents"
		}
		result, err := b.Advance(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		r = result.Release
	}
	lines, err := b.History(t.Context(), everybody, route)
	if err != nil || !strings.HasPrefix(lines[0].Note, "step 2 of 2: version 2 on the agents with nnn") || !strings.HasSuffix(lines[0].Note, "; step 1: it ran on 7 of 7 agents") {
		t.Errorf("history: %q, %v", lines[0].Note, err)
	}
	items, err := b.export(everybody, "")
	if err != nil {
		t.Fatal(err)
	}
	to := newBench(t)
	if _, err := to.Import(t.Context(), importing(everybody), from(items)); err != nil {
		t.Fatal(err)
	}
	if c := to.get().Candidate; c == nil || c.Step != 0 || len(c.Selections) != 0 {
		t.Errorf("the candidate that was imported is %+v: it is to begin anew", c)
	}
}

func importing(by access.Identity) registry.ImportRequest {
	return registry.ImportRequest{By: by, Author: "eve"}
}

// altered returns a copy of the archive, changed.
func altered(items []registry.Item, change func(sources []*registry.Source, rec *registry.Record)) []registry.Item {
	items = slices.Clone(items)
	var sources []*registry.Source
	var record *registry.Record
	for i := range items {
		if s := items[i].Source; s != nil {
			c := *s
			c.Content = slices.Clone(c.Content)
			items[i].Source, sources = &c, append(sources, &c)
		}
		if r := items[i].Record; r != nil {
			c := *r
			c.Versions, c.History, c.Release.Retained = slices.Clone(c.Versions), slices.Clone(c.History), slices.Clone(c.Release.Retained)
			items[i].Record, record = &c, &c
		}
	}
	change(sources, record)
	return items
}

// TestImportRefuses: an archive that is torn or was altered is refused, and nothing
// of it is stored.
func TestImportRefuses(t *testing.T) {
	whole := archive(t)
	alter := func(change func(sources []*registry.Source, rec *registry.Record)) []registry.Item {
		return altered(whole, change)
	}
	release := func(change func(r *script.Release)) []registry.Item {
		return alter(func(_ []*registry.Source, rec *registry.Record) { change(&rec.Release) })
	}
	for what, c := range map[string]struct {
		items []registry.Item
		kind  script.Kind
		says  string
	}{
		"torn before the script":       {whole[:4], script.Invalid, "torn"},
		"a source is missing":          {slices.Concat(whole[:2], whole[3:]), script.Invalid, "torn"},
		"what it runs with is missing": {slices.Concat(whole[:3], whole[4:]), script.Invalid, "torn"},
		"another config":               {release(func(r *script.Release) { r.Settings.Config = []byte(`{"a":1}`) }), script.Invalid, "settings"},
		"what it runs with was altered": {alter(func(s []*registry.Source, rec *registry.Record) {
			s[2].Content = []byte(`{"limits":{"sourceBytes":-1}}`)
			s[2].Digest = script.DigestOf(s[2].Content)
			for i := range rec.Versions {
				rec.Versions[i].Spec, rec.Versions[i].SpecSize = s[2].Digest, len(s[2].Content)
				rec.Release.Retained[i].Spec, rec.Release.Retained[i].SpecSize = s[2].Digest, len(s[2].Content)
			}
		}), script.Invalid, "settings"},
		"a source was altered": {alter(func(s []*registry.Source, _ *registry.Record) { s[0].Content[0] ^= 1 }), script.Invalid, "altered"},
		"a source was emptied": {alter(func(s []*registry.Source, _ *registry.Record) { s[0].Content = nil }), script.Invalid, "empty"},
		"it does not compile": {alter(func(s []*registry.Source, rec *registry.Record) {
			digest := script.DigestOf([]byte("broken"))
			s[0].Content, s[0].Digest = []byte("broken"), digest
			rec.Versions[0].Digest, rec.Versions[0].Size = digest, 6
			rec.Release.Retained[0] = rec.Versions[0]
			rec.Release.Retained[0].Author, rec.Release.Retained[0].Note = "", ""
		}), script.Script, "acme/route"},
		"another size": {alter(func(_ []*registry.Source, rec *registry.Record) {
			rec.Versions[0].Size, rec.Release.Retained[0].Size = 99, 99
		}), script.Invalid, "99"},
		"the release has another digest": {release(func(r *script.Release) { r.Retained[0].Digest[3] ^= 1 }), script.Invalid, "number 1"},
		"a version is missing":           {alter(func(_ []*registry.Source, rec *registry.Record) { rec.Versions = rec.Versions[1:] }), script.Invalid, "retains 2"},
		"no versions":                    {alter(func(_ []*registry.Source, rec *registry.Record) { rec.Versions, rec.Release.Retained = nil, nil }), script.Invalid, "retains 0"},
		"versions out of order": {alter(func(_ []*registry.Source, rec *registry.Record) {
			slices.Reverse(rec.Versions)
			slices.Reverse(rec.Release.Retained)
		}), script.Invalid, "order"},
		"numbers above the latest":  {release(func(r *script.Release) { r.Latest = 1 }), script.Invalid, "order"},
		"no number":                 {release(func(r *script.Release) { r.Latest = 0 }), script.Invalid, "no version"},
		"active is not the newest":  {release(func(r *script.Release) { r.Active = r.Retained[0] }), script.Invalid, "not pinned"},
		"active is not retained":    {release(func(r *script.Release) { r.Active.Number = 7 }), script.Invalid, "retained"},
		"a tombstone with versions": {release(func(r *script.Release) { r.Deleted = true }), script.Invalid, "deleted"},
		"a bad name":                {release(func(r *script.Release) { r.Name.Script = "../x" }), script.Invalid, "label"},
		"a bad owner":               {release(func(r *script.Release) { r.Owner = "\x1b[31m" }), script.Invalid, "control"},
		"a bad config":              {release(func(r *script.Release) { r.Settings.Config = []byte("[") }), script.Invalid, "JSON"},
		"an unknown engine": {alter(func(_ []*registry.Source, rec *registry.Record) {
			for i := range rec.Versions {
				rec.Versions[i].Engine, rec.Release.Retained[i].Engine = "cobol", "cobol"
			}
			rec.Release.Active.Engine = "cobol"
		}), script.Invalid, "cobol"},
		"a bad entrypoint": {alter(func(_ []*registry.Source, rec *registry.Record) {
			rec.Versions[0].Entrypoint, rec.Release.Retained[0].Entrypoint = "a-b", "a-b"
		}), script.Invalid, "function"},
		"a bad author": {alter(func(_ []*registry.Source, rec *registry.Record) { rec.Versions[0].Author = "\x00" }), script.Invalid, "control"},
		"a bad line":   {alter(func(_ []*registry.Source, rec *registry.Record) { rec.History[0].Change = "Rm -rf" }), script.Invalid, "label"},
		"held since a time that JSON does not have": {release(func(r *script.Release) {
			r.Pinned, r.Hold = true, &script.Hold{Author: "ann", Since: time.Unix(1<<40, 0)}
		}), script.Invalid, "year"},
		"a version of such a time": {alter(func(_ []*registry.Source, rec *registry.Record) {
			rec.Versions[0].CreatedAt, rec.Release.Retained[0].CreatedAt = time.Unix(-1<<40, 0), time.Unix(-1<<40, 0)
		}), script.Invalid, "year"},
		"a line of such a time": {alter(func(_ []*registry.Source, rec *registry.Record) { rec.History[0].Time = time.Unix(1<<62, 0) }), script.Invalid, "year"},
		"too many lines": {alter(func(_ []*registry.Source, rec *registry.Record) {
			rec.History = make([]script.HistoryEntry, registry.MaxHistory+1)
		}), script.Invalid, "lines"},
	} {
		t.Run(what, func(t *testing.T) {
			for _, dry := range []bool{false, true} {
				b := newBench(t)
				req := importing(everybody)
				req.DryRun = dry
				result, err := b.Import(t.Context(), req, from(c.items))
				if script.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.says) {
					t.Errorf("%v; want %s, saying %q", err, c.kind, c.says)
				}
				if b.head() != 0 || result != (registry.ImportResult{}) {
					t.Errorf("it was stored: %+v", result)
				}
				for _, item := range c.items {
					if item.Source == nil {
						continue
					}
					if _, err := b.store.Source(t.Context(), item.Source.Digest); script.KindOf(err) != script.NotFound {
						t.Errorf("a source was stored: %v", err)
					}
				}
			}
		})
	}
}

func TestImportOverWhatIsThere(t *testing.T) {
	items := archive(t)
	ctx := t.Context()
	b := newBench(t)
	b.publish("mine", func(r *registry.PublishRequest) { r.Owner = cr })
	for i := range 4 {
		b.publish(fmt.Sprint("mine ", i), func(r *registry.PublishRequest) { r.Owner = cr })
	}
	head := b.head()
	_, err := b.Import(ctx, importing(everybody), from(items))
	wantKind(t, err, script.Conflict, "name")
	if b.head() != head {
		t.Error("a conflict was stored")
	}
	over := importing(who(t, "root", "acme", access.Admin))
	over.Overwrite = true
	if result, err := b.Import(ctx, over, from(items)); err != nil || result.Replaced != 1 {
		t.Fatalf("overwrite: %+v, %v", result, err)
	}
	r := b.get()
	wantRelease(t, r, 2, 5, false)
	if r.Owner != "" || r.Settings.HistoryLimit != 4 || fmt.Sprint(retained(r)) != "[1 2]" {
		t.Errorf("overwritten: %+v", r)
	}
	for e := range b.lastAudits(1) {
		if !e.Forced || e.Identity != "root" || e.Change != script.ChangeImport || e.Author != "eve" {
			t.Errorf("the audit trail says %+v", e)
		}
	}
	if result, err := b.Import(ctx, over, from(items)); err != nil || result.Unchanged != 1 {
		t.Errorf("again: %+v, %v; want it unchanged", result, err)
	}
	// It goes on as any script, with numbers that nobody has had.
	if again := b.publish("two"); again.Changed {
		t.Errorf("the newest version again: %+v; want nothing new", again)
	}
	if _, err := b.Pin(ctx, registry.PinRequest{Write: write(route), Version: 1}); err != nil {
		t.Error(err)
	}
	if r, err := b.LiftHold(ctx, registry.LiftHoldRequest{Write: write(route)}); err != nil || r.Release.Active.Number != 2 {
		t.Errorf("release: %+v, %v; want the newest that there is", r, err)
	}
	if next := b.publish("next"); next.Version.Number != 6 {
		t.Errorf("the next version is %d, want 6", next.Version.Number)
	}
}

// TestImportOverADeletedScript: its numbers get another meaning only where that is
// asked for, and then it comes back.
func TestImportOverADeletedScript(t *testing.T) {
	items := archive(t)
	ctx := t.Context()
	for what, purge := range map[string]bool{"a tombstone": false, "a version floor": true} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			b.publish("mine")
			b.remove()
			if purge {
				tombstone, err := b.store.Release(ctx, route)
				if err == nil {
					err = b.store.Purge(ctx, script.Object{Release: &tombstone})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, dry := range []bool{true, false} {
				req := importing(everybody)
				req.DryRun = dry
				_, err := b.Import(ctx, req, from(items))
				wantKind(t, err, script.Conflict, "name")
			}
			over := importing(everybody)
			over.Overwrite = true
			if result, err := b.Import(ctx, over, from(items)); err != nil || result.Created != 1 {
				t.Errorf("%+v, %v", result, err)
			}
			if got := b.get(); got.Latest != 2 || got.Active.Number != 2 {
				t.Errorf("%+v; want version 2", got)
			}
		})
	}
	// Numbers that it has not had yet are no conflict.
	b := newBench(t)
	b.publish("one")
	b.remove()
	later := altered(items, func(_ []*registry.Source, rec *registry.Record) {
		rec.Versions, rec.Release.Retained = rec.Versions[1:], rec.Release.Retained[1:]
	})
	later = slices.Delete(later, 1, 2) // the first source
	if result, err := b.Import(ctx, importing(everybody), from(later)); err != nil || result.Created != 1 {
		t.Errorf("with later numbers: %+v, %v", result, err)
	}
}

// TestImportTakesNoOthersSource: who knows the digest of another tenant's source
// does not get it by that.
func TestImportTakesNoOthersSource(t *testing.T) {
	items := archive(t)
	without := append(slices.Clone(items[:1]), items[4]) // no sources
	ctx := t.Context()
	b := newBench(t)
	for _, source := range []string{"one", "two"} {
		other := registry.PublishRequest{Write: write(script.Name{Tenant: "shop", Script: "s"}), Source: []byte(source), Entrypoint: "handle"}
		if _, err := b.Publish(ctx, other); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Import(ctx, importing(everybody), from(without))
	wantKind(t, err, script.Invalid, "versions")
	// Nor once an archive has brought a script of that tenant.
	others := altered(items, func(_ []*registry.Source, rec *registry.Record) {
		rec.Release.Name = script.Name{Tenant: "shop", Script: "s"}
	})
	_, err = b.Import(ctx, importing(everybody), from(slices.Concat(without[:1], others[4:], without[1:])))
	if script.KindOf(err) == "" {
		t.Error("the source of another script was taken")
	}
	// One that the script has need not come again.
	if _, err := b.Import(ctx, importing(everybody), from(items)); err != nil {
		t.Fatal(err)
	}
	over := importing(everybody)
	over.Overwrite = true
	own := altered(without, func(_ []*registry.Source, rec *registry.Record) { rec.Release.Owner = "me" })
	if result, err := b.Import(ctx, over, from(own)); err != nil || result.Replaced != 1 {
		t.Errorf("with the sources it has: %+v, %v", result, err)
	}
}

// TestImportsAreFew: an import that may come to nothing holds no memory of the
// registry's, and no more than two hold any.
func TestImportsAreFew(t *testing.T) {
	items := archive(t)
	ctx := t.Context()
	b := newBench(t)
	_, err := b.Import(ctx, importing(who(t, "x", "*", access.Read, access.Publish, access.Release)), func(func(registry.Item, error) bool) {
		t.Error("it is read although who sends it is admin of nothing")
	})
	wantKind(t, err, script.Denied, "tenant")
	slow := func(then func()) iter.Seq2[registry.Item, error] {
		return func(yield func(registry.Item, error) bool) {
			then()
			from(items)(yield)
		}
	}
	_, err = b.Import(ctx, importing(everybody), slow(func() {
		_, err := b.Import(ctx, importing(everybody), slow(func() {
			_, err := b.Import(ctx, importing(everybody), from(items))
			wantKind(t, err, script.Overloaded, "")
		}))
		if err != nil {
			t.Error(err)
		}
	}))
	if err != nil {
		t.Error(err)
	}
	if _, err := b.Import(ctx, importing(everybody), from(items)); err != nil {
		t.Errorf("after the others: %v", err)
	}
}

func TestArchivesTakeARole(t *testing.T) {
	items := archive(t)
	for what, by := range map[string]access.Identity{
		"nobody": {}, "others": who(t, "x", "shop", access.Admin), "no admin": who(t, "x", "*", access.Read, access.Publish, access.Release),
	} {
		b := newBench(t)
		if _, err := b.Import(t.Context(), importing(by), from(items)); script.KindOf(err) != script.Denied || b.head() != 0 {
			t.Errorf("import by %s: %v", what, err)
		}
		for _, tenant := range []string{"", "acme"} {
			if got, err := b.export(by, tenant); script.KindOf(err) != script.Denied || len(got) > 0 {
				t.Errorf("export of %q by %s: %v", tenant, what, err)
			}
		}
	}
	b := newBench(t)
	admin := who(t, "x", "acme", access.Admin)
	if _, err := b.Import(t.Context(), importing(admin), from(items)); err != nil {
		t.Error(err)
	}
	if got, err := b.export(admin, "acme"); err != nil || len(got) != 5 {
		t.Errorf("%d items, %v", len(got), err)
	}
	_, err := b.export(admin, "")
	wantKind(t, err, script.Denied, "tenant")
	_, err = b.export(everybody, "No")
	wantKind(t, err, script.Invalid, "tenant")
	_, err = b.Import(t.Context(), registry.ImportRequest{By: everybody}, from(items))
	wantKind(t, err, script.Invalid, "author")
}

// TestImportValues: an import keeps values and settings that differ, unless the request says
// to replace them. It refuses what was altered, is too much, or is of a tenant that the caller
// is no admin of.
func TestImportValues(t *testing.T) {
	from1, ctx := newBench(t), t.Context()
	from1.set("acme", &script.TenantSettings{ValueBytes: 100})
	from1.put(flag, "on")
	items, err := from1.export(everybody, "")
	if err != nil || len(items) != 3 {
		t.Fatalf("%d items, %v; want a header, the settings and a value", len(items), err)
	}
	alter := func(change func(v *registry.ValueRecord)) []registry.Item {
		v := *items[2].Value
		v.Content = slices.Clone(v.Content)
		change(&v)
		return []registry.Item{items[0], {Value: &v}}
	}
	for what, c := range map[string]struct {
		items []registry.Item
		by    access.Identity
		kind  script.Kind
	}{
		"an altered content": {alter(func(v *registry.ValueRecord) { v.Content[0] ^= 1 }), everybody, script.Invalid},
		"another size":       {alter(func(v *registry.ValueRecord) { v.Value.Size++ }), everybody, script.Invalid},
		"a bad key":          {alter(func(v *registry.ValueRecord) { v.Value.Key.Key = ".." }), everybody, script.Invalid},
		"no admin of it": {items, access.Identity{Name: "who", Grants: []access.Grant{
			{Roles: []access.Role{access.Admin}, Tenants: tenantsOf(t, "zoo")}, {Roles: []access.Role{access.Publish}},
		}}, script.Denied},
		"settings out of bounds": {[]registry.Item{items[0], {Tenant: &script.Tenant{Name: "acme", Settings: script.TenantSettings{CPU: -1}}}}, everybody, script.Invalid},
	} {
		b := newBench(t)
		if result, err := b.Import(ctx, importing(c.by), from(c.items)); script.KindOf(err) != c.kind || result.Values+result.Tenants != 0 || b.head() != 0 {
			t.Errorf("%s: %+v, %v; want %s and nothing stored", what, result, err, c.kind)
		}
	}
	b := newBench(t)
	b.set("acme", &script.TenantSettings{ValueBytes: 1})
	_, err = b.Import(ctx, importing(everybody), from(items[2:]))
	wantKind(t, err, script.Limit, "content")
	_, err = b.Import(ctx, importing(everybody), from(items))
	wantKind(t, err, script.Conflict, "tenant")
	over := importing(everybody)
	over.Overwrite = true
	if result, err := b.Import(ctx, over, from(items)); err != nil || result != (registry.ImportResult{Values: 1, Tenants: 1}) {
		t.Errorf("overwrite: %+v, %v", result, err)
	}
	b.put(flag, "off")
	_, err = b.Import(ctx, importing(everybody), from(items))
	wantKind(t, err, script.Conflict, "key")
	if result, err := b.Import(ctx, over, from(items)); err != nil || result != (registry.ImportResult{Values: 1}) {
		t.Errorf("overwrite: %+v, %v", result, err)
	}
	head := b.head()
	if result, err := b.Import(ctx, importing(everybody), from(items)); err != nil || result != (registry.ImportResult{}) || b.head() != head {
		t.Errorf("again: %+v, %v; want nothing stored", result, err)
	}
}

func tenantsOf(t *testing.T, globs ...string) script.Selector {
	t.Helper()
	selector, err := script.ParseSelector(globs)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}
