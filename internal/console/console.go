// Package console serves the console, a web application for the scripts of a registry. It holds sessions and passes the
// browser's Connect calls on to the registry's gRPC services with the credentials of the session. It decides nothing: what
// a person may see and do is the registry's access policy.
package console

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// Config is what a console needs.
type Config struct {
	// Dial returns another connection to the registry, without credentials per call.
	Dial func() (*grpc.ClientConn, error)
	// Plaintext says that the connections to the registry are not encrypted, and may have tokens nevertheless.
	Plaintext bool
	// Assets are the files of the web application, with index.html for each page.
	Assets fs.FS
	// Announce, if not nil, shows a code to whoever runs the console. The code signs in once, without a token, as whom the
	// registry takes the connection itself for. Then there is another one.
	Announce func(code string)
	// Own are the credentials per call of who signs in with a code; nil for none.
	Own credentials.PerRPCCredentials
	// Provider is where people sign in, besides.
	Provider Provider
	// Modes selects what happens if others can read the provider's secret.
	Modes tlsfiles.Modes
	// URL is where browsers find the console, such as https://console.example; empty: as Secure and Address say.
	URL string
	// Secure says that the browser's connection is encrypted. Else, and without a URL with https, the console is for this
	// machine alone.
	Secure bool
	// Address is the host:port that the console listens on.
	Address string
	// WriteTimeout is how long a browser may take nothing of a stream that is written to; 0: 30 s.
	WriteTimeout time.Duration
	// BodyTimeout is how long a request may take to arrive; 0: 30 s.
	BodyTimeout time.Duration
	// Memory is how many bytes the requests and answers in progress may hold; 0: 256 MiB.
	Memory int64

	Clock   func() time.Time
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Console is a handler for all that browsers ask. Close ends it.
type Console struct {
	http.Handler

	cfg      Config
	site     site
	sessions *sessions
	registry *pool
	memory   *budget.Budget // for requests and answers in progress
	metrics  *metrics
	log      *slog.Logger

	draining context.Context // ends when streams must end
	drain    context.CancelFunc
	conns    []io.Closer
}

// New returns a console that has not asked the registry yet.
func New(cfg Config) (*Console, error) {
	at, err := newSite(cfg)
	if err != nil {
		return nil, err
	}
	provider, err := newProvider(cfg)
	if err != nil {
		return nil, err
	}
	c := &Console{cfg: cfg, site: at, sessions: newSessions(cfg.Clock, at.cookies), memory: budget.New(cmp.Or(cfg.Memory, bytesInProgress)), log: cfg.Log}
	if c.metrics, err = newMetrics(cfg.Metrics, c.sessions); err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.draining, c.drain = context.WithCancel(context.Background())
	pages, err := newFiles(cfg.Assets)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	mux := http.NewServeMux()
	newSignIn(c, provider).route(mux)
	for _, methods := range []map[string]http.Handler{c.services(), manifests()} {
		for path, handler := range methods {
			mux.Handle("POST "+path, c.require(handler))
		}
	}
	mux.HandleFunc("POST /", unknownMethod)
	mux.Handle("GET /", pages)
	c.Handler = at.guard(c.metrics, cmp.Or(cfg.BodyTimeout, bodyTimeout), mux)
	return c, nil
}

// connect makes the connections to the registry.
func (c *Console) connect() error {
	c.registry = &pool{}
	dial := func() (*grpc.ClientConn, error) {
		conn, err := c.cfg.Dial()
		if err == nil {
			c.conns = append(c.conns, conn)
		}
		return conn, err
	}
	calls, err := dial()
	if err != nil {
		return err
	}
	c.registry.calls = calls
	for i := range c.registry.streams {
		if c.registry.streams[i], err = dial(); err != nil {
			return err
		}
	}
	return nil
}

// Run ends the sessions that are over, until ctx is done.
func (c *Console) Run(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.sessions.sweep()
		case <-ctx.Done():
			return
		}
	}
}

// Drain ends all streams.
func (c *Console) Drain() { c.drain() }

// Close drains, and closes the connections to the registry.
func (c *Console) Close() error {
	if c.drain != nil {
		c.drain()
	}
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
