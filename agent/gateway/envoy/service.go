// Package envoy lets scripts decide about the requests of Envoy, over gRPC: envoy.service.auth.v3
// for the filter ext_authz, and envoy.service.ext_proc.v3 for ext_proc. It translates to and from
// package decision. docs/gateways/envoy.md has what Envoy can express.
package envoy

import (
	"cmp"
	"context"
	"log/slog"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	"github.com/scriptorium-dev/scriptorium/proto/unixpeer"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Services returns the names of the services that Register adds.
func Services() []string {
	return []string{authv3.Authorization_ServiceDesc.ServiceName, procv3.ExternalProcessor_ServiceDesc.ServiceName}
}

// Register adds the services to a server of grpcguard, whose connections know their
// gateway.Grant by package unixpeer.
func Register(server grpc.ServiceRegistrar, x gateway.Executor, logger *slog.Logger) {
	authv3.RegisterAuthorizationServer(server, &authorization{decider: decider{x, logger, "ext_authz"}})
	procv3.RegisterExternalProcessorServer(server, &processor{decider: decider{x, logger, "ext_proc"}})
}

// decider has scripts decide.
type decider struct {
	executor gateway.Executor
	logger   *slog.Logger
	protocol string // in the origin of calls
}

// freeBytes is how large a request may be before its caller is charged for it.
const freeBytes = 16 << 10

// decided is what has come of a request, also if there is no decision.
type decided struct {
	decision.Decision
	ran
	onError    script.OnError       // of the script
	responders *decision.Responders // nil for none
}

// ran says which script, or which scripts of a chain, have run.
type ran struct {
	version uint64
	chain   string
}

// decide has the script of the settings decide about the request.
func (x decider) decide(ctx context.Context, s *settings, r *decision.Request) (decided, error) {
	d, err := x.run(ctx, s, r)
	if err != nil {
		x.logger.Debug("a request gets no decision", "script", s.Target, "error", err)
	}
	return d, err
}

func (x decider) run(ctx context.Context, s *settings, r *decision.Request) (d decided, err error) {
	grant, _ := unixpeer.FromContext[gateway.Grant](ctx)
	if err := s.Target.Check(grant); err != nil {
		return d, err
	}
	r.Route, r.Params = cmp.Or(s.route, r.Route), s.params
	if n := int64(r.ArgumentBytes()); n > freeBytes && !grpcguard.Hold(ctx, n) {
		return d, budget.ErrOverloaded
	}
	run := decision.NewRun()
	defer run.Release()
	s.Traceparent, s.Key = traceparentOf(ctx, r), r.Key(s.key)
	s.Origin = gateway.Origin{Protocol: x.protocol, Caller: grant.Caller()}
	s.Hold = func(bytes int64) bool { return grpcguard.Hold(ctx, bytes) }
	d.Decision, err = run.Decide(ctx, x.executor, &s.Question, r)
	d.ran, d.onError = ran{run.Version(), run.Chain()}, run.OnError()
	if err == nil {
		d.responders = run.Responders(&s.Question, &d.Decision)
	}
	return d, err
}

// respond has the scripts decide about the response. The error says why they have not.
func (x decider) respond(ctx context.Context, s *settings, a *decision.Responders, r *decision.Response) (decision.Outcome, error) {
	o, err := a.Decide(ctx, x.executor, r, func(bytes int64) bool { return grpcguard.Hold(ctx, bytes) })
	if err != nil {
		x.logger.Debug("a response gets no decision", "script", s.Target, "error", err)
	}
	return o, err
}

// sizeOf returns about how many bytes the request takes.
func sizeOf(r *decision.Request) int64 {
	n := len(r.Path) + len(r.Query) + len(r.Body)
	return int64(n) + sizeOfHeaders(r.Headers)
}

func sizeOfHeaders(headers map[string][]string) int64 {
	const each = 64
	n := 0
	for name, values := range headers {
		for _, value := range values {
			n += each + len(name) + len(value)
		}
	}
	return int64(n)
}

// traceparentOf returns the trace context of Envoy's call. If Envoy does not trace, it returns
// the one in the client's request.
func traceparentOf(ctx context.Context, r *decision.Request) string {
	if values := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(values) > 0 {
		return values[0]
	}
	if values := r.Headers["traceparent"]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// refused is the decision about a request whose settings or attributes cannot be read. It is
// closed whatever the settings say, since these are not known, and clients cause some errors.
func refused(err error) decision.Decision { return decision.Closed(string(script.KindOf(err))) }
