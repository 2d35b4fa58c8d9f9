package storetest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// anything compiles.
type anything struct{}

func (anything) Name() string              { return "lua" }
func (anything) Check(engine.Source) error { return nil }

// rules returns a registry over the store.
func rules(s registry.Store) *registry.Registry {
	return registry.New(registry.Config{Store: s, Engines: map[string]engine.Checker{"lua": anything{}}})
}

// collector returns one that takes tombstones at once.
func collector(s registry.Store) *registry.Collector {
	return registry.NewCollector(registry.CollectorConfig{
		Store: s, Garbage: s.(registry.Garbage), TombstoneRetention: time.Nanosecond, Log: slog.New(slog.DiscardHandler),
	})
}

func write(name script.Name) registry.Write {
	return registry.Write{Name: name, Author: "ann", By: access.Everybody("unix")}
}

// wantSources checks that every retained version of every release has its source.
func wantSources(t *testing.T, s registry.Store) (retained map[script.Digest]bool) {
	t.Helper()
	_, _, _, all := snapshot(t, s)
	retained = map[script.Digest]bool{}
	for name, r := range all {
		for digest := range (script.Object{Release: &r}).Retained {
			retained[digest] = true
			if source, err := s.Source(t.Context(), digest); err != nil || script.DigestOf(source) != digest {
				t.Errorf("%s lost its source %s: %v", name, digest.Short(), err)
			}
		}
	}
	return retained
}

// testCollector: it takes two rounds to remove a source, and what is needed stays.
func (h Harness) testCollector(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	c := collector(s)
	one := commit(t, s, publish(script.Release{}, named(1), "dropped"))
	commit(t, s, publish(script.Release{}, named(2), "kept"))
	gone := commit(t, s, tombstone(one))
	putSource(t, s, "put and never needed")
	for round, want := range []registry.Collected{{Tombstones: 1}, {Sources: 2}, {}, {}} {
		if got, err := c.Collect(ctx); err != nil || got != want {
			t.Errorf("round %d: %+v, %v; want %+v", round, got, err, want)
		}
	}
	if len(wantSources(t, s)) != 1 {
		t.Error("one source is retained")
	}
	if blobs := gather(t, s.(registry.Garbage).Blobs(ctx)); len(blobs) != 1 {
		t.Errorf("%d sources are left, want 1", len(blobs))
	}
	if _, _, floor, _ := snapshot(t, s); floor != gone.Revision {
		t.Errorf("the floor is %d, want %d", floor, gone.Revision)
	}
	// One that is needed again between two rounds stays.
	two := commit(t, s, tombstone(commit(t, s, publish(script.Release{}, named(3), "again"))))
	if _, err := c.Collect(ctx); err != nil {
		t.Fatal(err)
	}
	latest, err := s.Release(ctx, two.Name)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, publish(latest, named(3), "again"))
	if got, err := c.Collect(ctx); err != nil || got.Sources != 0 {
		t.Errorf("a source that is needed again: %+v, %v", got, err)
	}
	wantSources(t, s)
}

// testCollectorRacesNobody: scripts are published, deleted, made again and imported
// with the same few sources while collectors run without a pause; no release ever
// loses a source, and no number is given twice.
func (h Harness) testCollectorRacesNobody(t *testing.T) {
	s := h.Open(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()

	const writers, collectors = 4, 2
	rounds := 80
	if testing.Short() {
		rounds = 30
	}
	var discarded atomic.Int64
	var writing, collecting sync.WaitGroup
	for range collectors {
		collecting.Go(func() {
			c := collector(s)
			for ctx.Err() == nil {
				got, err := c.Collect(ctx)
				if err != nil && ctx.Err() == nil {
					t.Errorf("collect: %v", err)
				}
				discarded.Add(int64(got.Sources))
			}
		})
	}
	given := given{numbers: map[script.Ref]string{}}
	for w := range writers {
		writing.Go(func() {
			m := meddler{t: t, store: s, rules: rules(s), given: &given, random: rand.New(rand.NewPCG(seed, uint64(w)))}
			for range rounds {
				m.step(t.Context())
			}
		})
	}
	writing.Wait()
	for discarded.Load() == 0 && ctx.Err() == nil { // let it win once at least
		m := meddler{t: t, store: s, rules: rules(s), given: &given, random: rand.New(rand.NewPCG(seed, writers))}
		m.step(ctx)
	}
	stop()
	collecting.Wait()
	wantSources(t, s)
	if discarded.Load() == 0 {
		t.Error("nothing was ever discarded: this proves nothing")
	}
	t.Logf("%d sources discarded, %d versions made", discarded.Load(), len(given.numbers))
}

// given knows which numbers were given to what.
type given struct {
	mu      sync.Mutex
	numbers map[script.Ref]string
}

func (g *given) note(t *testing.T, ref script.Ref, source string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if before, ok := g.numbers[ref]; ok && before != source {
		t.Errorf("%s is %q and was %q: a number was given twice", ref, source, before)
	}
	g.numbers[ref] = source
}

// meddler does one thing after another to the same few scripts and sources.
type meddler struct {
	t      *testing.T
	store  registry.Store
	rules  *registry.Registry
	given  *given
	random *rand.Rand
}

func (m *meddler) step(ctx context.Context) {
	name, source := named(m.random.IntN(3)), fmt.Sprint("source ", m.random.IntN(6))
	var err error
	switch dice := m.random.IntN(100); {
	case dice < 60:
		var result registry.PublishResult
		settings := &script.Settings{HistoryLimit: 1}
		result, err = m.rules.Publish(ctx, registry.PublishRequest{Write: write(name), Source: []byte(source), Settings: settings})
		if err == nil && result.Changed {
			m.given.note(m.t, script.Ref{Name: name, Version: result.Version.Number}, source)
		}
	case dice < 85:
		_, err = m.rules.Delete(ctx, registry.DeleteRequest{Write: write(name)})
	case dice < 97:
		_, err = m.rules.Rollback(ctx, registry.RollbackRequest{Write: write(name)})
	default: // rarely, for each keeps the collectors from what they had listed
		name.Tenant = "imported"
		err = m.restore(ctx, name, source)
	}
	// Another writer may have deleted it, or have been faster 64 times.
	if kind := script.KindOf(err); kind != "" && kind != script.NotFound && kind != script.Conflict {
		m.t.Error(err)
	}
	m.look(ctx, name)
}

// look finds out whether the script has lost a source. If it is the same before and
// after, it retained the source all the time.
func (m *meddler) look(ctx context.Context, name script.Name) {
	before, err := m.store.Release(ctx, name)
	if err != nil {
		return
	}
	for digest := range (script.Object{Release: &before}).Retained {
		if _, err = m.store.Source(ctx, digest); script.KindOf(err) != script.NotFound {
			continue
		}
		after, err := m.store.Release(ctx, name)
		if err == nil && after.Revision == before.Revision {
			m.t.Errorf("%s at revision %d lost its source %s", name, before.Revision, digest.Short())
		}
	}
}

// restore does what an import does: the source is put a while before it is needed.
func (m *meddler) restore(ctx context.Context, name script.Name, source string) error {
	if _, err := m.store.PutSource(ctx, []byte(source)); err != nil {
		return err
	}
	cur, err := m.store.Release(ctx, name)
	if err != nil && script.KindOf(err) != script.NotFound {
		return err
	}
	r := restoration(cur, name, source)
	r.Release.Latest = max(r.Release.Latest, cur.Latest)
	_, err = m.store.Restore(ctx, r)
	return err
}
