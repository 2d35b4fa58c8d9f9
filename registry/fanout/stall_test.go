package fanout_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/script"
)

// relay is a connection to NATS that can stall: it takes nothing any more, and
// neither end gets an error.
type relay struct {
	net.Listener
	to string

	mu      sync.Mutex
	stalled chan struct{} // closed while bytes go through; nil after the test
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	r := &relay{Listener: ln, to: to, stalled: make(chan struct{})}
	close(r.stalled)
	go r.accept()
	return r
}

func (r *relay) accept() {
	for {
		from, err := r.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", r.to)
		if err != nil {
			from.Close()
			continue
		}
		go r.copy(to, from)
		go r.copy(from, to)
	}
}

func (r *relay) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		gate := r.stalled
		r.mu.Unlock()
		<-gate
		if _, err := io.Copy(to, bytes.NewReader(buf[:n])); err != nil {
			return
		}
	}
}

func (r *relay) stall() (resume func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gate := make(chan struct{})
	r.stalled = gate
	return func() { close(gate) }
}

// TestStalledServer: a server that takes nothing any more does not hold up who
// publishes, and is given up.
func TestStalledServer(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	through := newRelay(t, n.URL()[len("nats://"):])
	f := connect(t, "nats://"+through.Addr().String(), nil)
	eventually(t, "connected", f.Connected)
	resume := through.stall()
	defer resume()
	source := bytes.Repeat([]byte("x"), 60<<10)
	revision := script.Revision(0)
	eventually(t, "the server is given up", func() bool {
		revision++
		return f.PublishEvent(t.Context(), event(revision, source)) != nil && !f.Connected()
	})
}
