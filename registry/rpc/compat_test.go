package rpc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/script"
)

// answers is the server's end of a stream.
type answers[T any] struct {
	grpc.ServerStream
	ctx context.Context
	all []*T
}

func (s *answers[T]) Context() context.Context { return s.ctx }

func (s *answers[T]) Send(m *T) error {
	s.all = append(s.all, m)
	return nil
}

type nobody struct{}

func (nobody) Follow(context.Context, access.Identity, script.Selector) error { return nil }

// serve returns a service whose mirror has the state, over the store.
func serve(store registry.Store, state registry.State) *feedService {
	m := mirror.New(seal.Unsigned(), slog.New(slog.DiscardHandler))
	m.Reset(state)
	return newFeedService(Config{Registry: registry.New(registry.Config{Store: store}), Mirror: m, Groups: nobody{}, Sealer: seal.Unsigned()})
}

// TestSyncIsAsInProtocolOne: a follower of protocol 1 gets the bytes that a registry
// of protocol 1 has sent it. The file was written by one.
func TestSyncIsAsInProtocolOne(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("testdata", "sync-response-protocol-1.binpb"))
	if err != nil {
		t.Fatal(err)
	}
	store, at := memstore.New(), time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	source := []byte("function handle() return 1 end")
	digest, err := store.PutSource(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	one := script.Version{Number: 1, Digest: script.DigestOf([]byte("old")), Engine: "lua", Entrypoint: "handle", Size: 3, Author: "ann", Note: "first", CreatedAt: at}
	two := script.Version{Number: 2, Digest: digest, Engine: "lua", Entrypoint: "handle", Size: len(source), Author: "bob", Note: "second", CreatedAt: at.Add(time.Hour)}
	live := script.Release{
		Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 12, Active: two, Latest: 2, Pinned: true, Enabled: true,
		Retained: []script.Version{one, two}, ChangedAt: at.Add(2 * time.Hour),
		Settings: script.Settings{
			Spec: script.Spec{
				Limits:  script.Limits{Instructions: 1000, Timeout: time.Second, SourceBytes: 2000, StringBytes: 3000, ResultBytes: 4000},
				Trigger: script.Trigger{Event: "http-request"},
				Config:  []byte(`{"k":1}`),
			},
			HistoryLimit: 5,
		},
	}
	gone := script.Release{Name: script.Name{Tenant: "zoo", Script: "gone"}, Revision: 15, Latest: 4, Deleted: true, ChangedAt: at.Add(3 * time.Hour)}
	// What protocol 1 does not know is left out.
	values := []script.Value{{Key: script.ValueKey{Tenant: "acme", Key: "flag"}, Revision: 13, Digest: digest, Size: len(source)}}
	tenants := []script.Tenant{{Name: "acme", Revision: 14, Settings: script.TenantSettings{CPU: 500}}}
	s := serve(store, registry.State{Fleet: "F1", Head: 15, Releases: []script.Release{gone, live}, Values: values, Tenants: tenants})

	request := []byte("\x0a\x02F1\x10\x0a") // fleet F1, since 10, as protocol 1 writes it
	var m registryv1.SyncRequest
	if err := proto.Unmarshal(request, &m); err != nil {
		t.Fatal(err)
	}
	stream := &answers[registryv1.SyncResponse]{ctx: access.NewContext(t.Context(), access.Everybody("unix"))}
	if err := s.Sync(&m, stream); err != nil {
		t.Fatal(err)
	}
	if len(stream.all) != 1 {
		t.Fatalf("%d messages, want 1", len(stream.all))
	}
	got, err := proto.MarshalOptions{Deterministic: true}.Marshal(stream.all[0])
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("sent %x\nprotocol 1: %x", got, want)
	}
}

// TestNobodyGetsThePast: a replica that does not keep up with the store waits, and
// then says so.
func TestNobodyGetsThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		release := script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Deleted: true, Latest: 1}
		head, err := store.Commit(t.Context(), registry.Commit{Release: release})
		if err != nil {
			t.Fatal(err)
		}
		release.Revision = head
		s := serve(store, registry.State{Fleet: "F1"})
		var asking sync.WaitGroup
		pull := func() (*answers[registryv1.PullResponse], error) {
			stream := &answers[registryv1.PullResponse]{ctx: access.NewContext(t.Context(), access.Everybody("unix"))}
			return stream, s.Pull(&registryv1.PullRequest{Nonce: make([]byte, 16)}, stream)
		}
		for range 10 {
			asking.Go(func() {
				if got, err := pull(); script.KindOf(err) != script.Unavailable || len(got.all) != 0 {
					t.Errorf("of a replica that is behind: %d pages, %v; want none, UNAVAILABLE", len(got.all), err)
				}
			})
		}
		asking.Wait()
		for range 10 {
			asking.Go(func() {
				if got, err := pull(); err != nil || len(got.all) != 1 {
					t.Errorf("of a replica that catches up: %d pages, %v", len(got.all), err)
				}
			})
		}
		synctest.Wait()
		s.mirror.Apply(registry.Transaction{Revision: head, Releases: []script.Release{release}})
		asking.Wait()
	})
}

// TestShared: whoever asks gets an answer to a question that was put no earlier, and
// many get the same.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, release := 0, make(chan struct{})
		s := shared[int]{ask: func(context.Context) (int, error) {
			asked++
			n := asked
			<-release
			return n, nil
		}}
		var asking sync.WaitGroup
		wants := func(want, times int) {
			for range times {
				asking.Go(func() {
					if got, err := s.get(t.Context()); got != want || err != nil {
						t.Errorf("answer %d, %v; want %d", got, err, want)
					}
				})
			}
			synctest.Wait()
		}
		wants(1, 1)
		wants(2, 100)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.get(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up: %v", err)
		}
		close(release)
		asking.Wait()
		wants(3, 1)
		asking.Wait()
	})
}
