package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

func (h Harness) testSnapshot(t *testing.T) {
	s := h.Open(t)
	want := map[script.Name]script.Release{}
	for i := range 5 {
		want[named(i)] = commit(t, s, publish(script.Release{}, named(i), "x"))
	}
	want[named(2)] = commit(t, s, tombstone(want[named(2)]))
	other := commit(t, s, publish(script.Release{}, script.Name{Tenant: "other", Script: "s"}, "x"))
	want[other.Name] = other
	last := commit(t, s, publish(want[named(4)], named(4), "y"))
	want[named(4)] = last
	head, heads, floor, got := snapshot(t, s)
	if head != last.Revision || floor != 0 || len(got) != len(want) {
		t.Errorf("head %d, floor %d, %d releases; want %d, 0, %d", head, floor, len(got), last.Revision, len(want))
	}
	for name, r := range want {
		if !same(got[name], r) {
			t.Errorf("%+v, want %+v", got[name], r)
		}
	}
	if len(heads) != 2 || heads["acme"] != last.Revision || heads["other"] != other.Revision {
		t.Errorf("the heads are %v; want acme at %d, other at %d", heads, last.Revision, other.Revision)
	}
}

// testSnapshotIsInOrder: of the names as text, in which a '-' is below the '/' behind
// a tenant.
func (h Harness) testSnapshotIsInOrder(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	for _, name := range []script.Name{{Tenant: "b", Script: "a"}, {Tenant: "a", Script: "z"}, {Tenant: "a-b", Script: "m"}, {Tenant: "a", Script: "a"}} {
		commit(t, s, publish(script.Release{}, name, "x"))
	}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r, err := range snap.Releases {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, r.Name.String())
	}
	if want := "[a-b/m a/a a/z b/a]"; fmt.Sprint(names) != want {
		t.Errorf("got %v, want %s", names, want)
	}
	if id, err := s.Fleet(ctx); err != nil || snap.Fleet == "" || snap.Fleet != id {
		t.Errorf("the snapshot is of %q, the store %q, %v", snap.Fleet, id, err)
	}
}

// testSnapshotIsOfOneMoment: what is committed while somebody reads does not show.
func (h Harness) testSnapshotIsOfOneMoment(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	first := commit(t, s, publish(script.Release{}, named(1), "one"))
	snap, err := s.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, publish(first, named(1), "two"))
	commit(t, s, publish(script.Release{}, named(2), "new"))
	got := collect(t, snap)
	if snap.Head != first.Revision || len(got) != 1 || !same(got[named(1)], first) {
		t.Errorf("head %d: %+v; want what was there at %d", snap.Head, got, first.Revision)
	}
	versions, history, err := s.Record(ctx, first, snap.At)
	if err != nil || len(versions) != 1 || versions[0].Number != 1 || versions[0].Author != "ann" || len(history) != 1 || history[0].Revision != first.Revision {
		t.Errorf("the record at %d: %+v, %+v, %v; want version 1 and its line", snap.Head, versions, history, err)
	}
}

// testRecordOutlivesTheVersions: the record of a snapshot has what was dropped since.
func (h Harness) testRecordOutlivesTheVersions(t *testing.T) {
	s := h.Open(t)
	first := commit(t, s, publish(script.Release{}, named(1), "one"))
	second := commit(t, s, publish(first, named(1), "two"))
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, tombstone(second))
	versions, history, err := s.Record(t.Context(), second, snap.At)
	if err != nil || len(versions) != 2 || versions[0].Number != 1 || versions[1].Number != 2 || versions[1].Note != "because" {
		t.Errorf("versions: %+v, %v; want 1 and 2", versions, err)
	}
	if len(history) != 2 || history[0].Revision != second.Revision {
		t.Errorf("history: %+v; want two lines", history)
	}
}

