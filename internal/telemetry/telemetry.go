// Package telemetry starts what a daemon logs and traces with, as its flags and the environment say.
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

// Process says whose logs and traces they are.
type Process struct {
	Service  string        // the service's name in what is exported over OTLP, such as "scriptorium-agent"
	Instance string        // tells the processes of a service apart; the host's name if empty
	Line     otlplogs.Line // how the process logs lines of scripts; the zero Line if it runs none
	Metrics  prometheus.Registerer
}

// Run runs a daemon with its logger and its tracing, and flushes both at the end.
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
