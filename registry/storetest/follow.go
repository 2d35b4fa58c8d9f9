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

func (h Harness) testChanges(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	var all []script.Release
	for i := range 5 {
		all = append(all, commit(t, s, publish(script.Release{}, named(i), "x")))
	}
	head := all[4].Revision
	for i, r := range all {
		changes, err := s.Changes(ctx, r.Revision)
		if err != nil {
			t.Fatal(err)
		}
		got := collect(t, changes)
		if changes.Full || changes.Head != head || len(got) != len(all)-1-i {
			t.Errorf("since %d: %d releases, full %v, head %d; want %d, false, %d", r.Revision, len(got), changes.Full, changes.Head, len(all)-1-i, head)
		}
		for _, newer := range all[i+1:] {
			if !same(got[newer.Name], newer) {
				t.Errorf("since %d: %+v, want %+v", r.Revision, got[newer.Name], newer)
			}
		}
	}
	for _, since := range []script.Revision{0, -1, head + 1, head + 1000} {
		changes, err := s.Changes(ctx, since)
		if err != nil {
			t.Fatal(err)
		}
		if got := collect(t, changes); !changes.Full || changes.Head != head || len(got) != len(all) {
			t.Errorf("since %d: %d releases, full %v, head %d; want all", since, len(got), changes.Full, changes.Head)
		}
	}
}

// testChangesAreOfOneMoment: what is committed while somebody reads does not show.
func (h Harness) testChangesAreOfOneMoment(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	first := commit(t, s, publish(script.Release{}, named(1), "one"))
	changes, err := s.Changes(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, publish(first, named(1), "two"))
	commit(t, s, publish(script.Release{}, named(2), "new"))
	got := collect(t, changes)
	if changes.Head != first.Revision || len(got) != 1 || !same(got[named(1)], first) {
		t.Errorf("head %d: %+v; want what was there at %d", changes.Head, got, first.Revision)
	}
}

// testManyChanges reads more than any page holds, from the start and since.
func (h Harness) testManyChanges(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	const count, writers = 1300, 8
	var wg sync.WaitGroup
	revisions := make([]script.Revision, count)
	for w := range writers {
		wg.Go(func() {
			for i := w; i < count; i += writers {
				var err error
				if revisions[i], err = s.Commit(ctx, publish(script.Release{}, named(i), "x")); err != nil {
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
	lowest := revisions[0]
	for _, r := range revisions {
		lowest = min(lowest, r)
	}
	for since, want := range map[script.Revision]int{0: count, lowest: count - 1} {
		changes, err := s.Changes(ctx, since)
		if err != nil {
			t.Fatal(err)
		}
		if got := collect(t, changes); len(got) != want {
			t.Errorf("since %d: %d releases, want %d", since, len(got), want)
		}
	}
	changes, err := s.Changes(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range changes.Releases {
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
	for _, tx := range seen {
		if tx.Revision <= last {
			t.Errorf("revision %d after %d", tx.Revision, last)
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
	// Changes need no past.
	changes, err := s.Changes(ctx, first.Revision)
	if err != nil {
		t.Fatal(err)
	}
	if got := collect(t, changes); len(got) != 1 || !same(got[named(1)], third) {
		t.Errorf("Changes after compaction: %+v, want %+v", got, third)
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
