package scriptorium

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/exp/zapslog"

	"github.com/scriptorium-dev/scriptorium/embed"
)

// agents are those of this process, by their configuration as JSON.
var agents = caddy.NewUsagePool()

// drain is how long calls in flight have when the last handler of an agent goes.
const drain = 10 * time.Second

// shared is an agent in the pool.
type shared struct {
	*embed.Agent
	config embed.Config
}

// Destruct implements caddy.Destructor.
func (s *shared) Destruct() error {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	return s.Close(ctx)
}

// acquire returns the agent with that configuration, and what gives it back. It starts one unless
// there is one, as after a reload.
func acquire(cfg *embed.Config) (*embed.Agent, func() error, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, nil, err
	}
	key := string(text)
	if err := checkFolder(cfg, key); err != nil {
		return nil, nil, err
	}
	value, _, err := agents.LoadOrNew(key, func() (caddy.Destructor, error) { return start(*cfg) })
	if err != nil {
		return nil, nil, err
	}
	release := sync.OnceValue(func() error {
		_, err := agents.Delete(key)
		return err
	})
	return value.(*shared).Agent, release, nil
}

func start(cfg embed.Config) (*shared, error) {
	cfg.Logger = slog.New(logs{})
	a, err := embed.Start(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	return &shared{Agent: a, config: cfg}, nil
}

// checkFolder returns an error if an agent with other settings has the state folder.
func checkFolder(cfg *embed.Config, key string) (err error) {
	agents.Range(func(other, value any) bool {
		running, ok := value.(*shared)
		if ok && other != key && filepath.Clean(running.config.StateDir) == filepath.Clean(cfg.StateDir) {
			err = fmt.Errorf("state_dir: an agent with other settings has %s, also while Caddy reloads its configuration: restart Caddy to change them, or give this agent a folder of its own", cfg.StateDir)
		}
		return err == nil
	})
	return err
}

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
