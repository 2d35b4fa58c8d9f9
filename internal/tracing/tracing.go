// Package tracing exports the spans of a process with the SDK of OpenTelemetry. The standard environment variables OTEL_*
// configure it. Without an exporter the process records no spans, but still propagates trace contexts.
//
// The process never waits for the collector: if it hangs, refuses or is unreachable, spans are dropped and counted.
package tracing

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/time/rate"

	"github.com/scriptorium-dev/scriptorium/internal/otelenv"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Options are the flags of a daemon.
type Options struct {
	// TracesPerSecond bounds the traces that callers or the sampler select; 100 if 0.
	TracesPerSecond int
}

const defaultTracesPerSecond = 100

const rateFlag = "traces-per-second"

// AddFlags defines --traces-per-second.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.IntVar(&o.TracesPerSecond, rateFlag, defaultTracesPerSecond, "traces that this process records in a second at most; it counts the others as dropped. The variables OTEL_* say where traces go")
}

// Config of a Tracing.
type Config struct {
	Options
	// Service is the default name of the service, such as "scriptorium-agent". The environment can override it.
	Service string
	// Instance identifies the process among those of the service; the name of the host if empty.
	Instance string
	Log      *slog.Logger
}

// Tracing exports the spans of a process. A nil Tracing exports nothing. It is safe for concurrent use.
type Tracing struct {
	log       *slog.Logger
	continues bool // continue the traces of callers
	sampling  tracecontext.Sampling
	queue     otelenv.Queue
	overRate  atomic.Uint64 // spans dropped because of the rate limit

	provider trace.TracerProvider
	// These are nil if nothing is exported.
	recorder *sdktrace.TracerProvider
	chosen   *sdktrace.TracerProvider
	limit    *rate.Limiter
}

// Run runs a daemon with the tracing that the environment configures, and closes it when run returns.
func (o Options) Run(ctx context.Context, service, instance string, log *slog.Logger, run func(*Tracing) error) error {
	t, err := Open(ctx, Config{Options: o, Service: service, Instance: instance, Log: log})
	if err != nil {
		return err
	}
	defer t.Close()
	return run(t)
}

// scope is the instrumentation scope of all spans.
const scope = "github.com/scriptorium-dev/scriptorium"

// maxValueBytes is the default of OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT.
const maxValueBytes = 1024

// Open returns the tracing that the environment configures. An error is Invalid and names the variable.
func Open(ctx context.Context, cfg Config) (*Tracing, error) {
	if cfg.TracesPerSecond == 0 {
		cfg.TracesPerSecond = defaultTracesPerSecond
	}
	if cfg.TracesPerSecond < 0 {
		return nil, script.Errorf(script.Invalid, "--"+rateFlag, "is %d; it cannot be negative", cfg.TracesPerSecond)
	}
	env, err := readEnvironment()
	if err != nil {
		return nil, err
	}
	t := &Tracing{log: cfg.Log, continues: env.continues, sampling: env.sampling, provider: noop.NewTracerProvider()}
	if env.Exporter == otelenv.None {
		return t, nil
	}
	exporter, err := env.open(ctx)
	if err != nil {
		return nil, err
	}
	res, err := otelenv.Resource(ctx, cfg.Service, cfg.Instance)
	if err != nil {
		return nil, err
	}
	otelenv.HandleErrors(cfg.Log)
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = maxValueBytes
	}
	t.limit = rate.NewLimiter(rate.Limit(cfg.TracesPerSecond), cfg.TracesPerSecond)
	t.queue.Signal, t.queue.Items, t.queue.Log = "traces", "spans", cfg.Log
	t.queue.Size = int64(otelenv.Number("OTEL_BSP_MAX_QUEUE_SIZE", sdktrace.DefaultMaxQueueSize))
	processor := newProcessor(exporter, &t.queue)
	provider := func(sampler sdktrace.Sampler) *sdktrace.TracerProvider {
		return sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithRawSpanLimits(limits),
			sdktrace.WithSpanProcessor(processor), sdktrace.WithSampler(sampler))
	}
	t.recorder = provider(limited{next: samplerOf(env.sampling), admit: t.admit})
	t.chosen = provider(sdktrace.AlwaysSample())
	t.provider = t.recorder
	cfg.Log.Info("traces are exported", "exporter", env.Exporter, "protocol", env.Protocol, "as_callers_say", env.sampling.Parent, "ratio", env.sampling.Ratio)
	return t, nil
}

// On reports whether spans are recorded.
func (t *Tracing) On() bool { return t != nil && t.recorder != nil }

// Tracer makes the spans of the process. Spans without a local parent are sampled, within the rate limit.
func (t *Tracing) Tracer() trace.Tracer { return t.tracers().Tracer(scope) }

func (t *Tracing) tracers() trace.TracerProvider {
	if t == nil {
		return noop.NewTracerProvider()
	}
	return t.provider
}

// Calls returns the configuration for spans of calls; nil if nothing is exported.
func (t *Tracing) Calls() *Calls {
	if !t.On() {
		return nil
	}
	return &Calls{
		Tracer: t.chosen.Tracer(scope), Sampling: t.sampling, Rate: int(t.limit.Limit()),
		Dropped: func(n uint64) { t.overRate.Add(n) }, Continue: t.continues,
	}
}

// Calls configures the spans of calls. There are many calls, so the sampling decision comes before a span is made.
type Calls struct {
	// Tracer records all spans.
	Tracer trace.Tracer
	// Sampling is the sampler of the environment.
	Sampling tracecontext.Sampling
	// Rate is the maximum number of spans per second.
	Rate int
	// Dropped counts spans above Rate.
	Dropped func(n uint64)
	// Continue is set if calls continue the traces of callers. Otherwise the environment disables trace contexts.
	Continue bool
}

// admit reports whether one more trace may be recorded, and counts it if not.
func (t *Tracing) admit() bool {
	if t.limit.Allow() {
		return true
	}
	t.overRate.Add(1)
	return false
}

// Register registers the metrics of exported and dropped spans.
func (t *Tracing) Register(reg prometheus.Registerer) error {
	if t == nil || reg == nil {
		return nil
	}
	return t.queue.Register(reg, "scriptorium_trace_spans", "Spans that the collector of traces has taken.",
		"Spans that were dropped: more than the rate allows, more than the queue holds, or not taken by the collector of traces.",
		map[string]*atomic.Uint64{"rate": &t.overRate})
}

// Shutdown exports the recorded spans until ctx is done. Later spans are lost.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if !t.On() {
		return nil
	}
	return errors.Join(t.recorder.Shutdown(ctx), t.chosen.Shutdown(ctx))
}

// shutdownTimeout bounds Close.
const shutdownTimeout = 2 * time.Second

// Close is Shutdown for the end of a process. It waits for the collector for at most shutdownTimeout, and only logs an
// error.
func (t *Tracing) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := t.Shutdown(ctx); err != nil {
		t.log.Warn("the last spans are lost: the collector did not take them", "error", err)
	}
}
