// Package storetest is the suite that every registry.Store passes. The stores are a
// registry.Garbage and a usage.Store too.
package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Harness says how to get at the stores under test.
type Harness struct {
	// Open returns an empty store.
	Open func(t *testing.T) registry.Store
	// Reopen returns another store on the same state, as after a restart.
	Reopen func(t *testing.T, s registry.Store) registry.Store
	// Compact makes the store forget the transactions up to the revision.
	Compact func(t *testing.T, s registry.Store, upTo script.Revision)
	// Spoil puts a record that cannot be decoded in place of the object with the key, past
	// the registry. If forgets, the store does not know any more what was there before.
	Spoil func(t *testing.T, s registry.Store, key, record string, forgets bool)
	// Lose removes the record of the object with the key, past the registry.
	Lose func(t *testing.T, s registry.Store, key string)
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	t.Run("Empty", h.testEmpty)
	t.Run("CommitAndRead", h.testCommitAndRead)
	t.Run("Guard", h.testGuard)
	t.Run("GuardUnderContention", h.testContention)
	t.Run("DropAndSharedSource", h.testDrop)
	t.Run("DropMany", h.testDropMany)
	t.Run("Tombstone", h.testTombstone)
	t.Run("Paging", h.testPaging)
	t.Run("History", h.testHistory)
	t.Run("Snapshot", h.testSnapshot)
	t.Run("SnapshotIsInOrder", h.testSnapshotIsInOrder)
	t.Run("SnapshotIsOfOneMoment", h.testSnapshotIsOfOneMoment)
	t.Run("RecordOutlivesTheVersions", h.testRecordOutlivesTheVersions)
	t.Run("LargeSnapshot", h.testLargeSnapshot)
	t.Run("WatchIsComplete", h.testWatchIsComplete)
	t.Run("WatchFromThePast", h.testWatchFromThePast)
	t.Run("WatchAfterCompaction", h.testWatchAfterCompaction)
	t.Run("Restart", h.testRestart)
	t.Run("Requests", h.testRequests)
	t.Run("NoteRequest", h.testNoteRequest)
	t.Run("OneRequestAtOnce", h.testOneRequestAtOnce)
	t.Run("Restore", h.testRestore)
	t.Run("RestoreInPlace", h.testRestoreInPlace)
	t.Run("RestoreMany", h.testRestoreMany)
	t.Run("RestoreOnAVersionFloor", h.testRestoreOnAVersionFloor)
	t.Run("Tombstones", h.testTombstones)
	t.Run("Purge", h.testPurge)
	t.Run("PurgeAtOnce", h.testPurgeAtOnce)
	t.Run("PurgeIsSilent", h.testPurgeIsSilent)
	t.Run("Discard", h.testDiscard)
	t.Run("ManyBlobs", h.testManyBlobs)
	t.Run("Collector", h.testCollector)
	t.Run("CollectorRacesNobody", h.testCollectorRacesNobody)
	t.Run("Values", h.testValues)
	t.Run("RemoveValue", h.testRemoveValue)
	t.Run("ValueGuards", h.testValueGuards)
	t.Run("ValuePaging", h.testValuePaging)
	t.Run("Tenants", h.testTenants)
	t.Run("ObjectsAreWatched", h.testObjectsAreWatched)
	t.Run("TransactionsHaveTraces", h.testTransactionsHaveTraces)
	t.Run("QuotaAtOnce", h.testQuotaAtOnce)
	t.Run("PurgeObjects", h.testPurgeObjects)
	t.Run("Usage", h.testUsage)
	h.runAudits(t)
	h.runValueHistories(t)
	h.runExports(t)
	h.runUnreadable(t)
	h.runRecords(t)
	h.runTogether(t)
}

