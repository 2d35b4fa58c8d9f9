package link_test

import (
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// TestHeadersAreBounded: the process of a tenant cannot fill the agent with headers.
func TestHeadersAreBounded(t *testing.T) {
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
	healthv1.RegisterHealthServer(server, health.NewServer())
	go link.Serve(server, ours)
	t.Cleanup(server.Stop)
	conn, err := link.Dial(theirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	for size, want := range map[int]string{8 << 10: "", wire.MaxHeaderBytes: "16384"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-large", strings.Repeat("x", size))
		_, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, want an error with %q, or none", size, err, want)
		}
	}
}
