package tracing

import (
	"context"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/scriptorium-dev/scriptorium/internal/otelenv"
)

// processor gives the spans that the queue admits to the SDK's, which makes batches.
type processor struct {
	sdktrace.SpanProcessor

	queue *otelenv.Queue
}

func newProcessor(exporter sdktrace.SpanExporter, q *otelenv.Queue) processor {
	return processor{sdktrace.NewBatchSpanProcessor(counted{exporter, q}), q}
}

// OnEnd takes a span in, or drops it. It never waits.
func (p processor) OnEnd(span sdktrace.ReadOnlySpan) {
	if span.SpanContext().IsSampled() && p.queue.Admit() {
		p.SpanProcessor.OnEnd(span)
	}
}

// counted is an exporter whose successes and failures the queue counts.
type counted struct {
	sdktrace.SpanExporter

	queue *otelenv.Queue
}

// ExportSpans implements sdktrace.SpanExporter. The queue logs its failures.
func (c counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	c.queue.Done(len(spans), c.SpanExporter.ExportSpans(ctx, spans))
	return nil
}