// at is a time that every store can keep.
var at = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// publish returns the commit of a first or a further version of the script.
func publish(cur script.Release, name script.Name, source string) registry.Commit {
	v := script.Version{
		Number:     cur.Latest + 1,
		Digest:     script.DigestOf([]byte(source)),
		Engine:     "lua",
		Entrypoint: "handle",
		Size:       len(source),
		CreatedAt:  at,
	}
	full := v
	full.Author, full.Note = "ann", "because"
	r := script.Release{
		Name: name, Active: v, Latest: v.Number, Enabled: true, ChangedAt: at,
		Retained: append(slices.Clone(cur.Retained), v),
		Settings: script.Settings{
			Spec: script.Spec{
				Limits: script.Limits{Instructions: 7, Timeout: time.Second},
				Trigger: script.Trigger{Event: "http-request", Priority: -7, Match: script.Match{
					Hosts: []string{"*.a"}, PathPrefixes: []string{"/b"}, Methods: []string{"GET"}, Headers: map[string]string{"x-c": "1"},
				}},
				OnError: script.OnError{Status: 429, Body: "later\n"}, Decisions: &script.Decisions{Sample: 0.5, Mask: []string{"body"}},
				Config: []byte(`{"a":1}`),
			},
			HistoryLimit: 3,
		},
	}
	return registry.Commit{
		Guard: cur.Revision, Release: r, Publish: &full, Source: []byte(source),
		Entry: script.HistoryEntry{Change: script.ChangePublish, Version: v.Number, Digest: v.Digest, Author: "ann", Note: "because", Time: at},
	}
}

func tombstone(cur script.Release) registry.Commit {
	c := registry.Commit{
		Guard:   cur.Revision,
		Release: script.Release{Name: cur.Name, Latest: cur.Latest, Deleted: true, ChangedAt: at},
		Entry:   script.HistoryEntry{Change: script.ChangeDelete, Time: at},
	}
	for _, v := range cur.Retained {
		c.Drop = append(c.Drop, v.Number)
	}
	return c
}

func named(i int) script.Name { return script.Name{Tenant: "acme", Script: fmt.Sprintf("s%04d", i)} }

// commit commits c, which must succeed, and returns the release as it is then.
func commit(t *testing.T, s registry.Store, c registry.Commit) script.Release {
	t.Helper()
	revision, err := s.Commit(t.Context(), c)
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	r := c.Release
	r.Revision = revision
	return r
}

func wantKind(t *testing.T, err error, kind script.Kind) {
	t.Helper()
	if script.KindOf(err) != kind {
		t.Errorf("got error %v, want one of kind %q", err, kind)
	}
}

func same(a, b script.Release) bool {
	return text(a) == text(b)
}

// snapshot takes a snapshot and collects it.
func snapshot(t *testing.T, s registry.Store) (head script.Revision, heads map[string]script.Revision, floor script.Revision, all map[script.Name]script.Release) {
	t.Helper()
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap.Head, snap.Heads, snap.Floor, collect(t, snap)
}

func collect(t *testing.T, snap registry.Snapshot) map[script.Name]script.Release {
	t.Helper()
	all := map[script.Name]script.Release{}
	for r, err := range snap.Releases {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := all[r.Name]; twice {
			t.Errorf("%s came twice", r.Name)
		}
		all[r.Name] = r
	}
	return all
}

