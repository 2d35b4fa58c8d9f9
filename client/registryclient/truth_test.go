package registryclient_test

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/script"
)

// anything is an engine that everything compiles for.
type anything struct{}

func (anything) Name() string              { return "lua" }
func (anything) Check(engine.Source) error { return nil }

// truth is a real registry, which keeps its state in memory, and a client of it
// that can be made to lose answers.
type truth struct {
	client *registryclient.Client
	store  *memstore.Store
	lost   atomic.Int32 // so many answers yet are lost
	sent   atomic.Int32
}

// newTruth returns one with the script acme/route, which has three versions and is
// pinned to the second.
func newTruth(t *testing.T) *truth {
	t.Helper()
	s := &truth{store: memstore.New()}
	server := rpc.New(rpc.Config{
		Registry:       registry.New(registry.Config{Store: s.store, Engines: map[string]engine.Checker{"lua": anything{}}}),
		Log:            slog.New(slog.DiscardHandler),
		Authentication: rpc.Authentication{},
	})
	path := filepath.Join(t.TempDir(), "registry.sock")
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		server.Drain(context.Background())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	s.client = dial(t, "unix:"+path, registryclient.WithDialOptions(grpc.WithChainUnaryInterceptor(s.intercept)))
	for range 3 {
		publish(t, s.client, route, "return "+string(rune('1'+s.revision(t))))
	}
	if _, _, err := s.client.Pin(t.Context(), route, 2, ada); err != nil {
		t.Fatal(err)
	}
	s.sent.Store(0)
	return s
}

// candidate publishes a fourth version, which has tests to pass before it is pinned.
func (s *truth) candidate(t *testing.T) {
	t.Helper()
	p, err := s.client.Publish(t.Context(), registryclient.PublishRequest{
		Name: route, Source: []byte("return 4"), Write: ada, Pin: new(uint64(4)), LiftHold: true,
		Settings: &script.Settings{Spec: script.Spec{Tests: []script.Test{{Name: "answers"}}}},
	})
	if err != nil || p.Release.Candidate == nil {
		t.Fatalf("%+v, %v", p, err)
	}
	s.sent.Store(0)
}

func (s *truth) intercept(ctx context.Context, method string, req, resp any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	s.sent.Add(1)
	err := invoke(ctx, method, req, resp, conn, opts...)
	if s.lost.Add(-1) >= 0 {
		return status.Error(codes.Unavailable, "the answer is lost")
	}
	return err
}

func (s *truth) lose(answers int32) { s.lost.Store(answers) }

func (s *truth) release(t *testing.T) script.Release {
	t.Helper()
	r, err := s.store.Release(t.Context(), route)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *truth) revision(t *testing.T) script.Revision {
	t.Helper()
	head, err := s.store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return head
}
