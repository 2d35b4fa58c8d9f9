package storetest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// largest is a transaction as large as a change set can be: of scripts that each drop as many
// versions as they can have, and of so many values, with so many bytes in all.
func largest(t *testing.T, s registry.Store, contents int) *batch {
	t.Helper()
	var current [script.MaxChangeSetScripts]script.Release
	for i := range current {
		for v := range script.MaxHistoryLimit + 2 {
			current[i] = commit(t, s, publish(current[i], named(i), fmt.Sprint(i, " ", v)))
		}
	}
	each := contents / (script.MaxChangeSetScripts + script.MaxChangeSetValues)
	old := &batch{t: t, s: s, Together: registry.Together{Set: changeSet("old")}}
	old.put("old", "old")
	b := &batch{t: t, s: s, Together: registry.Together{Drop: &script.ChangeSet{Tenant: "acme", Name: "old", Revision: old.commit()}}}
	for i, cur := range current {
		b.publish(cur, named(i), fmt.Sprint("source ", i, strings.Repeat("s", each-9)))
		c := &b.Releases[i]
		for _, v := range cur.Retained {
			c.Drop = append(c.Drop, v.Number)
		}
		c.TenantGuard = new(script.Revision)
	}
	for i := range script.MaxChangeSetValues {
		b.put(fmt.Sprint(strings.Repeat("k", script.MaxValueKeyLen-3), i), fmt.Sprint("content ", i, strings.Repeat("c", each-10)))
	}
	b.Set = changeSet("largest")
	return b
}

// testTogetherAtItsLargest: a change set within its bounds is within those of the store.
func (h Harness) testTogetherAtItsLargest(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	b := largest(t, s, script.MaxChangeSetBytes)
	before := snapshotOf(t, s).Head
	revision := b.commit()
	tx := next(t, s, before)
	if tx.Revision != revision || len(tx.Releases) != script.MaxChangeSetScripts || len(tx.Values) != script.MaxChangeSetValues {
		t.Errorf("the watch yields %d scripts and %d values", len(tx.Releases), len(tx.Values))
	}
	if len(tx.Sources) == 0 {
		t.Error("no content comes with the transaction")
	}
	for _, c := range b.Releases {
		if v, err := s.Version(ctx, c.Release.Name, c.Publish.Number); err != nil || v.Digest != c.Publish.Digest {
			t.Errorf("version %d of %s: %+v, %v", c.Publish.Number, c.Release.Name, v, err)
		}
		for _, number := range c.Drop {
			if _, err := s.Version(ctx, c.Release.Name, number); script.KindOf(err) != script.NotFound {
				t.Errorf("version %d of %s is still there: %v", number, c.Release.Name, err)
			}
		}
	}
	wantContents(t, s)
}

// wantContents checks that what all objects need is there.
func wantContents(t *testing.T, s registry.Store) {
	t.Helper()
	for o, err := range snapshotOf(t, s).Objects() {
		if err != nil {
			t.Fatal(err)
		}
		for digest := range o.Retained {
			if content, err := s.Source(t.Context(), digest); (err != nil || script.DigestOf(content) != digest) && o.Value != nil {
				t.Errorf("%s has no content: %v", o.Key(), err)
			}
		}
	}
}

// testTogetherInSeveralRequests: contents that one request to the store cannot take, such as those
// that a rollback brings back, come to it all the same.
func (h Harness) testTogetherInSeveralRequests(t *testing.T) {
	s := h.Open(t)
	b := &batch{t: t, s: s}
	for i := range 5 {
		b.put(fmt.Sprint("key-", i), strings.Repeat(fmt.Sprint(i), 900<<10))
	}
	b.publish(script.Release{}, named(1), strings.Repeat("s", 700<<10))
	b.publish(script.Release{}, named(2), "small")
	before := snapshotOf(t, s).Head
	revision := b.commit()
	if tx := next(t, s, before); tx.Revision != revision || len(tx.Values) != 5 || len(tx.Releases) != 2 {
		t.Errorf("the watch yields %d values and %d scripts at %d, want five and two at %d", len(tx.Values), len(tx.Releases), tx.Revision, revision)
	}
	wantContents(t, s)
	wantSources(t, s)
}

