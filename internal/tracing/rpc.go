package tracing

import (
	"context"
	"path"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
)

// changes are the methods of the registry's API that write. The others have no spans: operators, agents and watches call
// them all the time.
var changes = map[string]bool{
	"Publish": true, "Pin": true, "LiftHold": true, "Unpin": true, "Rollback": true, "SetEnabled": true, "Delete": true, "SetOwner": true, "Steer": true,
	"Import": true, "AcceptLoss": true, "Freeze": true, "Thaw": true, "PublishChangeSet": true, "RollbackChangeSet": true,
	"PutValue": true, "RollbackValue": true, "DeleteValue": true, "SetTenant": true,
}

// UnaryServer returns an interceptor that makes a span for each method that writes, in the trace of the caller.
func (t *Tracing) UnaryServer() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if !changes[path.Base(info.FullMethod)] {
			return handler(ctx, req)
		}
		ctx, span := t.serve(ctx, info.FullMethod)
		defer span.End()
		if span.IsRecording() {
			span.SetAttributes(objectOf(req)...)
		}
		resp, err := handler(ctx, req)
		fail(span, err)
		return resp, err
	}
}

// StreamServer is UnaryServer for streams.
func (t *Tracing) StreamServer() grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if !changes[path.Base(info.FullMethod)] {
			return handler(srv, ss)
		}
		ctx, span := t.serve(ss.Context(), info.FullMethod)
		defer span.End()
		err := handler(srv, traced{ss, ctx})
		fail(span, err)
		return err
	}
}

// traced is a stream whose context has a span.
type traced struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // a stream has one
}

func (s traced) Context() context.Context { return s.ctx }

// serve begins the span of a call, as a child of the caller's.
func (t *Tracing) serve(ctx context.Context, method string) (context.Context, trace.Span) {
	if values := metadata.ValueFromIncomingContext(ctx, tracecontext.Name); len(values) == 1 && t.Continues() {
		caller, _ := tracecontext.Parse(values[0])
		ctx = tracecontext.With(ctx, caller)
	}
	return t.Tracer().Start(ctx, method[1:], trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(semconv.RPCSystemNameGRPC, semconv.RPCMethod(method[1:])))
}

// Continues reports whether the environment enables trace contexts of callers.
func (t *Tracing) Continues() bool { return t == nil || t.continues }

// objectOf returns attributes with the tenant and the script of the request.
func objectOf(req any) (attributes []attribute.KeyValue) {
	if r, ok := req.(interface{ GetTenant() string }); ok {
		attributes = append(attributes, attribute.String("scriptorium.tenant", tracecontext.Text(r.GetTenant())))
	}
	if r, ok := req.(interface{ GetName() string }); ok {
		attributes = append(attributes, attribute.String("scriptorium.script", tracecontext.Text(r.GetName())))
	}
	return attributes
}

// fail sets the status of the span from the error of the call, if it is not nil.
func fail(span trace.Span, err error) {
	if err == nil || !span.IsRecording() {
		return
	}
	s := status.Convert(err)
	span.SetAttributes(semconv.RPCResponseStatusCode(s.Code().String()))
	span.SetStatus(codes.Error, tracecontext.Text(s.Message()))
}
