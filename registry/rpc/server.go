// Package rpc serves the registry over gRPC. It translates between messages and
// the nouns, and holds no rules of its own.
package rpc

import (
	"context"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/registry/recentlogs"
	"github.com/scriptorium-dev/scriptorium/registry/top"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config is what a Server serves.
type Config struct {
	Registry *registry.Registry
	Fleet    *fleet.Fleet
	// Logs of scripts, for those who read along; nil if there is no way to get them.
	Logs Logs
	// Asker asks agents; nil if there is no way to.
	Asker recentlogs.Asker
	// Timeline has the events; nil if there are none.
	Timeline Timeline
	// Usage of tenants; nil if none is kept.
	Usage Usage
	// Mirror and Groups serve followers; Sealer seals what they are to believe.
	Mirror *mirror.Mirror
	Groups Groups
	Sealer *seal.Sealer
	// Sessions are what agents that pull report in; none if nil.
	Sessions Sessions
	Log      *slog.Logger
	// About says what the registry is; nil if that is not known.
	About func(context.Context) About
	// Unavailable says why the registry answers no call now; nil if it does, and if the
	// function is nil.
	Unavailable func() error
	// Authentication says how callers are known. What each may do its identity says,
	// which every call finds in its context (access.FromContext).
	Authentication Authentication
	// Unary and Stream run around every call, outermost first: for metrics.
	Unary  []grpc.UnaryServerInterceptor
	Stream []grpc.StreamServerInterceptor
	// RequestTimeout bounds the arrival of a request, and the life of a connection
	// without a known caller; 0: 10 s.
	RequestTimeout time.Duration
	// Options are added to those of the gRPC server.
	Options []grpc.ServerOption
}

// Server is a gRPC server of the registry's services, with health and reflection.
type Server struct {
	server *grpcguard.Server
	health *health.Server
	gate   gate

	drain    sync.Once
	draining chan struct{} // closed when watches are to end
}

// Bounds of what a client may ask of the server.
const (
	maxRequestBytes = 4 << 20
	maxStreams      = 1000 // of one connection at a time

	// All requests that have not fully arrived or still run, and all replies that nobody has
	// read. Agents that start read up to 1 MiB at a time, and may be busy with it.
	bytesInProgress = 512 << 20
	replyTimeout    = 30 * time.Second

	// A connection is made anew after about the one, and what still runs on it is
	// ended the other after that: so certificates and identities are looked at again.
	connectionAge = 10 * time.Minute
	connectionEnd = 30 * time.Minute
)

// New returns a server that does not listen yet.
func New(cfg Config) *Server {
	guard, gate := guard{log: cfg.Log}, gate(cfg.Unavailable)
	s := &Server{health: health.NewServer(), gate: gate, draining: make(chan struct{})}
	authn := newAuthenticator(cfg.Authentication, cfg.Log)
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second,
			MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: connectionEnd,
		}),
		grpc.ChainUnaryInterceptor(append(slices.Clone(cfg.Unary), guard.unary, gate.unary)...),
		grpc.ChainStreamInterceptor(append(slices.Clone(cfg.Stream), guard.stream, authn.stream, gate.stream)...),
	}
	s.server = grpcguard.NewServer(grpcguard.Config{
		Admit:          authn.admit,
		Budget:         budget.New(bytesInProgress),
		Credentials:    authn.credentials(),
		Log:            cfg.Log,
		RequestTimeout: cfg.RequestTimeout,
		ReplyTimeout:   replyTimeout,
	}, append(options, cfg.Options...)...)
	service := &registryService{registry: cfg.Registry, fleet: cfg.Fleet, logs: cfg.Logs, asker: cfg.Asker, tries: newTries(), timeline: cfg.Timeline, usage: cfg.Usage, about: cfg.About, draining: s.draining}
	if cfg.Asker != nil {
		service.top = top.New(cfg.Asker)
	}
	registryv1.RegisterRegistryServer(s.server, service)
	registryv1.RegisterFeedServer(s.server, newFeedService(cfg))
	s.UpdateHealth()
	healthv1.RegisterHealthServer(s.server, s.health)
	reflection.Register(s.server)
	return s
}

// UpdateHealth has the health of the registry's services say whether they answer calls now, as
// Config.Unavailable does. That of the process, "", is serving from the start. Drain makes all
// NOT_SERVING.
func (s *Server) UpdateHealth() {
	for _, service := range []string{registryv1.Registry_ServiceDesc.ServiceName, registryv1.Feed_ServiceDesc.ServiceName} {
		state := healthv1.HealthCheckResponse_SERVING
		if s.gate.check("/"+service) != nil {
			state = healthv1.HealthCheckResponse_NOT_SERVING
		}
		s.health.SetServingStatus(service, state)
	}
}

// Serve answers on ln until the server is drained or stopped.
func (s *Server) Serve(ln net.Listener) error { return s.server.Serve(ln) }

// Drain stops listening, ends watches, and lets other calls finish until ctx is
// done; then it cuts them off.
func (s *Server) Drain(ctx context.Context) {
	s.drain.Do(func() {
		s.health.Shutdown()
		close(s.draining)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.server.GracefulStop()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.server.Stop()
		<-done
	}
}

// guard makes statuses of errors, and of panics: no call takes the process down.
type guard struct{ log *slog.Logger }

func (g guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, g.panicked(ctx, info.FullMethod, p)
		}
		err = asStatus(ctx, err)
	}()
	return handler(ctx, req)
}

func (g guard) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = g.panicked(ss.Context(), info.FullMethod, p)
		}
		err = asStatus(ss.Context(), err)
	}()
	return handler(srv, ss)
}

func (g guard) panicked(ctx context.Context, method string, p any) error {
	g.log.ErrorContext(ctx, "a call panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	return script.Errorf(script.Internal, "", "a fault in the registry; its log has the details")
}

// gate refuses calls of the registry's services while it says why. Health and reflection
// pass it.
type gate func() error

func (g gate) check(method string) error {
	if g == nil || !strings.HasPrefix(method, "/scriptorium.registry.") {
		return nil
	}
	return g()
}

func (g gate) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := g.check(info.FullMethod); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

func (g gate) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := g.check(info.FullMethod); err != nil {
		return err
	}
	return handler(srv, ss)
}

// asStatus tells a call that was given up by its caller from one that failed.
func asStatus(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return wire.ToStatus(ctx.Err())
	}
	return wire.ToStatus(err)
}