func (h Harness) testEmpty(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	if head, err := s.Head(ctx); head != 0 || err != nil {
		t.Errorf("Head: %d, %v", head, err)
	}
	_, err := s.Release(ctx, named(1))
	wantKind(t, err, script.NotFound)
	_, err = s.Version(ctx, named(1), 1)
	wantKind(t, err, script.NotFound)
	_, err = s.Source(ctx, script.DigestOf(nil))
	wantKind(t, err, script.NotFound)
	if all, _, err := s.Releases(ctx, "", script.Name{}, 10); len(all) != 0 || err != nil {
		t.Errorf("Releases: %v, %v", all, err)
	}
	if entries, err := s.History(ctx, named(1)); len(entries) != 0 || err != nil {
		t.Errorf("History: %v, %v", entries, err)
	}
	if sources, err := s.Sources(ctx, []script.Digest{script.DigestOf(nil)}); len(sources) != 0 || err != nil {
		t.Errorf("Sources: %v, %v", sources, err)
	}
	if head, heads, floor, all := snapshot(t, s); head != 0 || len(heads) != 0 || floor != 0 || len(all) != 0 {
		t.Errorf("Snapshot: head %d, heads %v, floor %d, %v", head, heads, floor, all)
	}
	first, err := s.Fleet(ctx)
	if err != nil || first == "" {
		t.Errorf("Fleet: %q, %v", first, err)
	}
	if again, err := s.Fleet(ctx); again != first || err != nil {
		t.Errorf("Fleet again: %q, %v; want %q", again, err, first)
	}
	if head, err := s.Head(ctx); head != 0 || err != nil {
		t.Errorf("Head after Fleet: %d, %v: no release changed", head, err)
	}
}

func (h Harness) testCommitAndRead(t *testing.T) {
	t.Run("OfACandidate", h.testCandidate)
	t.Run("Signed", h.testSigned)
	s, ctx := h.Open(t), t.Context()
	c := publish(script.Release{}, named(1), "return 1")
	want := commit(t, s, c)
	got, err := s.Release(ctx, named(1))
	if err != nil || !same(got, want) {
		t.Errorf("Release:\n got %+v, %v\nwant %+v", got, err, want)
	}
	if v, err := s.Version(ctx, named(1), 1); err != nil || v != *c.Publish {
		t.Errorf("Version: %+v, %v; want %+v", v, err, *c.Publish)
	}
	if source, err := s.Source(ctx, want.Active.Digest); err != nil || string(source) != "return 1" {
		t.Errorf("Source: %q, %v", source, err)
	}
	if head, err := s.Head(ctx); err != nil || head != want.Revision {
		t.Errorf("Head: %d, %v; want %d", head, err, want.Revision)
	}
	next := commit(t, s, publish(want, named(1), "return 2"))
	if next.Revision <= want.Revision {
		t.Errorf("revisions: %d, then %d", want.Revision, next.Revision)
	}
	unknown := script.DigestOf([]byte("nobody wrote this"))
	sources, err := s.Sources(ctx, []script.Digest{next.Active.Digest, unknown, want.Active.Digest})
	if err != nil || len(sources) != 2 {
		t.Fatalf("Sources: %d, %v; want the two that there are", len(sources), err)
	}
	for _, source := range sources {
		if script.DigestOf(source.Content) != source.Digest {
			t.Errorf("the source %q came as %s", source.Content, source.Digest)
		}
	}
}

func (h Harness) testGuard(t *testing.T) {
	t.Run("OfTheTenant", h.testTenantGuard)
	s, ctx := h.Open(t), t.Context()
	first := commit(t, s, publish(script.Release{}, named(1), "one"))
	for name, guard := range map[string]script.Revision{"none": 0, "past": first.Revision - 1, "future": first.Revision + 1} {
		c := publish(first, named(1), "two")
		c.Guard = guard
		_, err := s.Commit(ctx, c)
		if script.KindOf(err) != script.Conflict {
			t.Errorf("guard %s: %v, want a conflict", name, err)
		}
	}
	other := publish(script.Release{}, named(2), "one")
	other.Guard = first.Revision
	_, err := s.Commit(ctx, other)
	wantKind(t, err, script.Conflict)

	if got, err := s.Release(ctx, named(1)); err != nil || !same(got, first) {
		t.Errorf("after conflicts: %+v, %v; want %+v", got, err, first)
	}
	if _, err := s.Version(ctx, named(1), 2); script.KindOf(err) != script.NotFound {
		t.Errorf("a commit that conflicted left a version: %v", err)
	}
	if entries, err := s.History(ctx, named(1)); err != nil || len(entries) != 1 {
		t.Errorf("a commit that conflicted left history: %v, %v", entries, err)
	}
}

