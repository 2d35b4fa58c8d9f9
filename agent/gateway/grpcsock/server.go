// Package grpcsock serves scripts over gRPC: scriptorium.agent.v1.Executor, and Envoy's
// services of package envoy, with health and reflection. It translates, and holds no rules of its own.
package grpcsock

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/envoy"
	agentv1 "github.com/scriptorium-dev/scriptorium/proto/agent/v1"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	"github.com/scriptorium-dev/scriptorium/proto/unixpeer"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Options of a Server. Executor is required; a zero field means what it says.
type Options struct {
	Executor gateway.Executor
	// Access decides which callers may use which tenants; nil: all callers may use all tenants.
	Access *gateway.Access
	// Logger gets what an operator should know; nil: slog.Default().
	Logger *slog.Logger
	// Connections at a time, with those of other sockets; nil:
	// budget.OwnConnections. One more is closed.
	Connections *budget.Connections
	// IdleTimeout ends a connection without calls; 0: an hour.
	IdleTimeout time.Duration
	// HandshakeTimeout closes a connection that does not begin to speak HTTP/2;
	// 0: 10 s.
	HandshakeTimeout time.Duration
	// RequestTimeout ends a call whose request does not fully arrive; 0: 10 s.
	RequestTimeout time.Duration
	// WriteTimeout closes a connection whose client does not read its replies;
	// 0: 10 s.
	WriteTimeout time.Duration
	// Budget for requests that have not fully arrived or still run, and for
	// unread replies; nil: one of 256 MiB.
	Budget *budget.Budget
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Executor = gateway.Protect(o.Executor, o.Logger)
	if o.Connections == nil {
		o.Connections = budget.OwnConnections(gateway.IdleBytes)
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = time.Hour
	}
	if o.HandshakeTimeout == 0 {
		o.HandshakeTimeout = 10 * time.Second
	}
	if o.Budget == nil {
		o.Budget = budget.New(gateway.DefaultBudget)
	}
	return o
}

// Bounds of what one connection may ask for.
const (
	maxMessage = 4 << 20 // bytes, either way
	maxStreams = 1024    // calls at a time
	maxArgs    = 1024
)

// connBytes are what a connection holds at rest: gRPC's goroutines and buffers.
const connBytes = 24 << 10

// ErrClosed is what Serve returns after Shutdown.
var ErrClosed = errors.New("grpcsock: the server was shut down")

// Server serves connections. Its methods are safe for concurrent use.
type Server struct {
	opts    Options
	grpc    *grpcguard.Server
	health  *health.Server
	listing gateway.Slots // held while a list is made

	drain    sync.Once
	draining chan struct{}
}

// New returns a Server.
func New(opts Options) *Server {
	s := &Server{opts: opts.withDefaults(), health: health.NewServer(), draining: make(chan struct{})}
	s.grpc = grpcguard.NewServer(grpcguard.Config{
		Admit:          admit,
		Budget:         s.opts.Budget,
		Credentials:    unixpeer.Credentials(s.opts.Access.GrantOf),
		Known:          known,
		Log:            s.opts.Logger,
		Connections:    s.opts.Connections, // which connections enter in Serve
		MaxStrangers:   s.opts.Connections.Most(),
		RequestTimeout: s.opts.RequestTimeout,
		ReplyTimeout:   s.opts.WriteTimeout,
	},
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(s.opts.HandshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: s.opts.IdleTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(s.recoverUnary),
		grpc.StreamInterceptor(s.recoverStream),
	)
	agentv1.RegisterExecutorServer(s.grpc, &service{server: s})
	envoy.Register(s.grpc, s.opts.Executor, s.opts.Logger)
	// "" is serving from the start; Shutdown makes all NOT_SERVING.
	for _, service := range append(envoy.Services(), agentv1.Executor_ServiceDesc.ServiceName) {
		s.health.SetServingStatus(service, healthv1.HealthCheckResponse_SERVING)
	}
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s
}

// Serve accepts connections on l, which it closes, until Shutdown, and then
// returns ErrClosed.
func (s *Server) Serve(l net.Listener) error {
	l = gateway.Entry{
		Access: s.opts.Access, Connections: s.opts.Connections, Bytes: connBytes,
		Refuse: func(net.Conn) {}, // a client of gRPC understands the end alone
	}.Listen(l)
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return ErrClosed
}

// Shutdown stops accepting, lets calls in flight finish, those of streams
// included, and closes all connections. When ctx is done first, it ends what is
// left and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain.Do(func() {
		s.health.Shutdown()
		close(s.draining)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
		return ctx.Err()
	}
}

func (s *Server) recoverUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(info.FullMethod, p)
		}
	}()
	return next(ctx, req)
}

func (s *Server) recoverStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(info.FullMethod, p)
		}
	}()
	return next(srv, stream)
}

// panicked logs a panic and returns what the caller gets to see of it.
func (s *Server) panicked(method string, p any) error {
	s.opts.Logger.Error("a request panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	return wire.ToStatus(script.Errorf(script.Internal, "", "the agent failed to handle the request; its log says why"))
}
