// Package grpcguard bounds what the bytes of clients cost a gRPC server. It learns who calls at
// the headers of a call, before its body, and it sees every frame of HTTP/2, between TLS and
// gRPC. So it charges each caller for the requests that have not fully arrived or still run and
// for the replies that nobody has read, and it closes connections that cost more than they may.
package grpcguard

import (
	"context"
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of a Server. Admit and Budget are required; a zero field means what it says.
type Config struct {
	// Admit returns the name of a call's caller, or budget.Stranger for a call that everybody
	// may make, and the context that the call's handler gets. Its error is the answer to the
	// call. It runs once a call, before the body is read, and must not block.
	Admit func(ctx context.Context, method string) (caller context.Context, name string, err error)
	// Budget for bytes in progress.
	Budget *budget.Budget
	// Credentials of the connections; nil: none, over a connection that needs none.
	Credentials credentials.TransportCredentials
	// Known reports whether a connection counts as a known caller's before its first call;
	// nil: none does.
	Known func(credentials.AuthInfo) bool
	// Log gets, once a minute at most, why connections are closed; nil: nobody does.
	Log *slog.Logger

	// Connections of known callers; nil: budget.OwnConnections. A connection that is Known
	// before its first call does not enter: whoever accepts it counts it.
	Connections *budget.Connections
	// MaxStrangers is how many connections may be without a known caller; 0: a tenth of all.
	MaxStrangers int
	// RequestTimeout bounds the arrival of a request, and the life of a connection without a
	// known caller; 0: 10 s.
	RequestTimeout time.Duration
	// ReplyTimeout closes a connection that takes no byte of a waiting reply; 0: 10 s.
	ReplyTimeout time.Duration
}

// Limits that no Config changes.
const (
	defaultTimeout = 10 * time.Second

	// What one stream, and one connection, may send before it is read. By default gRPC lets
	// the windows grow to 16 MiB, which a client could fill on each stream.
	streamWindow     = 64 << 10
	connectionWindow = 1 << 20
	readBuffer       = 4 << 10

	// Bytes that each open call is charged for: its goroutines, and gRPC's own memory for it.
	callBytes = 12 << 10
	// Requests and replies are charged for what they hold beyond so many bytes.
	freeBytes = 4 << 10
	// fieldBytes is what gRPC needs for a field of the headers besides its name and value.
	fieldBytes = 100
	// strangerBytes bounds the body of one call of a stranger.
	strangerBytes = 2 * streamWindow

	// Resets and refused calls. A connection that makes more of them is closed once all
	// connections of its caller together make more, too.
	connectionResets, connectionResetBurst = 10, 20
	callerResets, callerResetBurst         = 1000, 1000
	mostPaces                              = 1024 // callers whose resets are remembered
)

// Server is a gRPC server that a guard guards.
type Server struct {
	*grpc.Server
	guard *guard
}

// guard knows the connections of one server. Its mutex is locked before those of connections.
type guard struct {
	cfg Config
	// single are the methods whose callers send one message.
	single map[string]bool

	mu        sync.Mutex
	conns     map[*conn]struct{}
	strangers int
	sweeping  bool
	logged    time.Time

	pacesMu sync.Mutex
	paces   map[string]*rate.Limiter
}

// NewServer returns a gRPC server with the options. Interceptors see the calls that are refused,
// too: a unary one then without a request.
func NewServer(cfg Config, options ...grpc.ServerOption) *Server {
	g := &guard{cfg: cfg.withDefaults(), single: map[string]bool{}, conns: map[*conn]struct{}{}, paces: map[string]*rate.Limiter{}}
	return &Server{Server: grpc.NewServer(append(options, g.options()...)...), guard: g}
}

func (cfg Config) withDefaults() Config {
	if cfg.Credentials == nil {
		cfg.Credentials = insecure.NewCredentials()
	}
	if cfg.Known == nil {
		cfg.Known = func(credentials.AuthInfo) bool { return false }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Connections == nil {
		cfg.Connections = budget.OwnConnections(math.MaxInt64 / 4)
	}
	if cfg.MaxStrangers == 0 {
		cfg.MaxStrangers = max(1, cfg.Connections.Most()/10)
	}
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = defaultTimeout
	}
	if cfg.ReplyTimeout == 0 {
		cfg.ReplyTimeout = defaultTimeout
	}
	return cfg
}

// options come after those of the server: the interceptor is the innermost.
func (g *guard) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(guardedCredentials{TransportCredentials: g.cfg.Credentials, guard: g}),
		grpc.InTapHandle(g.tap),
		grpc.ChainStreamInterceptor(intercept),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")}),
		grpc.RPCDecompressor(noGzip{}), //nolint:staticcheck // a server can do without what another package registers in no other way
		grpc.MaxHeaderListSize(wire.MaxHeaderBytes),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		// A conn buffers what it reads, so that it passes no frame on before its time.
		grpc.ReadBufferSize(0),
	}
}

