package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (h Harness) runTogether(t *testing.T) {
	t.Helper()
	t.Run("Together", h.testTogether)
	t.Run("TogetherAllOrNothing", h.testTogetherAllOrNothing)
	t.Run("TogetherRemoves", h.testTogetherRemoves)
	t.Run("TogetherSharesContents", h.testTogetherSharesContents)
	t.Run("TogetherAtItsLargest", h.testTogetherAtItsLargest)
	t.Run("TogetherTooLargeForOneRequest", h.testTogetherInSeveralRequests)
	t.Run("TogetherTrimsHistories", h.testTogetherTrimsHistories)
	t.Run("TogetherNotesARequest", h.testTogetherNotesARequest)
	t.Run("ChangeSets", h.testChangeSets)
	t.Run("ChangeSetsLiftHolds", h.testChangeSetsLiftHolds)
	t.Run("UnreadableChangeSet", h.testUnreadableChangeSet)
	t.Run("RecordOfAChangeSetAlone", h.testRecordAlone)
	t.Run("CollectorOfStagedContents", h.testCollectorOfStagedContents)
}

// changeSet is the record of a change set, as a registry writes it.
func changeSet(name string) *script.ChangeSet {
	return &script.ChangeSet{
		Tenant: "acme", Name: name, Attempt: 1 << 40, State: script.ChangeSetOnTrial, Reason: "why",
		Plan:    script.Plan{Steps: []script.Step{{Percent: 10, Pause: time.Minute}}},
		Scripts: []script.ChangedScript{{Name: "s0001", Version: 2, Digest: script.DigestOf([]byte("two")), Before: 1}},
		Values: []script.ChangedValue{{
			StagedValue: script.StagedValue{Key: "flags/a", Digest: script.DigestOf([]byte("on")), Size: 2}, Before: 3, Version: 4,
		}},
		Author: "ann", Note: "because", CreatedAt: at, ChangedAt: at.Add(time.Second), Fingerprint: script.DigestOf([]byte("request")),
	}
}

// batch is a transaction in the making.
type batch struct {
	t *testing.T
	s registry.Store
	registry.Together
}

func (b *batch) publish(cur script.Release, name script.Name, source string) {
	c := publish(cur, name, source)
	c.Audit = script.AuditEntry{Time: at, Name: name, Change: script.ChangePublish, Author: "ann"}
	b.Releases = append(b.Releases, c)
}

// value adds a commit of the value, as after the ones before.
func (b *batch) value(key script.ValueKey, decide func(cur registry.DataUsage) registry.ValueCommit) {
	b.t.Helper()
	cur := data(b.t, b.s, key)
	if len(b.Values) > 0 {
		cur.Usage = b.Values[len(b.Values)-1].Usage
	}
	cur.Value.Key = key
	c := decide(cur)
	c.FreezeGuard = cur.Freeze.Revision
	b.Values = append(b.Values, c)
}

func (b *batch) put(key, content string) {
	b.t.Helper()
	k := keyed("acme", key)
	b.value(k, func(cur registry.DataUsage) registry.ValueCommit { return putCommit(cur, k, content) })
}

func (b *batch) remove(key string) {
	b.t.Helper()
	b.value(keyed("acme", key), removeCommit)
}

// commit commits the transaction, which must succeed.
func (b *batch) commit() script.Revision {
	b.t.Helper()
	revision, err := b.s.CommitTogether(b.t.Context(), b.Together)
	if err != nil {
		b.t.Fatalf("CommitTogether: %v", err)
	}
	return revision
}