// testLargeSnapshot reads more than any page holds.
func (h Harness) testLargeSnapshot(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	const count, writers = 1050, 16
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < count; i += writers {
				if _, err := s.Commit(ctx, publish(script.Release{}, named(i), "x")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if _, _, _, got := snapshot(t, s); len(got) != count {
		t.Errorf("%d releases, want %d", len(got), count)
	}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range snap.Releases {
		if err != nil {
			t.Error(err)
		}
		break // a reader may leave early
	}
}

// testWatchIsComplete: a watch sees every transaction once and in order, however
// many write at the same time.
func (h Harness) testWatchIsComplete(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	first := commit(t, s, publish(script.Release{}, named(9999), "before"))
	snap, err := s.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	watch, ended := watching(ctx, s, first.Revision)

	const writers, each = 8, 20
	var mu sync.Mutex
	committed := map[script.Revision]script.Name{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			var cur script.Release
			for i := range each {
				c := publish(cur, named(w), fmt.Sprint(i))
				revision, err := s.Commit(ctx, c)
				if err != nil {
					t.Error(err)
					return
				}
				cur = c.Release
				cur.Revision = revision
				mu.Lock()
				committed[revision] = cur.Name
				mu.Unlock()
			}
		})
	}
	var seen []registry.Transaction
	for len(seen) < writers*each {
		select {
		case tx := <-watch:
			seen = append(seen, tx)
		case err := <-ended:
			t.Fatalf("the watch ended after %d: %v", len(seen), err)
		case <-ctx.Done():
			t.Fatalf("only %d of %d transactions came", len(seen), writers*each)
		}
	}
	wg.Wait()
	last := first.Revision
	for i, tx := range seen {
		if tx.Revision <= last {
			t.Errorf("revision %d after %d", tx.Revision, last)
		}
		if want := snap.Written + int64(i) + 1; tx.Written != want {
			t.Errorf("revision %d is the write number %d, want %d", tx.Revision, tx.Written, want)
		}
		last = tx.Revision
		if len(tx.Releases) != 1 || tx.Releases[0].Name != committed[tx.Revision] || tx.Releases[0].Revision != tx.Revision {
			t.Errorf("revision %d: %+v; want a release of %s", tx.Revision, tx.Releases, committed[tx.Revision])
		}
	}
}

func (h Harness) testWatchFromThePast(t *testing.T) {
	s := h.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []script.Release
	var cur script.Release
	for i := range 10 {
		cur = commit(t, s, publish(cur, named(1), fmt.Sprint(i)))
		all = append(all, cur)
	}
	watch, _ := watching(ctx, s, all[3].Revision)
	for _, want := range all[4:] {
		if tx := <-watch; len(tx.Releases) != 1 || !same(tx.Releases[0], want) {
			t.Fatalf("got %+v, want %+v", tx, want)
		}
	}
	gone := commit(t, s, tombstone(cur))
	if tx := <-watch; len(tx.Releases) != 1 || !same(tx.Releases[0], gone) {
		t.Fatalf("got %+v, want the tombstone", tx)
	}
	cancel()
	for tx := range watch {
		t.Errorf("after the end: %+v", tx)
	}
}

func (h Harness) testWatchAfterCompaction(t *testing.T) {
	s := h.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first := commit(t, s, publish(script.Release{}, named(1), "1"))
	second := commit(t, s, publish(first, named(1), "2"))
	third := commit(t, s, publish(second, named(1), "3"))
	h.Compact(t, s, third.Revision)
	watch, ended := watching(ctx, s, first.Revision)
	select {
	case err := <-ended:
		wantKind(t, err, script.Unavailable)
		if !errors.Is(err, registry.ErrForgotten) {
			t.Errorf("%v; want ErrForgotten in its chain", err)
		}
	case tx := <-watch:
		t.Errorf("got %+v from a past that was compacted", tx)
	case <-ctx.Done():
		t.Error("the watch neither ended nor yielded")
	}
	// A snapshot needs no past.
	if _, _, _, got := snapshot(t, s); len(got) != 1 || !same(got[named(1)], third) {
		t.Errorf("a snapshot after compaction: %+v, want %+v", got, third)
	}
	again, _ := watching(ctx, s, third.Revision)
	fourth := commit(t, s, publish(third, named(1), "4"))
	if tx := <-again; tx.Revision != fourth.Revision {
		t.Errorf("a watch from the head: %+v, want revision %d", tx, fourth.Revision)
	}
}

func (h Harness) testRestart(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	want := commit(t, s, publish(script.Release{}, named(1), "kept"))
	id, err := s.Fleet(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s = h.Reopen(t, s)
	if again, err := s.Fleet(ctx); err != nil || again != id {
		t.Errorf("Fleet: %q, %v; want %q", again, err, id)
	}
	if got, err := s.Release(ctx, named(1)); err != nil || !same(got, want) {
		t.Errorf("Release: %+v, %v; want %+v", got, err, want)
	}
	if source, err := s.Source(ctx, want.Active.Digest); err != nil || string(source) != "kept" {
		t.Errorf("Source: %q, %v", source, err)
	}
	if entries, err := s.History(ctx, named(1)); err != nil || len(entries) != 1 {
		t.Errorf("History: %v, %v", entries, err)
	}
	if next := commit(t, s, publish(want, named(1), "next")); next.Revision <= want.Revision {
		t.Errorf("revision %d after %d", next.Revision, want.Revision)
	}
}
