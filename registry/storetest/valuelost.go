package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// testHistoryWithoutAValue: a registry that knows no histories leaves them when it removes a
// tombstone.
func (h Harness) testHistoryWithoutAValue(t *testing.T) {
	s := h.Open(t)
	v := valuesOf(t, s, keyed("acme", "a"))
	v.put("one")
	v.put("two")
	h.Lose(t, s, "values/acme/a")
	v.wants("put 2", "put 1")
	if _, _, err := v.r.Value(t.Context(), access.Everybody("unix"), v.key, 0); script.KindOf(err) != script.NotFound {
		t.Errorf("the value: %v", err)
	}
	if two, err := v.rollback(0); err != nil || two.Version != 2 {
		t.Errorf("rolled back to %+v, %v; want version 2", two, err)
	}
	h.Lose(t, s, "values/acme/a")
	if three := v.put("three"); three.Version != 3 {
		t.Errorf("put: %+v; want version 3", three)
	}
	h.Lose(t, s, "values/acme/a")
	c := collector(s)
	for range 3 {
		if _, err := c.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	v.wants()
	if older := wantOlder(t, s); older != 0 {
		t.Errorf("the histories of what is gone take %d", older)
	}
	if left := gather(t, s.(registry.Garbage).Blobs(t.Context())); len(left) != 0 {
		t.Errorf("%d contents are left", len(left))
	}
}

// testUnreadableHistory: it hinders no write and no collector, and no number is given twice.
func (h Harness) testUnreadableHistory(t *testing.T) {
	for _, record := range records {
		for _, forgets := range []bool{false, true} {
			s := h.Open(t)
			v := valuesOf(t, s, keyed("acme", "a"))
			v.put("one")
			v.put("two")
			if _, err := v.rollback(1); err != nil {
				t.Fatal(err)
			}
			spoil := func() { h.Spoil(t, s, "kvhistory/acme/a", record, forgets) }
			spoil()
			want := []string{"rollback 1", "put 2", "put 1"}
			if forgets {
				want = []string{"put 1"}
			}
			v.wants(want...)
			var lost []registry.Unreadable
			snapshot, err := s.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range snapshot.Histories {
				if u, ok := errors.AsType[*registry.Unreadable](err); ok {
					lost = append(lost, *u)
				}
			}
			if !slices.Equal(keysOf(lost), []string{"kvhistory/acme/a"}) {
				t.Errorf("%q: a snapshot names %+v", record, lost)
			}
			c := collector(s)
			for range 2 {
				if _, err := c.Collect(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			v.wants(want...)
			next := v.put("three")
			if next.Version < 3 || !forgets && next.Version != 3 {
				t.Errorf("%q: put: %+v; want a version above 2", record, next)
			}
			v.wants(append([]string{fmt.Sprint("put ", next.Version)}, want...)...)
			wantOlder(t, s)
			spoil()
			v.delete()
			c = collector(s)
			for range 3 {
				if _, err := c.Collect(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			v.wants()
		}
	}
}

// testPurgeWhileCounted: whoever counts the histories because nobody knows what they take does not
// commit that once one of them is gone.
func (h Harness) testPurgeWhileCounted(t *testing.T) {
	s := h.Open(t)
	gone := valuesOf(t, s, keyed("acme", "gone"))
	gone.put("one")
	gone.delete()
	tombstone := data(t, s, gone.key).Value
	key := keyed("acme", "a")
	put(t, s, key, "older") // by a registry that knows no histories
	now := data(t, s, key)
	if now.Usage.Older != -1 {
		t.Fatalf("%+v; want it unknown what the histories take", now.Usage)
	}
	counted, err := s.OlderBytes(t.Context(), "acme")
	if err != nil || counted == 0 {
		t.Fatalf("the histories take %d, %v", counted, err)
	}
	if err := s.(registry.Garbage).Purge(t.Context(), script.Object{Value: &tombstone}); err != nil {
		t.Fatal(err)
	}
	now.Usage.Older, now.Value.Version = counted, 2
	line := script.ValueLine{Change: script.ChangePut, Version: 2, Digest: now.Value.Digest, Size: now.Value.Size, Author: "ann", Time: now.Value.ChangedAt}
	_, err = s.CommitValue(t.Context(), registry.ValueCommit{
		Guard: now.Value.Revision, Value: now.Value, Content: []byte("older"), Usage: now.Usage,
		History: &script.ValueHistory{Key: key, Latest: 2, Lines: []script.ValueLine{line}},
	})
	if script.KindOf(err) != script.Conflict {
		t.Errorf("%v; want a conflict", err)
	}
	if usage := data(t, s, key).Usage; usage.Bytes != 5 || usage.Values != 1 || usage.Older != -1 {
		t.Errorf("the usage is %+v", usage)
	}
	valuesOf(t, s, key).put("newer")
	wantOlder(t, s)
}

// testLostHistory: what nobody can read of a value that is gone is removed.
func (h Harness) testLostHistory(t *testing.T) {
	for _, record := range records {
		s := h.Open(t)
		v := valuesOf(t, s, keyed("acme", "a"))
		v.put("one")
		h.Lose(t, s, "values/acme/a")
		h.Spoil(t, s, "kvhistory/acme/a", record, true)
		if _, err := collector(s).Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		snapshot, err := s.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for left, err := range snapshot.Histories {
			t.Errorf("%q: %+v is left, %v", record, left, err)
		}
	}
}

// testRollbacksRace: puts, rollbacks and deletes of one key by several registries, while a
// collector runs: no number means two contents, and what the history retains is there.
func (h Harness) testRollbacksRace(t *testing.T) {
	s := h.Open(t)
	ctx, stop := context.WithCancel(t.Context())
	var collecting, writing sync.WaitGroup
	collecting.Go(func() {
		c := registry.NewCollector(registry.CollectorConfig{Store: s, Garbage: s.(registry.Garbage), TombstoneRetention: time.Hour, Log: slog.New(slog.DiscardHandler)})
		for ctx.Err() == nil {
			if _, err := c.Collect(ctx); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
				t.Error(err)
			}
		}
	})
	key, by := keyed("acme", "a"), access.Everybody("unix")
	var mu sync.Mutex
	meant := map[uint64]script.Digest{}
	for w := range 3 {
		writing.Go(func() {
			r := rules(s)
			for i := range 20 {
				var v script.Value
				var err error
				switch i % 4 {
				case 3:
					_, err = r.DeleteValue(t.Context(), registry.DeleteValue{Key: key, Author: "ann", By: by})
				case 2:
					v, _, err = r.RollbackValue(t.Context(), registry.RollbackValue{Key: key, Author: "ann", By: by})
				default:
					v, _, err = r.PutValue(t.Context(), registry.PutValue{Key: key, Content: fmt.Append(nil, "content ", w, i%8), Author: "ann", By: by})
				}
				if err != nil && script.KindOf(err) != script.NotFound {
					t.Errorf("writer %d: %v", w, err)
				}
				if v.Version == 0 {
					continue
				}
				mu.Lock()
				if before, ok := meant[v.Version]; ok && before != v.Digest {
					t.Errorf("version %d has two contents", v.Version)
				}
				meant[v.Version] = v.Digest
				mu.Unlock()
			}
		})
	}
	writing.Wait()
	stop()
	collecting.Wait()
	history, err := rules(s).ValueHistory(t.Context(), by, key)
	if err != nil || len(history.Lines) != script.MaxValueLines {
		t.Errorf("%d lines, %v", len(history.Lines), err)
	}
	for _, l := range history.Lines {
		if l.Version == 0 {
			continue
		}
		if content, err := s.Source(t.Context(), l.Digest); err != nil || script.DigestOf(content) != meant[l.Version] {
			t.Errorf("version %d: %v", l.Version, err)
		}
	}
	wantOlder(t, s)
}