// testTogetherTrimsHistories: the history of each script stays bounded.
func (h Harness) testTogetherTrimsHistories(t *testing.T) {
	s := h.Open(t)
	var current [2]script.Release
	var revision script.Revision
	const rounds = registry.MaxHistory + 25
	for range rounds {
		b := &batch{t: t, s: s}
		for n, cur := range current {
			b.publish(cur, named(n), "source")
		}
		revision = b.commit()
		for n := range current {
			current[n] = b.Releases[n].Release
			current[n].Revision, current[n].Retained = revision, nil
		}
	}
	for n := range current {
		lines, err := s.History(t.Context(), named(n))
		if err != nil || len(lines) != registry.MaxHistory || lines[0].Revision != revision || lines[0].Version != rounds {
			t.Errorf("the history of %s has %d lines, %v", named(n), len(lines), err)
		}
	}
}

// testChangeSets: records come as they were written, in order, of one tenant alone.
func (h Harness) testChangeSets(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	_, err := s.ChangeSet(ctx, "acme", "cart-1")
	wantKind(t, err, script.NotFound)
	var want []script.ChangeSet
	for i, name := range []string{"cart-2", "cart-1", "cart-10"} {
		b := &batch{t: t, s: s}
		b.put("a", fmt.Sprint(i))
		b.Set = changeSet(name)
		b.Set.Revision = 7 // which is not the record's
		revision := b.commit()
		set := changeSet(name)
		set.Revision = revision
		want = append(want, *set)
	}
	other := changeSet("cart-1")
	other.Tenant = "acme-b"
	b := &batch{t: t, s: s, Together: registry.Together{Set: other}}
	b.publish(script.Release{}, script.Name{Tenant: "acme-b", Script: "x"}, "x")
	b.commit()
	s = h.Reopen(t, s)
	slices.SortFunc(want, func(a, b script.ChangeSet) int { return strings.Compare(a.Name, b.Name) })
	if got, lost, err := s.ChangeSets(ctx, "acme"); err != nil || len(lost) != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("the change sets: %+v without %v, %v; want %+v", got, lost, err, want)
	}
	for _, set := range want {
		if got, err := s.ChangeSet(ctx, "acme", set.Name); err != nil || !reflect.DeepEqual(got, set) {
			t.Errorf("%s: %+v, %v; want %+v", set.Name, got, err, set)
		}
	}
	b = &batch{t: t, s: s, Together: registry.Together{Set: changeSet("cart-1"), SetGuard: want[0].Revision, Drop: &script.ChangeSet{Tenant: "acme", Name: "cart-2", Revision: want[2].Revision - 1}}}
	b.put("a", "last")
	_, err = s.CommitTogether(ctx, b.Together)
	wantKind(t, err, script.Conflict)
	b.Drop = &want[2]
	revision := b.commit()
	if got, _, err := s.ChangeSets(ctx, "acme"); err != nil || len(got) != 2 || got[0].Name != "cart-1" || got[0].Revision != revision || got[1].Name != "cart-10" {
		t.Errorf("after one was dropped: %+v, %v", got, err)
	}
	if got, _, err := s.ChangeSets(ctx, "acme-b"); err != nil || len(got) != 1 {
		t.Errorf("of another tenant: %+v, %v", got, err)
	}
}

// testUnreadableChangeSet: a record that cannot be read is named, and can be replaced and dropped.
func (h Harness) testUnreadableChangeSet(t *testing.T) {
	for _, record := range []string{"\xff\xff\xff", "", "\x0a\x05other\x12\x05other"} {
		s, ctx := h.Open(t), t.Context()
		for _, name := range []string{"cart-1", "cart-2"} {
			b := &batch{t: t, s: s, Together: registry.Together{Set: changeSet(name)}}
			b.put("a", name)
			b.commit()
		}
		h.Spoil(t, s, "changesets/acme/cart-1", record, false)
		_, err := s.ChangeSet(ctx, "acme", "cart-1")
		wantKind(t, err, script.Internal)
		u, ok := errors.AsType[*registry.Unreadable](err)
		if !ok || u.Key != "changesets/acme/cart-1" || u.Revision == 0 {
			t.Fatalf("%q: the error is %v", record, err)
		}
		sets, lost, err := s.ChangeSets(ctx, "acme")
		if err != nil || len(sets) != 1 || sets[0].Name != "cart-2" || !slices.Equal(lost, []string{"cart-1"}) {
			t.Errorf("%q: %+v without %v, %v", record, sets, lost, err)
		}
		b := &batch{t: t, s: s, Together: registry.Together{Set: changeSet("cart-3"), Drop: &script.ChangeSet{Tenant: "acme", Name: "cart-1", Revision: u.Revision}}}
		b.put("a", "again")
		b.commit()
		if sets, lost, err := s.ChangeSets(ctx, "acme"); err != nil || len(sets) != 2 || len(lost) != 0 {
			t.Errorf("%q: after it was dropped: %+v without %v, %v", record, sets, lost, err)
		}
		h.Spoil(t, s, "changesets/acme/cart-2", record, false)
		_, err = s.ChangeSet(ctx, "acme", "cart-2")
		if u, ok = errors.AsType[*registry.Unreadable](err); !ok {
			t.Fatalf("%q: the error is %v", record, err)
		}
		b = &batch{t: t, s: s, Together: registry.Together{Set: changeSet("cart-2"), SetGuard: u.Revision}}
		b.put("a", "replaced")
		revision := b.commit()
		if set, err := s.ChangeSet(ctx, "acme", "cart-2"); err != nil || set.Revision != revision {
			t.Errorf("%q: after it was replaced: %+v, %v", record, set, err)
		}
	}
}

