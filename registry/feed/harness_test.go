package feed_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	key     = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	sealer  = seal.NewSealer(key)
	keyring = seal.NewKeyring(key.Public().(ed25519.PublicKey))
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func selector(t *testing.T, globs ...string) script.Selector {
	t.Helper()
	s, err := script.ParseSelector(globs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// recorder is a Publisher that remembers, as bytes on the wire too.
type recorder struct {
	mu      sync.Mutex
	events  []feed.Event
	sealed  map[string][][]byte // by group
	beacons []feed.Beacon
	down    bool
}

var errDown = errors.New("NATS is down")

func (r *recorder) PublishEvent(_ context.Context, e feed.Event) error {
	data, err := fanout.SealEvent(sealer, e)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return errDown
	}
	r.events = append(r.events, e)
	if r.sealed == nil {
		r.sealed = map[string][][]byte{}
	}
	r.sealed[e.Group] = append(r.sealed[e.Group], data)
	return nil
}

func (r *recorder) PublishBeacon(_ context.Context, b feed.Beacon) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return errDown
	}
	r.beacons = append(r.beacons, b)
	return nil
}

func (r *recorder) set(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// of returns the events of the group so far.
func (r *recorder) of(group string) (events []feed.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Group == group {
			events = append(events, e)
		}
	}
	return events
}

// lastBeacon of the group; the zero Beacon if there is none.
func (r *recorder) lastBeacon(group string) (last feed.Beacon) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.beacons {
		if b.Group == group {
			last = b
		}
	}
	return last
}

func (r *recorder) beaconCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.beacons)
}

func (r *recorder) wire(group string) [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sealed[group])
}

type checker struct{}

func (checker) Name() string              { return "lua" }
func (checker) Check(engine.Source) error { return nil }

// writer writes to a store.
type writer struct {
	t        *testing.T
	registry *registry.Registry
}

func newWriter(t *testing.T, store registry.Store) writer {
	t.Helper()
	return writer{t, registry.New(registry.Config{Store: store, Engines: map[string]engine.Checker{"lua": checker{}}})}
}

func writeOf(tenant, name string) registry.Write {
	return registry.Write{Name: script.Name{Tenant: tenant, Script: name}, Author: "ann", By: access.Everybody("unix")}
}

func (w writer) publish(tenant, name, source string) script.Release {
	w.t.Helper()
	limits := script.MaxLimits()
	result, err := w.registry.Publish(context.Background(), registry.PublishRequest{
		Write: writeOf(tenant, name), Source: []byte(source), Entrypoint: "handle", Settings: &script.Settings{Spec: script.Spec{Limits: limits}},
	})
	if err != nil {
		w.t.Error(err)
	}
	return result.Release
}

func (w writer) remove(tenant, name string) script.Release {
	w.t.Helper()
	result, err := w.registry.Delete(context.Background(), registry.DeleteRequest{Write: writeOf(tenant, name)})
	if err != nil {
		w.t.Error(err)
	}
	return result.Release
}

func (w writer) putValue(tenant, key, content string) error {
	_, _, err := w.registry.PutValue(context.Background(), registry.PutValue{
		Key: script.ValueKey{Tenant: tenant, Key: key}, Content: []byte(content), Author: "ann", By: access.Everybody("unix"),
	})
	return err
}

func (w writer) removeValue(tenant, key string) error {
	_, err := w.registry.DeleteValue(context.Background(), registry.DeleteValue{
		Key: script.ValueKey{Tenant: tenant, Key: key}, Author: "ann", By: access.Everybody("unix"),
	})
	return err
}

// setTenant makes the concurrency that of the tenant; 0 takes its settings away.
func (w writer) setTenant(tenant string, concurrency int) error {
	req := registry.SetTenant{Tenant: tenant, Author: "ann", By: access.Everybody("unix")}
	if concurrency > 0 {
		req.Settings = &script.TenantSettings{Concurrency: concurrency}
	}
	_, _, err := w.registry.SetTenant(context.Background(), req)
	return err
}

// replica is a feed that follows a store.
type replica struct {
	*feed.Feed
	*recorder
	mirror *mirror.Mirror
	stop   func()
}

// newReplica returns one that follows once its mirror knows the store.
func newReplica(t *testing.T, store registry.Store, groups ...script.Selector) *replica {
	t.Helper()
	r := &replica{recorder: &recorder{}, mirror: mirror.New(sealer, quiet())}
	r.Feed = feed.New(feed.Config{Mirror: r.mirror, Publisher: r.recorder, Log: quiet()})
	r.SetGroups(groups)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { registry.Follow(ctx, store, quiet(), r.Feed) })
	r.stop = sync.OnceFunc(func() { cancel(); following.Wait() })
	t.Cleanup(r.stop)
	if err := r.mirror.Reached(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return r
}

// bench is a leading replica over a store in memory.
type bench struct {
	writer
	*replica
	store *memstore.Store
}

func newBench(t *testing.T, groups ...script.Selector) *bench {
	t.Helper()
	store := memstore.New()
	return &bench{newWriter(t, store), newReplica(t, store, groups...), store}
}

// wantChain checks that every event's previous revision is that of the event before.
func wantChain(t *testing.T, events []feed.Event, from script.Revision) {
	t.Helper()
	for _, e := range events {
		if e.Previous != from {
			t.Errorf("%s: event %d follows %d, want %d", e.Group, e.Revision, e.Previous, from)
		}
		from = e.Revision
	}
}

// objectsOf opens the event's entries.
func objectsOf(t *testing.T, e feed.Event) (objects []script.Object) {
	t.Helper()
	for _, sealed := range e.Entries {
		var entry eventv1.Entry
		if _, err := keyring.Open(sealed, &entry); err != nil {
			t.Fatal(err)
		}
		o, ok, err := wire.ToObject(entry.GetObject())
		if err != nil || !ok || entry.GetFleet() != e.Fleet {
			t.Errorf("entry: %v, %v, of fleet %s", ok, err, entry.GetFleet())
		}
		objects = append(objects, o)
	}
	return objects
}

// releasesOf opens the event's entries.
func releasesOf(t *testing.T, e feed.Event) (releases []script.Release) {
	t.Helper()
	for _, sealed := range e.Entries {
		var entry eventv1.Entry
		if _, err := keyring.Open(sealed, &entry); err != nil {
			t.Fatal(err)
		}
		r, ok, err := wire.ToReleaseObject(entry.GetObject())
		if err != nil || !ok || entry.GetFleet() != e.Fleet {
			t.Errorf("entry: %v, %v, of fleet %s", ok, err, entry.GetFleet())
		}
		releases = append(releases, r)
	}
	return releases
}

// later lets the clock of synctest go on.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
