package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/scriptorium-dev/scriptorium/internal/otelenv"
)

// counts says what became of spans.
type counts struct {
	exported, rate, full, failed atomic.Uint64
}

func (c *counts) register(reg prometheus.Registerer) error {
	const dropped = "scriptorium_trace_spans_dropped_total"
	collectors := []prometheus.Collector{prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "scriptorium_trace_spans_exported_total", Help: "Spans that the collector of traces has taken.",
	}, func() float64 { return float64(c.exported.Load()) })}
	for reason, n := range map[string]*atomic.Uint64{"rate": &c.rate, "queue": &c.full, "export": &c.failed} {
		collectors = append(collectors, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: dropped, ConstLabels: prometheus.Labels{"reason": reason},
			Help: "Spans that were dropped: more than the rate allows, more than the queue holds, or not taken by the collector of traces.",
		}, func() float64 { return float64(n.Load()) }))
	}
	for _, collector := range collectors {
		if err := reg.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

// queue bounds what waits for the exporter, and counts what it drops. The processor of the SDK drops in
// silence, so it never gets more than it holds.
type queue struct {
	sdktrace.SpanProcessor // that makes batches

	counts  *counts
	size    int64
	waiting *atomic.Int64
}

func newQueue(exporter sdktrace.SpanExporter, c *counts, log *slog.Logger) *queue {
	size := otelenv.Number("OTEL_BSP_MAX_QUEUE_SIZE", sdktrace.DefaultMaxQueueSize)
	waiting := &atomic.Int64{}
	return &queue{
		SpanProcessor: sdktrace.NewBatchSpanProcessor(&counting{SpanExporter: exporter, counts: c, waiting: waiting, log: log}),
		counts:        c, size: int64(size), waiting: waiting,
	}
}

// OnEnd takes a span in, or drops it. It never waits.
func (q *queue) OnEnd(span sdktrace.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() {
		return
	}
	if q.waiting.Add(1) > q.size {
		q.waiting.Add(-1)
		q.counts.full.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(span)
}

// counting is an exporter whose failures are counted and logged.
type counting struct {
	sdktrace.SpanExporter

	counts  *counts
	waiting *atomic.Int64
	log     *slog.Logger
	warned  atomic.Int64
	failing atomic.Bool
}

// ExportSpans implements sdktrace.SpanExporter. That it fails is said here.
func (c *counting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	n := len(spans)
	c.waiting.Add(-int64(n))
	if err != nil {
		c.counts.failed.Add(uint64(n))
		c.failing.Store(true)
		if otelenv.Seldom(&c.warned) {
			c.log.Warn("the collector of traces does not take spans; they are dropped until it does. Others are logged once a minute", "spans", n, "error", otelenv.Reason(err))
		}
		return nil
	}
	c.counts.exported.Add(uint64(n))
	if c.failing.Swap(false) {
		c.log.Info("the collector of traces takes spans again")
	}
	return nil
}