// next returns the first transaction after the revision.
func next(t *testing.T, s registry.Store, after script.Revision) registry.Transaction {
	t.Helper()
	for tx, err := range s.Watch(t.Context(), after) {
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	return registry.Transaction{}
}

// testTogether: all of a transaction has one revision, and comes with one transaction of a watch.
func (h Harness) testTogether(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	one := commit(t, s, publish(script.Release{}, named(1), "one"))
	put(t, s, keyed("acme", "flags/b"), "12345")
	before := snapshotOf(t, s)
	large := strings.Repeat("l", registry.InlineSourceBytes+1)
	b := &batch{t: t, s: s}
	b.publish(one, named(1), "two")
	b.publish(script.Release{}, named(2), "new")
	b.put("flags/a", "on")
	b.put("flags/b", "off")
	b.put("large", large)
	b.Set = changeSet("cart-1")
	revision := b.commit()

	tx := next(t, s, before.Head)
	if tx.Revision != revision || tx.Foreign || tx.Written != before.Written+1 || len(tx.Releases) != 2 || len(tx.Values) != 3 || len(tx.Tenants)+len(tx.Unreadable) != 0 {
		t.Fatalf("the watch yields %+v, want two scripts and three values at revision %d", tx, revision)
	}
	for o := range tx.Objects() {
		if o.Revision() != revision {
			t.Errorf("%s is at revision %d, want %d", o.Key(), o.Revision(), revision)
		}
	}
	var sources []string
	for _, source := range tx.Sources {
		if source.Digest != script.DigestOf(source.Content) {
			t.Errorf("the content %.20q comes with another digest", source.Content)
		}
		sources = append(sources, string(source.Content))
	}
	slices.Sort(sources)
	if want := []string{"new", "off", "on", "two"}; !slices.Equal(sources, want) {
		t.Errorf("with the transaction come %.99q, want %q", sources, want)
	}
	after := snapshotOf(t, s)
	if after.Head != revision || after.Heads["acme"] != revision || after.Written != before.Written+1 {
		t.Errorf("the head is %d, of acme %d, after %d transactions: want %d, and one more than %d", after.Head, after.Heads["acme"], after.Written, revision, before.Written)
	}
	wantTogether(t, s, revision, large)
	if set, err := s.ChangeSet(ctx, "acme", "cart-1"); err != nil || set.Revision != revision {
		t.Errorf("the change set: %+v, %v; want revision %d", set, err, revision)
	}
	commit(t, s, publish(tx.Releases[0], tx.Releases[0].Name, "later"))
}

func snapshotOf(t *testing.T, s registry.Store) registry.Snapshot {
	t.Helper()
	snapshot, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// wantTogether looks at what testTogether has committed.
func wantTogether(t *testing.T, s registry.Store, revision script.Revision, large string) {
	t.Helper()
	ctx := t.Context()
	for name, latest := range map[script.Name]uint64{named(1): 2, named(2): 1} {
		r, err := s.Release(ctx, name)
		if err != nil || r.Revision != revision || r.Latest != latest {
			t.Errorf("%s: %+v, %v; want version %d at revision %d", name, r, err, latest, revision)
		}
		if v, err := s.Version(ctx, name, latest); err != nil || v.Author != "ann" {
			t.Errorf("version %d of %s: %+v, %v", latest, name, v, err)
		}
		if lines, err := s.History(ctx, name); err != nil || len(lines) != int(latest) || lines[0].Revision != revision {
			t.Errorf("the history of %s: %+v, %v", name, lines, err)
		}
	}
	for key, content := range map[string]string{"flags/a": "on", "flags/b": "off", "large": large} {
		got := data(t, s, keyed("acme", key))
		if got.Value.Revision != revision || got.Usage.Values != 3 || got.Usage.Bytes != int64(len("on")+len("off")+len(large)) {
			t.Errorf("%s: %+v; want revision %d, and three values", key, got, revision)
		}
		if source, err := s.Source(ctx, script.DigestOf([]byte(content))); err != nil || string(source) != content {
			t.Errorf("the content of %s: %d bytes, %v", key, len(source), err)
		}
	}
	entries, _, err := s.Audit(ctx, registry.AuditFilter{}, "", 10)
	entries = slices.DeleteFunc(entries, func(e script.AuditEntry) bool { return e.Revision != revision })
	if err != nil || len(entries) != 5 {
		t.Errorf("the audit trail has %+v at revision %d, want five entries: %v", entries, revision, err)
	}
}

// testTogetherAllOrNothing: whichever guard does not hold, nothing changes.
func (h Harness) testTogetherAllOrNothing(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	one := commit(t, s, publish(script.Release{}, named(1), "one"))
	set(t, s, "acme", 1)
	settings := data(t, s, keyed("acme", "")).Tenant.Revision
	first := &batch{t: t, s: s}
	first.put("flags/a", "on")
	first.Set = changeSet("cart-1")
	record := first.commit()
	freeze, err := s.CommitFreeze(ctx, registry.FreezeCommit{Freeze: frozen("now"), Audit: script.AuditEntry{Time: at, Change: script.ChangeFreeze}})
	if err != nil {
		t.Fatal(err)
	}
	gone := commit(t, s, frozenCommit(tombstone(commit(t, s, frozenCommit(publish(script.Release{}, named(9), "x"), freeze))), freeze))
	if err := s.(registry.Garbage).Purge(ctx, script.Object{Release: &gone}); err != nil {
		t.Fatal(err)
	}
	whole := func() *batch {
		b := &batch{t: t, s: s}
		b.publish(one, named(1), "two")
		b.publish(script.Release{}, named(2), "new")
		b.publish(script.Release{Latest: 1}, named(9), "again")
		b.put("flags/a", "off")
		b.put("flags/b", "12345")
		b.Set, b.SetGuard = changeSet("cart-1"), record
		for i := range b.Releases {
			b.Releases[i].FreezeGuard, b.Releases[i].TenantGuard = freeze, &settings
		}
		return b
	}
	want := everything(t, s)
	head, err := s.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(c *registry.Together){
		"another revision of a script":    func(c *registry.Together) { c.Releases[0].Guard-- },
		"a script that must not be there": func(c *registry.Together) { c.Releases[0].Guard = 0 },
		"a script that is not there":      func(c *registry.Together) { c.Releases[1].Guard = 7 },
		"another version floor":           func(c *registry.Together) { c.Releases[2].Publish.Number = 1 },
		"another freeze of a script":      func(c *registry.Together) { c.Releases[1].FreezeGuard-- },
		"another freeze of a value":       func(c *registry.Together) { c.Values[1].FreezeGuard = 0 },
		"other settings of the tenant":    func(c *registry.Together) { c.Releases[1].TenantGuard = new(settings - 1) },
		"another revision of a value":     func(c *registry.Together) { c.Values[0].Guard-- },
		"a value that must not be there":  func(c *registry.Together) { c.Values[0].Guard = 0 },
		"another usage":                   func(c *registry.Together) { c.Values[0].Usage.Mark--; c.Values[1].Usage.Mark-- },
		"another usage of one value":      func(c *registry.Together) { c.Values[1].Usage.Mark-- },
		"another revision of the record":  func(c *registry.Together) { c.SetGuard-- },
		"a record that must not be there": func(c *registry.Together) { c.SetGuard = 0 },
		"a record that is not there":      func(c *registry.Together) { c.Set = changeSet("cart-2") },
	} {
		b := whole()
		spoil(&b.Together)
		if _, err := s.CommitTogether(ctx, b.Together); script.KindOf(err) != script.Conflict {
			t.Errorf("%s: %v, want a conflict", what, err)
		}
		if got := everything(t, s); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: there is %v, want %v", what, got, want)
		}
		if now, err := s.Head(ctx); err != nil || now != head {
			t.Errorf("%s: the head is %d, want %d; %v", what, now, head, err)
		}
		if set, err := s.ChangeSet(ctx, "acme", "cart-1"); err != nil || set.Revision != record {
			t.Errorf("%s: the record is at %d, want %d: %v", what, set.Revision, record, err)
		}
		if _, err := s.Version(ctx, named(2), 1); script.KindOf(err) != script.NotFound {
			t.Errorf("%s left a version: %v", what, err)
		}
	}
	whole().commit()
}

func frozenCommit(c registry.Commit, freeze script.Revision) registry.Commit {
	c.FreezeGuard = freeze
	return c
}

// testTogetherRemoves: each removal counts, and what the values take is right.
func (h Harness) testTogetherRemoves(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	one := commit(t, s, publish(script.Release{}, named(1), "one"))
	two := commit(t, s, publish(script.Release{}, named(2), "two"))
	fill := &batch{t: t, s: s}
	for i := range 20 {
		fill.put(fmt.Sprint("key-", i), "12345")
	}
	before := fill.commit()
	remove(t, s, keyed("acme", "key-0"))
	b := &batch{t: t, s: s}
	b.Releases = []registry.Commit{tombstone(one), tombstone(two)}
	for i := range 17 {
		b.remove(fmt.Sprint("key-", i+1))
	}
	b.put("key-18", "1")
	middle := b.commit()
	last := remove(t, s, keyed("acme", "key-19"))
	b = &batch{t: t, s: s}
	b.remove("key-18")
	final := b.commit()
	if got := data(t, s, keyed("acme", "key-18")).Usage; got.Values != 0 || got.Bytes != 0 {
		t.Errorf("of nothing: %+v", got)
	}
	made := func(r registry.Removals) (n int64) {
		for counter, made := range r.Made {
			if tenant, _, _ := strings.Cut(counter, "/"); tenant == "acme" {
				n += made
			}
		}
		return n
	}
	for until, want := range map[script.Revision]int64{middle: 20, last.Revision: 21, final: 22} {
		if got := made(watchRemovals(t, s, before, until)); got != want {
			t.Errorf("the watch counts %d removals until %d, want %d", got, until, want)
		}
	}
	if got := made(snapshotOf(t, s).Removals); got != 22 {
		t.Errorf("a snapshot counts %d removals, want 22", got)
	}
	if r, err := s.Release(ctx, named(2)); err != nil || !r.Deleted || r.Revision != middle {
		t.Errorf("%+v, %v; want a tombstone at %d", r, err, middle)
	}
}

// testTogetherSharesContents: two scripts and a value may have one content.
func (h Harness) testTogetherSharesContents(t *testing.T) {
	s := h.Open(t)
	for _, source := range []string{"shared", "shared"} { // which is there the second time
		b := &batch{t: t, s: s}
		for i := range 2 {
			cur, err := s.Release(t.Context(), named(i))
			if err != nil {
				cur = script.Release{}
			}
			b.publish(cur, named(i), source)
		}
		b.put("a", source)
		b.put("b", source)
		before := snapshotOf(t, s).Head
		revision := b.commit()
		tx := next(t, s, before)
		if tx.Revision != revision || len(tx.Sources) != 1 || string(tx.Sources[0].Content) != source || len(tx.Releases)+len(tx.Values) != 4 {
			t.Errorf("the watch yields %+v, want four objects at %d and their content once", tx, revision)
		}
		wantSources(t, s)
	}
}
