// Package otlplogs exports what a process logs over OTLP, as the standard environment variables OTEL_*
// say, beside its own output. Lines of scripts are log records with the script's text.
//
// The collector is somebody else's: whether it hangs, refuses or is gone, nobody who logs waits for it.
// What cannot be exported is dropped and counted.
package otlplogs

import (
	"context"
	"log/slog"
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
	processor := newProcessor(exporter, cfg.Log)
	if cfg.Metrics != nil {
		err := processor.queue.Register(cfg.Metrics, "scriptorium_otlp_log_records", "Log records that the collector of logs has taken.",
			"Log records that were dropped: more than the queue holds, or not taken by the collector of logs.", nil)
		if err != nil {
			return err
		}
	}
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(processor))
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

// processor gives the records that the queue admits to the SDK's, which makes batches.
type processor struct {
	sdklog.Processor

	queue *otelenv.Queue
}

// maxQueued is the SDK's default.
const maxQueued = 2048

func newProcessor(exporter sdklog.Exporter, log *slog.Logger) processor {
	q := &otelenv.Queue{Signal: "logs", Items: "records", Size: int64(otelenv.Number("OTEL_BLRP_MAX_QUEUE_SIZE", maxQueued)), Log: log}
	return processor{sdklog.NewBatchProcessor(counted{exporter, q}), q}
}

// OnEmit takes a record in, or drops it. It never waits.
func (p processor) OnEmit(ctx context.Context, r *sdklog.Record) error {
	if !p.queue.Admit() {
		return nil
	}
	return p.Processor.OnEmit(ctx, r)
}

// counted is an exporter whose successes and failures the queue counts.
type counted struct {
	sdklog.Exporter

	queue *otelenv.Queue
}

// Export implements sdklog.Exporter. The queue logs its failures, to where they are not exported.
func (c counted) Export(ctx context.Context, records []sdklog.Record) error {
	c.queue.Done(len(records), c.Exporter.Export(ctx, records))
	return nil
}
