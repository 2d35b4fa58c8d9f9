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
	opts   Options
	conns  *gateway.Conns
	lastID atomic.Int64
	calls  atomic.Int64
}

// New returns a Server.
func New(opts Options) *Server {
	s := &Server{opts: opts.withDefaults()}
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

// connBytes are what a connection holds at rest: its goroutine and what it knows of its client.
const connBytes = 4 << 10

func refuse(nc net.Conn) {
	_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = nc.Write([]byte("-ERR max number of clients reached\r\n"))
}
