package tracing

import (
	"context"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/scriptorium-dev/scriptorium/internal/otelenv"
)

// processor passes spans that the queue admits to the SDK's batch processor.
type processor struct {
	sdktrace.SpanProcessor

	queue *otelenv.Queue
}

func newProcessor(exporter sdktrace.SpanExporter, q *otelenv.Queue) processor {
	return processor{sdktrace.NewBatchSpanProcessor(counted{exporter, q}), q}
}

// OnEnd queues a span, or drops it. It does not block.
func (p processor) OnEnd(span sdktrace.ReadOnlySpan) {
	if span.SpanContext().IsSampled() && p.queue.Admit() {
		p.SpanProcessor.OnEnd(span)
	}
}

// counted is an exporter that reports its results to the queue.
type counted struct {
	sdktrace.SpanExporter

	queue *otelenv.Queue
}

// ExportSpans implements sdktrace.SpanExporter. The queue logs its failures.
func (c counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	c.queue.Done(len(spans), c.SpanExporter.ExportSpans(ctx, spans))
	return nil
}
