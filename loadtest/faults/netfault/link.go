package netfault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a link.
type Config struct {
	// Name for people: "agent-0>nats-1".
	Name string
	// Listen is where the link listens; a free port on loopback if empty.
	Listen string
	// Upstreams are where connections go: by turns, and to the next one when one
	// does not answer.
	Upstreams []string
	// Source tells who is on the other side, from the first bytes that it sent; ok
	// is false until there are enough of them. Faults can then be set for one
	// source alone. May be nil.
	Source func(head []byte) (source string, ok bool)
	// ToClient, if not nil, forwards what the server sends, in place of a plain copy.
	ToClient func(client io.Writer, server io.Reader) error
}

// Link is a listening proxy. It is safe for concurrent use.
type Link struct {
	cfg      Config
	listener net.Listener
	next     atomic.Uint64
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	faults  map[string]Fault // by source; "" is for all
	changed chan struct{}    // closed at each change of faults
	pairs   map[*pair]struct{}
}

// Listen starts a link. The caller closes it.
func Listen(ctx context.Context, cfg Config) (*Link, error) {
	address := cfg.Listen
	if address == "" {
		address = "127.0.0.1:0"
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", cfg.Name, err)
	}
	l := &Link{
		cfg: cfg, listener: listener,
		faults:  map[string]Fault{},
		changed: make(chan struct{}),
		pairs:   map[*pair]struct{}{},
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.running.Go(l.accept)
	return l, nil
}

// Name of the link.
func (l *Link) Name() string { return l.cfg.Name }

// Addr is where the link listens.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Set breaks the link, for all sources.
func (l *Link) Set(f Fault) { l.SetFrom("", f) }

// SetFrom breaks the link for connections of one source.
func (l *Link) SetFrom(source string, f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults[source] = f
	l.apply()
}

// apply lets everyone see that the faults changed. l.mu is held.
func (l *Link) apply() {
	close(l.changed)
	l.changed = make(chan struct{})
	for p := range l.pairs {
		if mode := l.faultOf(p.source).Mode; mode == Cut || p.lost && mode != Mute {
			p.reset()
		}
	}
}

// lose reports whether the link drops what the server sent, and takes note of it.
func (l *Link) lose(p *pair) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faultOf(p.source).Mode != Mute {
		return false
	}
	p.lost = true
	return true
}

// Heal makes the link whole for everyone.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.faults)
	l.apply()
}

// Close ends the link and its connections.
func (l *Link) Close() error {
	l.cancel()
	err := l.listener.Close()
	l.mu.Lock()
	for p := range l.pairs {
		p.reset()
	}
	l.mu.Unlock()
	l.running.Wait()
	return err
}

// faultOf returns the fault for a source. l.mu is held.
func (l *Link) faultOf(source string) Fault {
	if f := l.faults[""]; f.Mode != Pass {
		return f
	}
	return l.faults[source]
}

// fault returns the fault for a source, and what is closed when it changes.
func (l *Link) fault(source string) (Fault, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faultOf(source), l.changed
}

func (l *Link) accept() {
	for {
		conn, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) || l.ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		l.running.Go(func() { l.serve(conn.(*net.TCPConn)) })
	}
}

// maxHead is how much is read at most to find out who the source is.
const maxHead = 8 << 10

// serve runs one connection until it ends.
func (l *Link) serve(client *net.TCPConn) {
	p := &pair{client: client}
	if !l.join(p) {
		return
	}
	defer l.leave(p)
	var head []byte
	if l.cfg.Source != nil {
		source, said, err := l.identify(client)
		if err != nil {
			return
		}
		head = said
		l.mu.Lock()
		p.source = source
		l.mu.Unlock()
	}
	if l.await(p.source) != nil {
		return
	}
	server, err := l.dial()
	if err != nil {
		return
	}
	l.mu.Lock()
	p.server = server
	l.mu.Unlock()
	if _, err := server.Write(head); err != nil {
		return
	}
	l.pump(p)
}

// join keeps the pair, unless it is cut at once.
func (l *Link) join(p *pair) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil || l.faultOf("").Mode == Cut {
		p.reset()
		return false
	}
	l.pairs[p] = struct{}{}
	return true
}

func (l *Link) leave(p *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.reset()
	delete(l.pairs, p)
}

func (l *Link) identify(client io.Reader) (source string, head []byte, err error) {
	buffer := make([]byte, maxHead)
	for n := 0; n < len(buffer); {
		m, err := client.Read(buffer[n:])
		n += m
		if source, ok := l.cfg.Source(buffer[:n]); ok {
			return source, buffer[:n], nil
		}
		if err != nil {
			return "", nil, err
		}
	}
	return "", buffer, nil
}

// await waits while the source's bytes are swallowed; an error means that the
// connection is to end.
func (l *Link) await(source string) error {
	for {
		f, changed := l.fault(source)
		switch f.Mode {
		case Cut:
			return errCut
		case Blackhole:
		default:
			return nil
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
			return l.ctx.Err()
		}
	}
}

var errCut = errors.New("the link is cut")

// dial connects to the next upstream that answers.
func (l *Link) dial() (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: time.Second}
	first := l.next.Add(1)
	var last error
	for i := range len(l.cfg.Upstreams) {
		address := l.cfg.Upstreams[(first+uint64(i))%uint64(len(l.cfg.Upstreams))]
		conn, err := dialer.DialContext(l.ctx, "tcp", address)
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		last = err
	}
	return nil, last
}

// pump copies both ways until one of them ends.
func (l *Link) pump(p *pair) {
	toClient := l.cfg.ToClient
	if toClient == nil {
		toClient = copyBytes
	}
	var both sync.WaitGroup
	both.Go(func() {
		_ = copyBytes(&late{link: l, pair: p, to: p.server}, p.client)
		l.end(p)
	})
	both.Go(func() {
		w := &late{link: l, pair: p, to: p.client, answers: true}
		_ = toClient(w, p.server)
		l.end(p)
	})
	both.Wait()
}

func copyBytes(to io.Writer, from io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 16<<10))
	return err
}

func (l *Link) end(p *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.close()
}

// pair is one connection through the link.
type pair struct {
	source string
	client *net.TCPConn
	server *net.TCPConn // nil until it is dialled
	lost   bool         // an answer
}

// close ends both connections; what was written still arrives.
func (p *pair) close() {
	_ = p.client.Close()
	if p.server != nil {
		_ = p.server.Close()
	}
}

// reset ends both connections at once.
func (p *pair) reset() {
	_ = p.client.SetLinger(0)
	if p.server != nil {
		_ = p.server.SetLinger(0)
	}
	p.close()
}
