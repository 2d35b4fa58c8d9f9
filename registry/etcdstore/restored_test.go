package etcdstore_test

import (
	"context"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// known is a Projection that keeps the revisions of all scripts.
type known struct {
	mu       sync.Mutex
	releases map[string]script.Revision
	changed  chan struct{} // has room for one
}

func (k *known) Reset(s registry.State) {
	k.mu.Lock()
	clear(k.releases)
	k.mu.Unlock()
	k.Apply(registry.Transaction{Releases: s.Releases})
}

func (k *known) Apply(t registry.Transaction) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range t.Releases {
		k.releases[r.Name.Script] = r.Revision
	}
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// TestRestoredBelowARegistry: etcd is restored from a backup with higher revisions, as
// docs/operating.md says, and something is written there before a registry that goes on running
// has looked. The registry must not keep what the backup does not have.
func TestRestoredBelowARegistry(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, restored := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "restored")
	serve := func(dir string, port int) (*embedded.Etcd, *etcdstore.Store) {
		e, err := embedded.StartEtcd(ctx, embedded.EtcdConfig{Dir: dir, Port: port})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Stop)
		s, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{e.Endpoint()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return e, s
	}
	publish := func(s *etcdstore.Store, name string, guard script.Revision) script.Revision {
		v := script.Version{Number: 1, Digest: script.DigestOf(nil), Engine: "lua"}
		r := script.Release{Name: script.Name{Tenant: "acme", Script: name}, Active: v, Latest: 1, Retained: []script.Version{v}}
		revision, err := s.Commit(ctx, registry.Commit{Guard: guard, Release: r, Publish: &v})
		if err != nil {
			t.Fatal(err)
		}
		return revision
	}

	e, s := serve(dir, 0)
	etcdtest.Found(t, s)
	kept := publish(s, "kept", 0)
	e.Stop()
	if err := os.CopyFS(restored, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}

	e, s = serve(dir, 0)
	at, err := url.Parse(e.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	k := &known{releases: map[string]script.Revision{}, changed: make(chan struct{}, 1)}
	var following sync.WaitGroup
	following.Go(func() { registry.Follow(ctx, s, slog.New(slog.DiscardHandler), k) })
	t.Cleanup(following.Wait)
	t.Cleanup(cancel)
	await := func(want map[string]script.Revision) {
		t.Helper()
		for {
			k.mu.Lock()
			has := maps.Clone(k.releases)
			k.mu.Unlock()
			if maps.Equal(has, want) {
				return
			}
			select {
			case <-k.changed:
			case <-ctx.Done():
				t.Fatalf("the registry has %v; want %v", has, want)
			}
		}
	}
	lost := publish(s, "lost", 0)
	later := publish(s, "kept", kept)
	await(map[string]script.Revision{"lost": lost, "kept": later})
	e.Stop()

	e, other := serve(restored, 0)
	raw := etcdtest.Client(t, e.Endpoint())
	for revision := int64(0); revision <= int64(later)+10; { // as --bump-revision does
		put, err := raw.Put(ctx, "bump", "")
		if err != nil {
			t.Fatal(err)
		}
		revision = put.Header.Revision
	}
	head, err := raw.Get(ctx, "bump")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Compact(ctx, head.Header.Revision); err != nil { // as --mark-compacted does
		t.Fatal(err)
	}
	written := publish(other, "written", 0)
	e.Stop()
	serve(restored, port)
	await(map[string]script.Revision{"kept": kept, "written": written})
}