// tap runs at the headers of each call, on the goroutine that reads the connection. It never
// returns an error: gRPC would keep the timer of the call's deadline.
func (g *guard) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	p, _ := peer.FromContext(ctx)
	c := p.LocalAddr.(guardedAddr).conn
	ctx, caller, err := g.cfg.Admit(ctx, info.FullMethodName)
	if err != nil {
		caller = budget.Stranger
	}
	s := &stream{conn: c, refused: err, stranger: caller == budget.Stranger, single: g.single[info.FullMethodName]}
	c.open(s, caller, costOf(info.Header), err != nil)
	return context.WithValue(ctx, streamKey{}, s), nil
}

// costOf returns about how much memory the headers of a call take.
func costOf(header metadata.MD) int64 {
	cost := 0
	for name, values := range header {
		for _, v := range values {
			cost += fieldBytes + len(name) + len(v)
		}
	}
	return int64(cost)
}

// guardedCredentials make a conn of each connection.
type guardedCredentials struct {
	credentials.TransportCredentials
	guard *guard
}

// ServerHandshake implements credentials.TransportCredentials.
func (c guardedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	guarded, err := c.guard.enter(raw)
	if err != nil {
		return nil, nil, err
	}
	secured, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		c.guard.leave(guarded)
		return nil, nil, err
	}
	guarded.secure(secured)
	guarded.greeted = c.guard.cfg.Known(info)
	return guarded, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c guardedCredentials) Clone() credentials.TransportCredentials {
	c.TransportCredentials = c.TransportCredentials.Clone()
	return c
}

// enter counts a connection, of a stranger at first.
func (g *guard) enter(raw net.Conn) (*conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.conns) >= g.cfg.Connections.Most() || g.strangers >= g.cfg.MaxStrangers {
		err := script.Errorf(script.Overloaded, "", "the server has as many connections as it may: %d, %d of them without a known caller", len(g.conns), g.strangers)
		g.warn("a connection was refused", raw, err)
		return nil, err
	}
	c := &conn{raw: raw, guard: g, since: time.Now(), streams: map[uint32]*stream{}}
	g.conns[c] = struct{}{}
	g.strangers++
	if !g.sweeping {
		g.sweeping = true
		time.AfterFunc(g.interval(), g.sweep)
	}
	return c, nil
}

func (g *guard) leave(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, in := g.conns[c]; !in {
		return
	}
	delete(g.conns, c)
	if !c.known {
		g.strangers--
	}
	if c.holder != "" {
		g.cfg.Connections.Leave(c.holder, 0)
	}
}

// warn says why a connection ends, once a minute. Its caller holds g.mu.
func (g *guard) warn(message string, raw net.Conn, err error) {
	if now := time.Now(); now.Sub(g.logged) > time.Minute {
		g.logged = now
		g.cfg.Log.Warn(message+"; others are logged once a minute", "peer", raw.RemoteAddr().String(), "error", err)
	}
}

// interval of the sweeps.
func (g *guard) interval() time.Duration { return min(g.cfg.RequestTimeout, g.cfg.ReplyTimeout) / 10 }

// sweep gives up requests and closes connections whose time is over. It goes on for as long as
// there are connections.
func (g *guard) sweep() {
	now := time.Now()
	g.cfg.Budget.Expire(now)
	type late struct {
		conn *conn
		err  error
	}
	var over []late
	g.mu.Lock()
	for c := range g.conns {
		if err := c.overdue(now, !c.known); err != nil {
			over = append(over, late{c, err})
		}
	}
	if g.sweeping = len(g.conns) > 0; g.sweeping {
		time.AfterFunc(g.interval(), g.sweep)
	}
	g.mu.Unlock()
	for _, l := range over {
		l.conn.cut(l.err)
		g.leave(l.conn) // gRPC does not close what ends before its first frame
	}
}

// pace returns the limiter of all resets of a caller.
func (g *guard) pace(caller string) *rate.Limiter {
	g.pacesMu.Lock()
	defer g.pacesMu.Unlock()
	p := g.paces[caller]
	if p == nil {
		if len(g.paces) >= mostPaces {
			clear(g.paces)
		}
		p = rate.NewLimiter(callerResets, callerResetBurst)
		g.paces[caller] = p
	}
	return p
}
