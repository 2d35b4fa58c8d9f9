// Package otlplogs exports what a process logs over OTLP, as the standard environment variables OTEL_*
// say, beside its own output. Lines of scripts are log records with the script's text.
//
// The collector is somebody else's: whether it hangs, refuses or is gone, nobody who logs waits for it.
// What cannot be exported is dropped and counted.
package otlplogs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"github.com/scriptorium-dev/scriptorium/internal/otelenv"
)

// Config of what is exported.
type Config struct {
	// Service is the name of the service unless the environment has one, such as "scriptorium-agent".
	Service string
	// Instance tells the processes of the service apart; the name of the host if empty.
	Instance string
	// Line is how the process logs the lines of scripts; the zero Line if it runs none.
	Line Line
	// Log is what is exported, and gets what is wrong with that.
	Log *slog.Logger
	// Metrics gets counters of what is exported and dropped, if not nil.
	Metrics prometheus.Registerer
}

// Line says which of the records have what a script says: those with the message. The attribute of the
// name Text then becomes the body.
type Line struct{ Message, Text string }

// closeTimeout is how long the last records may take at the end of a process.
const closeTimeout = 2 * time.Second

// Run runs a daemon with a logger that exports what the environment asks for, which is nothing unless
// OTEL_LOGS_EXPORTER or OTEL_EXPORTER_OTLP_LOGS_ENDPOINT is set. An error of the environment is Invalid and
// names the variable.
func Run(ctx context.Context, cfg Config, run func(log *slog.Logger) error) error {
	target, err := signal.Read()
	if err != nil {
		return err
	}
	if target.Exporter == otelenv.None {
		return run(cfg.Log)
	}
	exporter, err := open(ctx, target, true)
	if err != nil {
		return err
	}
	res, err := otelenv.Resource(ctx, cfg.Service, cfg.Instance)
	if err != nil {
		return err
	}
	otelenv.HandleErrors(cfg.Log)
	q := newQueue(exporter, cfg.Log)
	if cfg.Metrics != nil {
		if err := q.counts.register(cfg.Metrics); err != nil {
			return err
		}
	}
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(q))
	defer func() {
		// Beyond ctx, which is done by now.
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := provider.Shutdown(within); err != nil {
			cfg.Log.Warn("the last log records are lost: the collector did not take them", "error", err)
		}
	}()
	cfg.Log.Info("logs are exported", "exporter", target.Exporter, "protocol", target.Protocol)
	return run(slog.New(&handler{
		line:    cfg.Line,
		own:     cfg.Log.Handler(),
		daemon:  otelslog.NewHandler(DaemonScope, otelslog.WithLoggerProvider(provider)),
		scripts: otelslog.NewHandler(ScriptScope, otelslog.WithLoggerProvider(provider)),
	}))
}

// counts says what became of records.
type counts struct {
	exported, full, failed atomic.Uint64
}

func (c *counts) register(reg prometheus.Registerer) error {
	counter := func(n *atomic.Uint64, opts prometheus.CounterOpts) error {
		return reg.Register(prometheus.NewCounterFunc(opts, func() float64 { return float64(n.Load()) }))
	}
	err := counter(&c.exported, prometheus.CounterOpts{
		Name: "scriptorium_otlp_log_records_exported_total", Help: "Log records that the collector of logs has taken.",
	})
	for reason, n := range map[string]*atomic.Uint64{"queue": &c.full, "export": &c.failed} {
		if err != nil {
			return err
		}
		err = counter(n, prometheus.CounterOpts{
			Name: "scriptorium_otlp_log_records_dropped_total", ConstLabels: prometheus.Labels{"reason": reason},
			Help: "Log records that were dropped: more than the queue holds, or not taken by the collector of logs.",
		})
	}
	return err
}

// queue bounds what waits for the exporter, and counts what it drops. The processor of the SDK drops the
// oldest records in silence, so it never gets more than it holds.
type queue struct {
	sdklog.Processor // that makes batches

	counts  counts
	size    int64
	waiting atomic.Int64
}

// maxQueued is the SDK's default.
const maxQueued = 2048

func newQueue(exporter sdklog.Exporter, log *slog.Logger) *queue {
	q := &queue{size: int64(otelenv.Number("OTEL_BLRP_MAX_QUEUE_SIZE", maxQueued))}
	q.Processor = sdklog.NewBatchProcessor(&counting{Exporter: exporter, queue: q, log: log})
	return q
}

// OnEmit takes a record in, or drops it. It never waits.
func (q *queue) OnEmit(ctx context.Context, r *sdklog.Record) error {
	if q.waiting.Add(1) > q.size {
		q.waiting.Add(-1)
		q.counts.full.Add(1)
		return nil
	}
	return q.Processor.OnEmit(ctx, r)
}

// counting is an exporter whose failures are counted, and logged where they are not exported.
type counting struct {
	sdklog.Exporter

	queue   *queue
	log     *slog.Logger
	warned  atomic.Int64
	failing atomic.Bool
}

// Export is sdklog.Exporter's. That it fails is said here.
func (c *counting) Export(ctx context.Context, records []sdklog.Record) error {
	err := c.Exporter.Export(ctx, records)
	n := len(records)
	c.queue.waiting.Add(-int64(n))
	if err != nil {
		c.queue.counts.failed.Add(uint64(n))
		c.failing.Store(true)
		if otelenv.Seldom(&c.warned) {
			c.log.Warn("the collector of logs does not take records; they are dropped until it does. Others are logged once a minute", "records", n, "error", otelenv.Reason(err))
		}
		return nil
	}
	c.queue.counts.exported.Add(uint64(n))
	if c.failing.Swap(false) {
		c.log.Info("the collector of logs takes records again")
	}
	return nil
}