// testContention: of all that commit on one guard exactly one succeeds.
func (h Harness) testContention(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	const writers, rounds = 8, 5
	var cur script.Release
	for round := range rounds {
		var wg sync.WaitGroup
		results := make([]error, writers)
		revisions := make([]script.Revision, writers)
		commits := make([]registry.Commit, writers)
		for i := range writers {
			commits[i] = publish(cur, named(1), fmt.Sprintf("round %d writer %d", round, i))
			wg.Go(func() { revisions[i], results[i] = s.Commit(ctx, commits[i]) })
		}
		wg.Wait()
		won := -1
		for i, err := range results {
			switch {
			case err == nil && won < 0:
				won = i
			case err == nil:
				t.Errorf("round %d: two writers got through one guard", round)
			default:
				wantKind(t, err, script.Conflict)
			}
		}
		if won < 0 {
			t.Fatalf("round %d: nobody got through: %v", round, results)
		}
		cur = commits[won].Release
		cur.Revision = revisions[won]
		if got, err := s.Release(ctx, named(1)); err != nil || !same(got, cur) {
			t.Fatalf("round %d: %+v, %v; want %+v", round, got, err, cur)
		}
	}
}

func (h Harness) testDrop(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	one := commit(t, s, publish(script.Release{}, named(1), "shared"))
	commit(t, s, publish(script.Release{}, named(2), "shared"))
	c := publish(one, named(1), "else")
	c.Release.Retained = c.Release.Retained[1:]
	c.Drop = []uint64{1}
	commit(t, s, c)
	_, err := s.Version(ctx, named(1), 1)
	wantKind(t, err, script.NotFound)
	if _, err := s.Version(ctx, named(2), 1); err != nil {
		t.Errorf("another script lost its version: %v", err)
	}
	if source, err := s.Source(ctx, one.Active.Digest); err != nil || string(source) != "shared" {
		t.Errorf("the source that another script shares: %q, %v", source, err)
	}
}

// testDropMany drops as many versions at once as a script can have.
func (h Harness) testDropMany(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	var cur script.Release
	for i := range script.MaxHistoryLimit + 2 {
		cur = commit(t, s, publish(cur, named(1), fmt.Sprint(i)))
	}
	c := publish(cur, named(1), "last")
	for _, v := range cur.Retained {
		c.Drop = append(c.Drop, v.Number)
	}
	c.Release.Retained = c.Release.Retained[len(cur.Retained):]
	want := commit(t, s, c)
	if got, err := s.Release(ctx, named(1)); err != nil || !same(got, want) {
		t.Errorf("Release: %+v, %v; want %+v", got, err, want)
	}
	for number := range want.Latest {
		_, err := s.Version(ctx, named(1), number)
		wantKind(t, err, script.NotFound)
	}
	if _, err := s.Version(ctx, named(1), want.Latest); err != nil {
		t.Error(err)
	}
}

func (h Harness) testTombstone(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	one := commit(t, s, publish(script.Release{}, named(1), "one"))
	two := commit(t, s, publish(script.Release{}, named(2), "two"))
	gone := commit(t, s, tombstone(one))

	if got, err := s.Release(ctx, named(1)); err != nil || !same(got, gone) {
		t.Errorf("Release: %+v, %v; want the tombstone %+v", got, err, gone)
	}
	if all, _, err := s.Releases(ctx, "", script.Name{}, 10); err != nil || len(all) != 1 || !same(all[0], two) {
		t.Errorf("Releases: %+v, %v; want %+v alone", all, err, two)
	}
	_, err := s.Version(ctx, named(1), 1)
	wantKind(t, err, script.NotFound)

	if head, _, _, all := snapshot(t, s); head != gone.Revision || len(all) != 2 || !same(all[named(1)], gone) || !same(all[named(2)], two) {
		t.Errorf("Snapshot: %+v; want the tombstone and what is live", all)
	}
	again := commit(t, s, publish(gone, named(1), "one"))
	if got, err := s.Release(ctx, named(1)); err != nil || !same(got, again) || got.Latest != 2 {
		t.Errorf("made again: %+v, %v; want version 2", got, err)
	}
}

