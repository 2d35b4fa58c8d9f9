package registry_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// round is the end of one.
type round struct {
	at   time.Time
	done registry.Collected
	err  error
}

func TestCollectorRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.publish("one")
		b.remove() // by the bench's clock, which is long before this one
		var rounds []round
		begun := time.Now()
		c := registry.NewCollector(registry.CollectorConfig{
			Store: b.store, Garbage: b.store, Log: slog.New(slog.DiscardHandler),
			Interval: time.Minute, TombstoneRetention: time.Hour, AuditRetention: time.Hour,
			Clock:     func() time.Time { return time.Date(2026, 1, 1, 0, 59, 30, 0, time.UTC).Add(time.Since(begun)) },
			Collected: func(done registry.Collected, err error) { rounds = append(rounds, round{time.Now(), done, err}) },
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Second)
		defer cancel()
		c.Run(ctx)
		// The source, and what it runs with, are unneeded from the first round on, the tombstone and the
		// entries are an hour old at the second.
		want := []registry.Collected{{}, {Tombstones: 1, Sources: 2, AuditEntries: 2}, {}, {}, {}, {}}
		if len(rounds) != len(want) {
			t.Fatalf("%d rounds, want %d: %+v", len(rounds), len(want), rounds)
		}
		for i, r := range rounds {
			if r.err != nil || r.done != want[i] || r.at.Sub(begun) != time.Duration(i)*time.Minute {
				t.Errorf("round %d after %v: %+v, %v; want %+v", i, r.at.Sub(begun), r.done, r.err, want[i])
			}
		}
	})
}

// broken is the garbage of a store of which some cannot be done.
type broken struct {
	*memstore.Store
	tombstones, blobs bool
}

var errBroken = errors.New("broken")

func (s broken) Tombstones(ctx context.Context, before time.Time) iter.Seq2[script.Object, error] {
	if s.tombstones {
		return func(yield func(script.Object, error) bool) { yield(script.Object{}, errBroken) }
	}
	return s.Store.Tombstones(ctx, before)
}

func (s broken) Blobs(ctx context.Context) iter.Seq2[registry.Blob, error] {
	if s.blobs {
		return func(yield func(registry.Blob, error) bool) { yield(registry.Blob{}, errBroken) }
	}
	return s.Store.Blobs(ctx)
}

// TestCollectorGoesOn: what cannot be done does not keep it from the rest.
func TestCollectorGoesOn(t *testing.T) {
	for what, c := range map[string]struct {
		garbage broken
		want    registry.Collected
	}{
		"tombstones": {broken{tombstones: true}, registry.Collected{Sources: 2, AuditEntries: 2}},
		"blobs":      {broken{blobs: true}, registry.Collected{Tombstones: 1, AuditEntries: 2}},
	} {
		b := newBench(t)
		b.publish("one")
		b.remove()
		c.garbage.Store = b.store
		collector := registry.NewCollector(registry.CollectorConfig{
			Store: b.store, Garbage: c.garbage, Log: slog.New(slog.DiscardHandler), AuditRetention: time.Hour,
		})
		var sum registry.Collected
		for range 2 {
			done, err := collector.Collect(t.Context())
			if !errors.Is(err, errBroken) {
				t.Errorf("%s: %v; want what went wrong", what, err)
			}
			sum.Tombstones += done.Tombstones
			sum.Sources += done.Sources
			sum.AuditEntries += done.AuditEntries
		}
		if sum != c.want {
			t.Errorf("%s: %+v, want %+v", what, sum, c.want)
		}
	}
}