// testTogetherNotesARequest: what was asked for with an id is made once.
func (h Harness) testTogetherNotesARequest(t *testing.T) {
	s, ctx, id := h.Open(t), t.Context(), rand.Text()
	b := &batch{t: t, s: s}
	for i := range 2 {
		b.publish(script.Release{}, named(i), "source")
	}
	b.Releases[1].RequestID, b.Releases[1].Fingerprint = id, asked("both")
	revision := b.commit()
	done, ok, err := s.Request(ctx, named(1), id)
	if err != nil || !ok || done.Fingerprint != asked("both") || done.Revision != revision || done.Version != 1 {
		t.Errorf("the request came to %+v, %v, %v", done, ok, err)
	}
	again := &batch{t: t, s: s}
	for i := range 2 {
		cur := b.Releases[i].Release
		cur.Revision = revision
		again.publish(cur, named(i), "again")
	}
	again.Releases[1].RequestID = id
	_, err = s.CommitTogether(ctx, again.Together)
	wantKind(t, err, script.Conflict)
}

// testRecordAlone: a record that changes by itself is no transaction of the head, and nobody who
// watches sees it.
func (h Harness) testRecordAlone(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	put(t, s, keyed("acme", "a"), "x")
	before := snapshotOf(t, s)
	b := &batch{t: t, s: s, Together: registry.Together{Set: changeSet("cart-1")}}
	revision := b.commit()
	if set, err := s.ChangeSet(ctx, "acme", "cart-1"); err != nil || set.Revision != revision {
		t.Errorf("the record: %+v, %v; want revision %d", set, err, revision)
	}
	if after := snapshotOf(t, s); after.Head != before.Head || after.Written != before.Written {
		t.Errorf("the head is %d after %d transactions, want %d after %d", after.Head, after.Written, before.Head, before.Written)
	}
	last := put(t, s, keyed("acme", "a"), "y")
	if tx := next(t, s, before.Head); tx.Revision != last.Revision {
		t.Errorf("the watch yields %+v, want revision %d first", tx, last.Revision)
	}
	if _, err := s.CommitTogether(ctx, registry.Together{}); err == nil {
		t.Error("nothing at all was committed")
	}
}

// testCollectorOfStagedContents: what is staged for a candidate stays until the candidate is gone.
func (h Harness) testCollectorOfStagedContents(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	c := collector(s)
	staged := []byte("staged")
	b := &batch{t: t, s: s, Together: registry.Together{Set: changeSet("cart-1")}}
	first := commit(t, s, publish(script.Release{}, named(1), "one"))
	putSource(t, s, string(staged))
	trial := tried(first, "two")
	trial.Release.Candidate.Set = &script.Membership{
		Name: "cart-1", Attempt: 1 << 40, Scripts: []string{"s0001"},
		Values: []script.StagedValue{{Key: "flags/a", Digest: script.DigestOf(staged), Size: len(staged)}},
	}
	b.Releases = []registry.Commit{trial}
	revision := b.commit()
	for range 3 {
		if got, err := c.Collect(ctx); err != nil || got.Sources != 0 {
			t.Errorf("a content that is staged: %+v, %v", got, err)
		}
	}
	content, err := s.Source(ctx, script.DigestOf(staged))
	if err != nil || !bytes.Equal(content, staged) {
		t.Errorf("the content that is staged: %q, %v", content, err)
	}
	over := trial.Release
	over.Candidate = nil
	commit(t, s, registry.Commit{Guard: revision, Release: over})
	for round, want := range []int{0, 1, 0} {
		if got, err := c.Collect(ctx); err != nil || got.Sources != want {
			t.Errorf("round %d after the candidate is gone: %+v, %v; want %d sources", round, got, err, want)
		}
	}
	_, err = s.Source(ctx, script.DigestOf(staged))
	wantKind(t, err, script.NotFound)
}
