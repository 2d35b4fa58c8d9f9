package link_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// large answers a check with a large header.
type large struct {
	healthv1.UnimplementedHealthServer
	bytes int
}

func (l large) Check(ctx context.Context, _ *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	return &healthv1.HealthCheckResponse{}, grpc.SetHeader(ctx, metadata.Pairs("x-large", strings.Repeat("x", l.bytes)))
}

// TestHeadersAreBounded: the process of a tenant cannot fill the agent with headers, neither
// of calls nor of answers.
func TestHeadersAreBounded(t *testing.T) {
	for size, want := range map[int]string{8 << 10: "", wire.MaxHeaderBytes: "16384"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-large", strings.Repeat("x", size))
		_, err := dial(t, health.NewServer()).Check(ctx, &healthv1.HealthCheckRequest{})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a call of %d bytes: %v, want an error with %q, or none", size, err, want)
		}
		_, err = dial(t, large{bytes: size}).Check(t.Context(), &healthv1.HealthCheckRequest{})
		if (err != nil) != (want != "") {
			t.Errorf("an answer of %d bytes: %v", size, err)
		}
	}
}

// dial serves s at one end of a link, and returns a client at the other.
func dial(t *testing.T, s healthv1.HealthServer) healthv1.HealthClient {
	t.Helper()
	ours, file, err := link.Stream()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := net.FileConn(file)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	server := link.NewServer()
	healthv1.RegisterHealthServer(server, s)
	go link.Serve(server, ours)
	t.Cleanup(server.Stop)
	conn, err := link.Dial(theirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return healthv1.NewHealthClient(conn)
}
