// Package node gives an agent what every program that has one gives it: the engines, the keys that
// it trusts, and its connections. The commands do so with sockets around it, and package embed
// without.
package node

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/internal/version"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of a Node. Open sets the fields of agent.Config that come from here: Software, Engines,
// Tenants, and what Security says. Log and Metrics are required.
type Config struct {
	agent.Config
	// Tenants whose scripts the agent holds, as names or globs; all when empty.
	Tenants   []string
	Security  Security
	Decisions Decisions
	// WithoutEngines are the engines that the node does not have: see engines.Config.Without.
	WithoutEngines []string
	// Expiries collects when the certificates expire; Open registers it. Nil makes one.
	Expiries *tlsfiles.Expiries
}

// Node is an agent. It is safe for concurrent use.
type Node struct {
	*agent.Agent
	secure *secured
}

// Open loads the state folder. Its errors name the flags of agentd. The caller runs and closes the
// node.
func Open(cfg Config) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	var err error
	if cfg.Config.Tenants, err = script.ParseSelector(cfg.Tenants); err != nil {
		return nil, script.Errorf(script.Invalid, "--tenants", "%w", err)
	}
	cfg.Expiries = cmp.Or(cfg.Expiries, tlsfiles.NewExpiries("agent"))
	secure, err := cfg.Security.open(&cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Config.Decisions, err = cfg.Decisions.open(cfg.Name, cfg.Log); err != nil {
		return nil, err
	}
	set, err := engines.New(engines.Config{CacheDir: filepath.Join(cfg.Dir, "compiled"), Without: cfg.WithoutEngines})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(registerHeap(cfg.Metrics, set.Lua), cfg.Metrics.Register(cfg.Expiries)); err != nil {
		return nil, err
	}
	cfg.Software, cfg.Engines = version.String(), set.All()
	cfg.DialOptions, cfg.NATSSecurity, cfg.Trusted, cfg.Publishers = secure.dial, secure.nats, secure.keyring, secure.publishers
	a, err := agent.Open(cfg.Config)
	if err != nil {
		err = errors.Join(err, closeSinks(cfg.Config.Decisions.Outputs))
	}
	if errors.Is(err, store.ErrInUse) {
		return nil, script.Errorf(script.Invalid, "--state-dir", "%w", err)
	}
	if err != nil {
		return nil, err
	}
	return &Node{Agent: a, secure: secure}, nil
}

// Run follows the registry, and keeps the trusted keys as their files say, until ctx is done. An
// outage is no error. Run is called once at most.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var keys sync.WaitGroup
	defer keys.Wait()
	defer cancel()
	keys.Go(func() { n.secure.run(ctx, n.PublishersChanged) })
	return n.Agent.Run(ctx)
}

// NotReady says why the agent cannot serve yet, or nil.
func (n *Node) NotReady() error {
	if n.Ready() {
		return nil
	}
	return script.Errorf(script.Unavailable, "", "the agent has nothing on disk and waits for its first snapshot from the registry")
}

// validate checks what nobody else does.
func (c *Config) validate() error {
	if c.Registry == "" {
		return script.Errorf(script.Invalid, "--registry", "is required: the registry's address, such as registry.internal:7070")
	}
	for flag, value := range map[string]int64{
		"--cache-bytes": c.CacheBytes, "--value-cache-bytes": c.ValueCacheBytes, "--max-running": int64(c.MaxRunning), "--max-waiting": int64(c.MaxWaiting),
		"--worker-spares": int64(c.Workers.Spares),
	} {
		if value < 0 {
			return script.Errorf(script.Invalid, flag, "is %d; it cannot be negative", value)
		}
	}
	for _, url := range c.NATS {
		if !strings.HasPrefix(url, "nats://") && !strings.HasPrefix(url, "tls://") {
			return script.Errorf(script.Invalid, "--nats-url", "%q is no NATS server: want nats://host:port", url)
		}
	}
	return nil
}

// registerHeap makes a metric of the heap guard of scripts.
func registerHeap(reg prometheus.Registerer, scripts *lua.Engine) error {
	return reg.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "scriptorium_agent_heap_spared_total",
		Help: "How often, at most once a second, the heap grew by 256 MiB during calls that had allocated too little to be the reason. None was stopped.",
	}, func() float64 { return float64(scripts.HeapSpared()) }))
}
