// Package tracing exports the spans of a process with the SDK of OpenTelemetry, as the standard
// environment variables OTEL_* say. Without an exporter nothing is recorded, and the process still
// passes on trace contexts.
//
// The collector is somebody else's: whether it hangs, refuses or is gone, nothing here waits for it.
// What cannot be exported is dropped and counted.
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
	// TracesPerSecond bounds the traces that the process takes part in because others, or the sampler,
	// say so; 100 if 0.
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
	// Service is the name of the service unless the environment has one, such as "scriptorium-agent".
	Service string
	// Instance tells the processes of the service apart; the name of the host if empty.
	Instance string
	Log      *slog.Logger
}

// Tracing is what a process exports its spans with. A nil Tracing exports nothing. It is safe for
// concurrent use.
type Tracing struct {
	log       *slog.Logger
	continues bool // the traces of others
	sampling  tracecontext.Sampling
	queue     otelenv.Queue
	overRate  atomic.Uint64 // spans that were dropped because of the rate

	provider trace.TracerProvider
	// These are nil if nothing is exported.
	recorder *sdktrace.TracerProvider
	chosen   *sdktrace.TracerProvider
	limit    *rate.Limiter
}

// Run runs a daemon with the tracing that the environment asks for, and closes it when the daemon has
// ended.
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

// maxValueBytes of the value of an attribute are kept, unless OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT says
// otherwise.
const maxValueBytes = 1024

// Open returns the tracing that the environment asks for. An error is Invalid and names the variable.
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

// Tracer makes the spans of the process. Those that continue no span of it are sampled as the
// environment says, within the bound.
func (t *Tracing) Tracer() trace.Tracer { return t.tracers().Tracer(scope) }

func (t *Tracing) tracers() trace.TracerProvider {
	if t == nil {
		return noop.NewTracerProvider()
	}
	return t.provider
}

// Calls returns what calls are traced with: who decides before a span is made. Nil: none is.
func (t *Tracing) Calls() *Calls {
	if !t.On() {
		return nil
	}
	return &Calls{
		Tracer: t.chosen.Tracer(scope), Sampling: t.sampling, Rate: int(t.limit.Limit()),
		Dropped: func(n uint64) { t.overRate.Add(n) }, Continue: t.continues,
	}
}

// Calls is what calls are traced with. They are so many that a span is made only of those that are
// recorded.
type Calls struct {
	// Tracer records all spans.
	Tracer trace.Tracer
	// Sampling is what the sampler of the environment says.
	Sampling tracecontext.Sampling
	// Rate is how many spans may be recorded in a second.
	Rate int
	// Dropped counts spans that are not recorded for that reason.
	Dropped func(n uint64)
	// Continue: calls continue the traces of callers. Otherwise the environment says that contexts of
	// others count for nothing.
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

// Register makes metrics of what is exported and dropped.
func (t *Tracing) Register(reg prometheus.Registerer) error {
	if t == nil || reg == nil {
		return nil
	}
	return t.queue.Register(reg, "scriptorium_trace_spans", "Spans that the collector of traces has taken.",
		"Spans that were dropped: more than the rate allows, more than the queue holds, or not taken by the collector of traces.",
		map[string]*atomic.Uint64{"rate": &t.overRate})
}

// Shutdown exports what was recorded until ctx is done. What is recorded later is lost.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if !t.On() {
		return nil
	}
	return errors.Join(t.recorder.Shutdown(ctx), t.chosen.Shutdown(ctx))
}

// shutdownTimeout bounds Close.
const shutdownTimeout = 2 * time.Second

// Close is Shutdown for the end of a process: a collector that takes nothing holds it up for a moment, and
// is not an error of it.
func (t *Tracing) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := t.Shutdown(ctx); err != nil {
		t.log.Warn("the last spans are lost: the collector did not take them", "error", err)
	}
}
