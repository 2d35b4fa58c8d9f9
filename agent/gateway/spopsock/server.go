package spopsock

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
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
	conns   *gateway.Conns
	buffers sync.Pool // *[]byte, for one frame at least
}

// New returns a Server.
func New(opts Options) *Server {
	s := &Server{opts: opts.withDefaults()}
	s.buffers.New = func() any {
		b := make([]byte, lengthSize+s.opts.MaxFrame)
		return &b
	}
	s.conns = gateway.NewConns(gateway.ConnsConfig{
		Entry:       gateway.Entry{Access: s.opts.Access, Connections: s.opts.Connections, Bytes: connBytes, Refuse: refuse},
		IdleTimeout: s.opts.IdleTimeout, Logger: s.opts.Logger, Closed: ErrClosed,
		New: func(nc net.Conn) (gateway.Conn, error) { return newConn(s, nc) },
	})
	return s
}

// Serve accepts connections on l, which it closes, until Shutdown, and then returns ErrClosed. It
// can only serve connections that are also syscall.Conn, as those over Unix sockets and TCP are.
func (s *Server) Serve(l net.Listener) error { return s.conns.Serve(l) }

// Shutdown stops accepting, lets calls in flight finish and their replies be written, and closes
// each connection after that. When ctx is done first, it closes what is left and returns ctx's
// error.
func (s *Server) Shutdown(ctx context.Context) error { return s.conns.Shutdown(ctx) }

// connBytes are what a connection holds at rest: its goroutine and what it knows of its peer.
const connBytes = 4 << 10

func refuse(nc net.Conn) {
	_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = nc.Write(disconnect(statusResources, "the agent has as many connections as it may").append(nil))
}
