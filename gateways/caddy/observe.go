package scriptorium

import (
	"context"
	"log/slog"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/exp/zapslog"

	"github.com/scriptorium-dev/scriptorium/embed"
)

// measure shows the agent's metrics among those of this configuration of Caddy.
func measure(ctx caddy.Context, a *embed.Agent) error {
	registry := ctx.GetMetricsRegistry()
	if registry == nil {
		return nil
	}
	err := prometheus.WrapRegistererWith(prometheus.Labels{"agent": a.Name()}, registry).Register(a.Collector())
	if _, again := err.(prometheus.AlreadyRegisteredError); again { //nolint:errorlint // it is never wrapped
		return nil // by another handler
	}
	return err
}

// logs writes to Caddy's default log of the time: the agent stays when the configuration goes.
type logs struct {
	with []func(slog.Handler) slog.Handler
}

func (l logs) handler() slog.Handler {
	var h slog.Handler = zapslog.NewHandler(caddy.Log().Core(), zapslog.WithName("scriptorium"), zapslog.AddStacktraceAt(slog.Level(127)))
	for _, with := range l.with {
		h = with(h)
	}
	return h
}

// Enabled implements slog.Handler.
func (l logs) Enabled(ctx context.Context, level slog.Level) bool {
	return l.handler().Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l logs) Handle(ctx context.Context, r slog.Record) error { return l.handler().Handle(ctx, r) }

// WithAttrs implements slog.Handler.
func (l logs) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.and(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (l logs) WithGroup(name string) slog.Handler {
	return l.and(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (l logs) and(with func(slog.Handler) slog.Handler) logs {
	return logs{with: append(l.with[:len(l.with):len(l.with)], with)}
}
