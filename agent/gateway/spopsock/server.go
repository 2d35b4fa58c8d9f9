package spopsock

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// Options of a Server. Executor is required; a zero field means what it says.
type Options struct {
	Executor gateway.Executor
	// Access decides which callers may use which tenants; nil: all callers may use all tenants.
	Access *gateway.Access
	// Logger gets what an operator should know; nil: slog.Default().
	Logger *slog.Logger

	// MaxFrame bounds the frames of both ends; 0: 16 KiB.
	MaxFrame int
	// MaxRunning bounds the questions of one connection that run at once; 0: 64.
	MaxRunning int
	// Connections at a time, with those of other sockets; nil: budget.OwnConnections. One more
	// gets DISCONNECT and is closed.
	Connections *budget.Connections
	// IdleTimeout closes a connection on which nothing came for that long; 0: an hour.
	IdleTimeout time.Duration
	// RequestTimeout closes a connection that began a frame and did not finish it, or that did
	// not send HELLO; 0: 30 s.
	RequestTimeout time.Duration
	// WriteTimeout closes a connection whose peer does not read its answers; 0: 10 s.
	WriteTimeout time.Duration
	// Budget for half-received frames, and for questions and their answers; nil: one of 256 MiB.
	Budget *budget.Budget
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Executor = gateway.Protect(o.Executor, o.Logger)
	if o.MaxFrame == 0 {
		o.MaxFrame = 16 << 10
	}
	if o.MaxRunning == 0 {
		o.MaxRunning = 64
	}
	if o.Connections == nil {
		o.Connections = budget.OwnConnections(gateway.IdleBytes)
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = time.Hour
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 30 * time.Second
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 10 * time.Second
	}
	if o.Budget == nil {
		o.Budget = budget.New(gateway.DefaultBudget)
	}
	return o
}

// ErrClosed is what Serve returns after Shutdown.
var ErrClosed = errors.New("spopsock: the server was shut down")

// Server serves connections. Its methods are safe for concurrent use.
type Server struct {
	opts    Options
	buffers sync.Pool // *[]byte, for one frame at least

	// ctx ends when the server gives up the calls in flight.
	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}

	now      atomic.Int64 // in parts of the IdleTimeout
	draining atomic.Bool
	running  sync.WaitGroup // connections
}

// New returns a Server.
func New(opts Options) *Server {
	s := &Server{opts: opts.withDefaults(), listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{}}
	s.buffers.New = func() any {
		b := make([]byte, lengthSize+s.opts.MaxFrame)
		return &b
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Serve accepts connections on l, which it closes, until Shutdown, and then returns ErrClosed. It
// can only serve connections that are also syscall.Conn, as those over Unix sockets and TCP are.
func (s *Server) Serve(l net.Listener) error {
	l = gateway.Entry{Access: s.opts.Access, Connections: s.opts.Connections, Bytes: connBytes, Refuse: refuse}.Listen(l)
	defer func() { _ = l.Close() }()
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		return ErrClosed
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	idle, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go s.closeIdle(idle)
	for {
		nc, err := gateway.Accept(s.ctx, l, s.opts.Logger)
		if s.draining.Load() {
			if err == nil {
				_ = nc.Close()
			}
			return ErrClosed
		}
		if err != nil {
			return err
		}
		s.start(nc)
	}
}

// connBytes are what a connection holds at rest: its goroutine and what it knows of its peer.
const connBytes = 4 << 10

func refuse(nc net.Conn) {
	_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = nc.Write(disconnect(statusResources, "the agent has as many connections as it may").append(nil))
}

// start serves nc in a goroutine.
func (s *Server) start(nc net.Conn) {
	c, err := newConn(s, nc)
	if err != nil {
		s.opts.Logger.Error("a connection cannot be served", "error", err)
		_ = nc.Close()
		return
	}
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	s.running.Go(func() {
		defer func() {
			c.close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		}()
		defer c.survive()
		c.serve()
	})
}

// survive, when it is deferred, ends a connection that panics and not the agent.
func (c *conn) survive() {
	if p := recover(); p != nil {
		c.srv.opts.Logger.Error("a connection panicked and was closed", "panic", p, "stack", string(debug.Stack()))
		c.kill()
	}
}

// idleParts is in how many parts of the IdleTimeout the server counts the time.
const idleParts = 8

// closeIdle closes connections on which nothing came for the IdleTimeout, until ctx is done. A
// deadline for each connection would cost each question more.
func (s *Server) closeIdle(ctx context.Context) {
	tick := time.NewTicker(max(s.opts.IdleTimeout/idleParts, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.now.Add(1)
		s.mu.Lock()
		for c := range s.conns {
			if now-c.active.Load() > idleParts {
				c.wake()
			}
		}
		s.mu.Unlock()
	}
}

// Shutdown stops accepting, lets calls in flight finish and their answers be written, and ends each
// connection after that. When ctx is done first, it closes what is left and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.mu.Lock()
	for l := range s.listeners {
		_ = l.Close()
	}
	for c := range s.conns {
		c.wake()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.running.Wait()
	}()
	select {
	case <-done:
		s.cancel()
		return nil
	case <-ctx.Done():
	}
	// First, so that no peer takes the end of its call for the script's answer.
	s.mu.Lock()
	for c := range s.conns {
		c.kill()
	}
	s.mu.Unlock()
	s.cancel()
	<-done
	return ctx.Err()
}