func (h Harness) testPaging(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	// "acme-eu/…" comes before "acme/…": the order is that of the names as text.
	tenants := []string{"acme-eu", "acme", "acme0", "zoo"}
	var want []string
	for _, tenant := range tenants {
		for i := range 7 {
			name := script.Name{Tenant: tenant, Script: fmt.Sprintf("s%d", i)}
			r := commit(t, s, publish(script.Release{}, name, "x"))
			if i%3 == 2 {
				commit(t, s, tombstone(r))
				continue
			}
			want = append(want, name.String())
		}
	}
	slices.Sort(want)
	for _, limit := range []int{1, 2, 3, 100} {
		var got []string
		var after script.Name
		for {
			page, _, err := s.Releases(ctx, "", after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > limit {
				t.Fatalf("a page of %d, the limit is %d", len(page), limit)
			}
			for _, r := range page {
				got = append(got, r.Name.String())
				after = r.Name
			}
			if len(page) < limit {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d:\n got %v\nwant %v", limit, got, want)
		}
	}
	page, _, err := s.Releases(ctx, "acme", script.Name{}, 100)
	if err != nil || len(page) != 5 {
		t.Errorf("tenant acme: %d releases, %v; want 5", len(page), err)
	}
	for _, r := range page {
		if r.Name.Tenant != "acme" {
			t.Errorf("tenant acme has %s", r.Name)
		}
	}
	page, _, err = s.Releases(ctx, "acme", script.Name{Tenant: "acme", Script: "s3"}, 100)
	if err != nil || len(page) != 2 || page[0].Name.Script != "s4" {
		t.Errorf("tenant acme after s3: %v, %v; want s4 and s6", page, err)
	}
}

func (h Harness) testHistory(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	var revisions []script.Revision
	var cur script.Release
	for i := range registry.MaxHistory + 50 {
		if i%10 == 9 {
			cur = commit(t, s, tombstone(cur))
		} else {
			c := publish(cur, named(1), fmt.Sprint(i))
			c.Release.Retained = c.Release.Retained[len(c.Release.Retained)-1:]
			cur = commit(t, s, c)
		}
		revisions = append(revisions, cur.Revision)
	}
	commit(t, s, publish(script.Release{}, script.Name{Tenant: "acme", Script: "s0001-other"}, "x"))
	entries, err := s.History(ctx, named(1))
	if err != nil || len(entries) != registry.MaxHistory {
		t.Fatalf("%d entries, %v; want the last %d", len(entries), err, registry.MaxHistory)
	}
	slices.Reverse(revisions)
	for i, e := range entries {
		if e.Revision != revisions[i] {
			t.Fatalf("entry %d has revision %d, want %d", i, e.Revision, revisions[i])
		}
	}
	newest := entries[0]
	if newest.Change != script.ChangeDelete || newest.Version != 0 || !newest.Digest.IsZero() || !newest.Time.Equal(at) {
		t.Errorf("newest: %+v", newest)
	}
	before := entries[1]
	if before.Change != script.ChangePublish || before.Author != "ann" || before.Note != "because" || before.Digest.IsZero() {
		t.Errorf("the one before: %+v", before)
	}
}

// watching runs a watch: transactions come on one channel, the error that ends it
// on the other.
func watching(ctx context.Context, s registry.Store, after script.Revision) (<-chan registry.Transaction, <-chan error) {
	transactions, ended := make(chan registry.Transaction), make(chan error, 1)
	go func() {
		defer close(transactions)
		for t, err := range s.Watch(ctx, after) {
			if err != nil {
				ended <- err
				return
			}
			select {
			case transactions <- t:
			case <-ctx.Done():
				return
			}
		}
	}()
	return transactions, ended
}
