package suite_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
)

// gate is a proxy that can be shut: then nothing passes, and neither end gets an error. What
// was sent meanwhile passes once it is open again.
type gate struct {
	network, address string // where it leads

	mu   sync.Mutex
	open chan struct{} // closed while it is open
}

// newGate starts a gate on l.
func newGate(t *testing.T, l net.Listener, network, address string) *gate {
	t.Helper()
	g := &gate{network: network, address: address, open: make(chan struct{})}
	close(g.open)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { g.serve(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		running.Wait()
	})
	return g
}

// shut lets nothing pass until the returned function is called.
func (g *gate) shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shut := make(chan struct{})
	g.open = shut
	return func() { close(shut) }
}

// pass waits until the gate is open.
func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) serve(ctx context.Context, here net.Conn) {
	defer here.Close()
	var dialer net.Dialer
	if g.pass(ctx) != nil {
		return
	}
	there, err := dialer.DialContext(ctx, g.network, g.address)
	if err != nil {
		return
	}
	defer there.Close()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { here.Close(); there.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { defer cancel(); g.copy(ctx, here, there) })
	both.Go(func() { defer cancel(); g.copy(ctx, there, here) })
	both.Wait()
}

func (g *gate) copy(ctx context.Context, to io.Writer, from io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if g.pass(ctx) != nil {
			return
		}
		if _, wrote := to.Write(buf[:n]); errors.Join(err, wrote) != nil {
			return
		}
	}
}

// addGated starts one more agent, whose only ways to the registry and to NATS are
// gates; hold shuts them.
func (w *world) addGated(name string) (hold func() (release func())) {
	w.t.Helper()
	dir, err := os.MkdirTemp("", "gated")
	if err != nil {
		w.t.Fatal(err)
	}
	listen := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			w.t.Fatal(err)
		}
		return l
	}
	toNATS, toRegistry := listen("tcp", "127.0.0.1:0"), listen("unix", filepath.Join(dir, "registry.sock"))
	gates := []*gate{
		newGate(w.t, toNATS, "tcp", w.NATSURL()[len("nats://"):]),
		newGate(w.t, toRegistry, "unix", w.RegistryTarget()[len("unix:"):]),
	}
	cmd := agentd.Command()
	cmd.SetArgs(append([]string{
		"--name", name, "--state-dir", filepath.Join(dir, "state"), "--socket-dir", dir,
		"--registry", "unix:" + filepath.Join(dir, "registry.sock"), "--nats-url", "nats://" + toNATS.Addr().String(), "--log-level", "error",
	}, w.AgentFlags()...))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("%s: %v", name, err)
		}
		_ = os.RemoveAll(dir)
	})
	w.eventually(name+" serves", func() bool {
		_, err := os.Stat(filepath.Join(dir, "grpc.sock"))
		return err == nil
	})
	w.addClient(dir)
	return func() func() {
		var open []func()
		for _, g := range gates {
			open = append(open, g.shut())
		}
		return func() {
			for _, f := range open {
				f()
			}
		}
	}
}
