package dev_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/dev"
)

// wires are the connections that dev made to its registry.
type wires struct {
	mu   sync.Mutex
	open []net.Conn
}

func (w *wires) dial(ctx context.Context, path string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = append(w.open, conn)
	return conn, nil
}

// cut closes them all.
func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.open {
		_ = conn.Close()
	}
	w.open = nil
}

// TestTheRegistryEndsConnections: dev goes on, and announces what comes.
func TestTheRegistryEndsConnections(t *testing.T) {
	scripts, state := t.TempDir(), shortTempDir(t)
	if err := os.WriteFile(filepath.Join(scripts, "one.lua"), []byte(returning("1")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(scripts, "one.yaml"), []byte(manifest("one", "  sourceFile: one.lua\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	var w wires
	s := start(t, scripts, state, dev.DialWith(registryclient.WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return w.dial(ctx, filepath.Join(state, "registry.sock"))
	}))))
	for _, version := range []string{"2", "3"} {
		w.cut()
		s.write("one.lua", returning(version))
		s.await(`^acme/one v` + version + ` .* active on 3/3 agents`)
		s.wantAnswers("acme/one", version)
	}
}
