package target_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/scriptorium-dev/scriptorium/proto/target"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{"", "unix:", "registry", "registry:", ":", "http://registry:7070", "dns:///registry", "a:b:c"} {
		if endpoint, _, err := target.Parse(bad); script.KindOf(err) != script.Invalid {
			t.Errorf("Parse(%q) = %q, %v, want Invalid", bad, endpoint, err)
		}
	}
}

func serve(t *testing.T, network, address string) net.Addr {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	healthv1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr()
}

// TestParseReaches dials what people write, with paths that are no URLs.
func TestParseReaches(t *testing.T) {
	address := serve(t, "tcp", "127.0.0.1:0").String()
	targets := []string{address, "dns:///" + address}
	for _, name := range []string{"plain", "50%of", "a#b", "a?b", "with space"} {
		dir, err := os.MkdirTemp("", "target") // t.TempDir is too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		path := filepath.Join(dir, name)
		serve(t, "unix", path)
		targets = append(targets, "unix:"+path, "unix://"+path)
	}
	for _, name := range targets {
		endpoint, options, err := target.Parse(name)
		if err != nil {
			t.Errorf("Parse(%q): %v", name, err)
			continue
		}
		conn, err := grpc.NewClient(endpoint, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err != nil {
			t.Errorf("dial %q: %v", name, err)
			continue
		}
		if _, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
			t.Errorf("call %q: %v", name, err)
		}
		_ = conn.Close()
	}
}
