// Package respsock serves scripts over the Redis protocol, RESP2 and RESP3, so
// that every Redis client is a client of an agent:
//
//	FCALL tenant/script 0 [ARG ...]
//
// runs a script, each ARG a JSON value, and answers its one result as a bulk
// string, several as an array, none as null. docs/protocol.md has the rest.
//
// The protocol is written by hand, for speed: a connection at rest holds no
// buffers, and a call makes no garbage and two system calls.
package respsock

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
	// Version of the software, as HELLO and INFO name it.
	Version string

	// Connections at a time, with those of other sockets; nil:
	// budget.OwnConnections. One more gets an error reply and is closed.
	Connections *budget.Connections
	// IdleTimeout closes a connection on which nothing came for that long; 0: an
	// hour, since pools keep connections.
	IdleTimeout time.Duration
	// RequestTimeout closes a connection that began a command and did not finish
	// it; 0: 30 s.
	RequestTimeout time.Duration
	// WriteTimeout closes a connection whose client does not read its replies;
	// 0: 10 s.
	WriteTimeout time.Duration
	// Budget for half-received commands and unread replies beyond what each
	// connection may hold anyway (16 KiB); nil: one of 256 MiB.
	Budget *budget.Budget
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Executor = gateway.Protect(o.Executor, o.Logger)
	if o.Version == "" {
		o.Version = "unknown"
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
var ErrClosed = errors.New("respsock: the server was shut down")

// Server serves connections. Its methods are safe for concurrent use.
type Server struct {
	opts Options
	// ctx ends when the server gives up the calls in flight.
	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}

	now      atomic.Int64 // in parts of the IdleTimeout
	draining atomic.Bool
	running  sync.WaitGroup // connections
	lastID   atomic.Int64
	calls    atomic.Int64
}

// New returns a Server.
func New(opts Options) *Server {
	s := &Server{
		opts:      opts.withDefaults(),
		listeners: map[net.Listener]struct{}{},
		conns:     map[*conn]struct{}{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Serve accepts connections on l, which it closes, until Shutdown, and then
// returns ErrClosed. Only connections that are also syscall.Conn, as those over
// Unix sockets and TCP are, can be served.
func (s *Server) Serve(l net.Listener) error {
	l = gateway.Entry{
		Access: s.opts.Access, Connections: s.opts.Connections, Bytes: connBytes, Refuse: refuse,
	}.Listen(l)
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

// connBytes are what a connection holds at rest: its goroutine and what it knows of its client.
const connBytes = 4 << 10

func refuse(nc net.Conn) {
	_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = nc.Write([]byte("-ERR max number of clients reached\r\n"))
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
			if p := recover(); p != nil {
				s.opts.Logger.Error("a connection panicked and was closed", "panic", p, "stack", string(debug.Stack()))
			}
			c.close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		}()
		c.serve()
	})
}

// idleParts is in how many parts of the IdleTimeout the server counts the time.
const idleParts = 8

// closeIdle closes connections on which nothing came for the IdleTimeout, until ctx is
// done. A deadline for each connection would cost each request more than a call does.
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

// Shutdown stops accepting, lets calls in flight finish and their replies be
// written, and closes each connection after that. When ctx is done first, it
// closes what is left and returns ctx's error.
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
	// First, so that no client takes the end of its call for the script's answer.
	s.mu.Lock()
	for c := range s.conns {
		c.kill()
	}
	s.mu.Unlock()
	s.cancel()
	<-done
	return ctx.Err()
}

// connections returns how many there are.
func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
