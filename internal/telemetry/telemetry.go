// Package telemetry starts the logger and the tracing of a daemon. Flags and the environment configure them.
package telemetry

import (
	"context"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/internal/obs"
	"github.com/scriptorium-dev/scriptorium/internal/otlplogs"
	"github.com/scriptorium-dev/scriptorium/internal/tracing"
)

// Options are the flags of a daemon.
type Options struct {
	logs   obs.LogOptions
	traces tracing.Options
}

// AddFlags defines the flags of logs and traces.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.logs.AddFlags(flags)
	o.traces.AddFlags(flags)
}

// Process identifies the process in logs and traces.
type Process struct {
	Service  string        // the name of the service in OTLP, such as "scriptorium-agent"
	Instance string        // identifies the process among those of the service; the name of the host if empty
	Line     otlplogs.Line // which log records are lines of scripts; the zero Line if the process runs no scripts
	Metrics  prometheus.Registerer
}

// Run runs a daemon with its logger and its tracing, and flushes both when run returns.
func (o *Options) Run(ctx context.Context, p Process, run func(*slog.Logger, *tracing.Tracing) error) error {
	log, err := o.logs.NewLogger(os.Stderr)
	if err != nil {
		return err
	}
	logs := otlplogs.Config{Service: p.Service, Instance: p.Instance, Line: p.Line, Log: log, Metrics: p.Metrics}
	return otlplogs.Run(ctx, logs, func(log *slog.Logger) error {
		return o.traces.Run(ctx, p.Service, p.Instance, log, func(t *tracing.Tracing) error { return run(log, t) })
	})
}
