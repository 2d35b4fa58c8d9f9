// Package httpsock serves scripts over HTTP:
//
//	POST /v1/execute/{tenant}/{script}    runs a script, or one version: {script}@7
//	any  /v1/decide/{tenant}/{script}     has a script decide about a client's request
//	GET  /v1/scripts                      lists the scripts that the caller may run
//	GET  /healthz, /readyz, /metrics
//
// The body of a call is its one argument as JSON (no body: no argument), or
// {"args":[…]} with the content type ArgsContentType. The answer is the result:
// null if there is none, an array if there are several, and then the header
// Scriptorium-Results says how many. Every error of these paths but /readyz is a
// JSON object as errorBody declares it. Its kind decides the status, with four
// exceptions for which HTTP has a status of its own. They are of kind INVALID, else 400, and DENIED, else 403:
//
//	401  a request over TCP does not show a known caller
//	405  a method that the path does not take; Allow says which it does
//	413  a body over the limit
//	415  a content type that is not JSON, or form data
//
// A path that is not there is 404 with kind NOTFOUND and field "path"; a script
// that is not there has field "script" or "version".
//
// Over a Unix socket, a connection serves requests for decisions that have no body by itself: see
// quickConn. net/http serves all others.
//
// /healthz answers {"alive":true}; /readyz 200 {"ready":true}, or 503
// {"ready":false,"reason":"…"}. docs/protocol.md has the whole contract.
package httpsock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// Options of a Server. Executor is required; a zero field means what it says.
type Options struct {
	Executor gateway.Executor
	// Access decides which callers may use which tenants; nil: all callers may use all tenants.
	Access *gateway.Access
	// Identify says what the sender of each request may use, by the values of its header callers.Header and
	// by its verified client certificate, if it has shown one. A server with it serves TCP, and takes
	// no notice of Access. nil: Access decides.
	Identify func(tokens []string, cert *x509.Certificate, now time.Time) (gateway.Grant, error)
	// TLS secures the connections of a server with Identify; nil: they are not encrypted.
	TLS *tls.Config
	// Logger gets what an operator should know; nil: slog.Default().
	Logger *slog.Logger
	// Metrics returns what /metrics shows to a peer; nil: there is no /metrics.
	Metrics func(gateway.Grant) (prometheus.Gatherer, error)
	// Ready returns nil once the agent serves, else why it does not; nil: it
	// always does.
	Ready func() error
	// Connections at a time, with those of other sockets; nil:
	// budget.OwnConnections. Of those too many the last 64 may ask for /healthz,
	// /readyz and /metrics.
	Connections *budget.Connections
	// ReadTimeout bounds the receipt of one request; 0: 30 s.
	ReadTimeout time.Duration
	// WriteTimeout bounds a call and the writing of its answer; 0: 30 s. It has
	// to be longer than a script may run.
	WriteTimeout time.Duration
	// IdleTimeout closes a connection without requests; 0: 10 min.
	IdleTimeout time.Duration
	// Budget for bodies that have not fully arrived or whose calls run, and for
	// unread answers; nil: one of 256 MiB.
	Budget *budget.Budget
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Executor = gateway.Protect(o.Executor, o.Logger)
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Connections == nil {
		o.Connections = budget.OwnConnections(gateway.IdleBytes)
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = 30 * time.Second
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 30 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 10 * time.Minute
	}
	if o.Budget == nil {
		o.Budget = budget.New(gateway.DefaultBudget)
	}
	return o
}

// ErrClosed is what Serve returns after Shutdown.
var ErrClosed = errors.New("httpsock: the server was shut down")

// Server serves connections. Its methods are safe for concurrent use.
type Server struct {
	opts   Options
	http   *http.Server
	conns  *gateway.Conns // of a server without Identify
	passed *passedListener
	serve  sync.Once     // begins to serve what is passed
	making gateway.Slots // held while a large answer is made
	spare  *gateway.Latest
}

// maxHeaderBytes of a request: a gateway adds a few headers, not pages of them.
const maxHeaderBytes = 32 << 10

// New returns a Server.
func New(opts Options) *Server {
	s := &Server{opts: opts.withDefaults(), spare: gateway.NewLatest(spareConns)}
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: s.opts.ReadTimeout,
		ReadTimeout:       s.opts.ReadTimeout,
		WriteTimeout:      s.opts.WriteTimeout,
		IdleTimeout:       s.opts.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// Else net/http answers OPTIONS * to whoever asks.
		DisableGeneralOptionsHandler: s.opts.Identify != nil,
		ErrorLog:                     slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelWarn),
		ConnState:                    follow,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			conn = conn.(*headConn).Conn
			if passed, ok := conn.(*passedConn); ok {
				return context.WithValue(ctx, peerKey{}, passed.ctx.Value(peerKey{}))
			}
			return context.WithValue(ctx, peerKey{}, s.newPeer(conn))
		},
	}
	s.passed = newPassedListener()
	s.conns = gateway.NewConns(gateway.ConnsConfig{
		Entry:       gateway.Entry{Access: s.opts.Access, Connections: s.opts.Connections, Bytes: connBytes, Spare: s.spare},
		IdleTimeout: s.opts.IdleTimeout, Logger: s.opts.Logger, Closed: ErrClosed, New: s.newQuickConn,
	})
	return s
}

// routes sends every path to its handler. The handlers look at the method
// themselves, so that a wrong one is answered in JSON as any other error.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/execute/{tenant}/{script}", s.entered(http.MethodPost, s.execute))
	mux.Handle("/v1/scripts", s.entered(http.MethodGet, s.list))
	mux.Handle("/healthz", s.only(http.MethodGet, s.health))
	mux.Handle("/readyz", s.only(http.MethodGet, s.ready))
	if s.opts.Metrics != nil {
		mux.Handle("/metrics", s.only(http.MethodGet, s.metrics))
	}
	mux.HandleFunc("/", s.notFound)
	// A mux would redirect a client's path that is not clean.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.opts.Identify != nil && !s.identify(w, r) {
			return
		}
		if strings.HasPrefix(r.URL.Path, decidePrefix) {
			s.decide(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// Serve accepts connections on l, which it closes, until Shutdown, and then
// returns ErrClosed.
func (s *Server) Serve(l net.Listener) error {
	if s.opts.Identify == nil {
		s.serve.Do(func() { go func() { _ = s.http.Serve(headListener{s.passed}) }() })
		return s.conns.Serve(l)
	}
	if err := s.http.Serve(headListener{s.listenUnknown(l)}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ErrClosed
}

const (
	// connBytes are what a connection holds at rest: its goroutines and buffers, also those of net/http.
	connBytes = 16 << 10
	// spareConns are kept for probes when there are too many connections.
	spareConns = 64
)

// Shutdown stops accepting, lets requests in flight finish and closes idle
// connections. When ctx is done first, it closes what is left and returns ctx's
// error.
func (s *Server) Shutdown(ctx context.Context) error {
	passed := make(chan error, 1)
	go func() {
		err := s.http.Shutdown(ctx)
		if err != nil {
			err = errors.Join(err, s.http.Close())
		}
		passed <- err
	}()
	err := s.conns.Shutdown(ctx) // waits for what net/http has, too
	return errors.Join(err, <-passed)
}
