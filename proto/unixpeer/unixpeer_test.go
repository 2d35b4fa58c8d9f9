package unixpeer_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/local"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/scriptorium-dev/scriptorium/proto/unixpeer"
)

// TestWhoCalls: the kernel tells a server who its caller is.
func TestWhoCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	callers := make(chan unixpeer.Peer, 1)
	server := grpc.NewServer(
		grpc.Creds(unixpeer.Credentials(func(conn net.Conn) unixpeer.Peer {
			p, err := unixpeer.Of(conn)
			if err != nil {
				t.Error(err)
			}
			return p
		})),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			p, ok := unixpeer.FromContext[unixpeer.Peer](ctx)
			if _, other := unixpeer.FromContext[string](ctx); !ok || other {
				t.Error("FromContext takes one kind of knowledge for another")
			}
			callers <- p
			return next(ctx, req)
		}))
	healthv1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(local.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-callers, (unixpeer.Peer{PID: os.Getpid(), UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if _, ok := unixpeer.FromContext[unixpeer.Peer](t.Context()); ok {
		t.Error("a peer without a call")
	}
}
