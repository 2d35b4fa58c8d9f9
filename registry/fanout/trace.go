package fanout

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
)

// begin begins the span of the event, if its transaction has a trace. Its context goes into the header
// of the message, for servers and tools of NATS. Agents read that of the transaction, in the event: it is
// signed, and the same from all replicas.
func (f *Fanout) begin(ctx context.Context, e *feed.Event) (_ context.Context, end func(error)) {
	if !e.Trace.Valid() {
		return ctx, func(error) {}
	}
	ctx, span := f.tracer.Start(tracecontext.With(ctx, e.Trace), "publish event", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("messaging.system", "nats"), attribute.String("messaging.destination.name", f.subjects.Event(e.Group)),
		attribute.Int64("scriptorium.revision", int64(e.Revision)), attribute.Int("scriptorium.objects", len(e.Entries)),
	))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, tracecontext.Text(err.Error()))
		}
		span.End()
	}
}
