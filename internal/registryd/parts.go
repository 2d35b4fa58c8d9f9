package registryd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/obs"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/registry/rollout"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/script"
)

// start assembles the parts. life is the daemon's, ctx bounds the start.
func (d *Daemon) start(ctx, life context.Context, cfg Config) error {
	noFleet := awaitEtcd(ctx, cfg, func(ctx context.Context) error {
		_, err := d.store.Fleet(ctx)
		return err
	})
	if noFleet != nil && !errors.Is(noFleet, registry.ErrNoFleet) {
		return noFleet
	}
	m := newMetrics()
	d.newTimeline(cfg)
	d.fleet = fleet.New(fleet.Config{
		Clock: cfg.Clock,
		Judge: func(c fleet.Candidacy) (why, evidence string) {
			return rollout.Next(c, cfg.Clock()).Why, rollout.Evidence(c)
		},
		Converged: m.took, Activated: m.activated, Used: d.used, TombstonesFor: cfg.TombstoneRetention,
	})
	d.usage, d.recent = d.newUsage(cfg), registry.NewRecent()
	var err error
	d.sessions = session.New(d.store, d.secure.sealer, cfg.Clock, cfg.Log)
	d.fan, err = fanout.Connect(fanout.Config{
		URLs:       cfg.NATS,
		Security:   d.secure.nats,
		Subjects:   wire.Subjects{Prefix: cfg.SubjectPrefix},
		Sealer:     d.secure.sealer,
		Sessions:   d.sessions,
		Reports:    d.fleet.Heard,
		RollCalled: d.fleet.RollCalled,
		Tracer:     cfg.Tracing.Tracer(),
		Log:        cfg.Log,
	})
	if err != nil {
		return err
	}
	d.mirror = mirror.New(d.secure.sealer, cfg.Log)
	d.feed = feed.New(feed.Config{
		Mirror:         d.mirror,
		Clock:          cfg.Clock,
		Publisher:      d.fan,
		ReportInterval: d.fleet.ReportInterval,
		Agents:         d.fleet.Following,
		Retention:      cfg.TombstoneRetention,
		Log:            cfg.Log,
	})
	d.asker = query.New(query.Config{Transport: d.fan, Fleet: d.mirror.Fleet, Targets: d.targets, Sessions: d.sessions, Log: cfg.Log})
	d.groups = feed.NewGroups(d.store, d.feed, cfg.Clock, cfg.Log)
	if err := d.registerMetrics(cfg, m); err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}
	reg := d.registry(cfg, m)
	services := d.services(cfg, m, reg)
	services.Logs = fanout.NewLogs(d.fan, d.mirror.Fleet)
	services.Asker = d.asker
	services.Unavailable = d.Unavailable
	d.server = rpc.New(services)
	controller := rollout.New(rollout.Config{Fleet: d.fleet, Registry: reg, Gates: d.gates, Clock: cfg.Clock, Moved: m.moved, Log: cfg.Log})
	d.run(life, controller, d.collector(cfg, m, reg))
	if noFleet != nil {
		cfg.Log.Error("all calls are refused until there is a fleet", "error", noFleet)
		d.running.Go(func() { d.awaitFleet(life) })
		return d.serve(ctx, cfg)
	}
	close(d.founded)
	if err := d.begin(ctx); err != nil {
		return err
	}
	return d.serve(ctx, cfg)
}

func (d *Daemon) collector(cfg Config, m *metrics, reg *registry.Registry) *registry.Collector {
	return registry.NewCollector(registry.CollectorConfig{
		Store:              d.store,
		Garbage:            d.store,
		Interval:           cfg.CollectInterval,
		Clock:              cfg.Clock,
		TombstoneRetention: cfg.TombstoneRetention,
		AuditRetention:     cfg.AuditRetention,
		Expire:             reg.Expire,
		Log:                cfg.Log,
		Collected:          m.collected,
	})
}

func (d *Daemon) registerMetrics(cfg Config, m *metrics) error {
	r := cfg.Metrics
	return errors.Join(m.register(r, d), d.secure.register(r), d.space.register(r), d.keys.register(r), d.gates.register(r),
		d.registerTimeline(r), cfg.Tracing.Register(r), registerUsage(r, d.usage))
}

// registry is where everything is written.
func (d *Daemon) registry(cfg Config, m *metrics) *registry.Registry {
	checkers := cfg.Engines
	if checkers == nil {
		checkers = engines.Checkers()
	}
	return registry.New(registry.Config{
		Store: d.store, Checkup: d.store, Copies: fanout.NewCopies(d.fan, d.mirror.Fleet, d.fleet.Connected), Trusted: d.secure.sealer.Keyring(), Recent: d.recent, Engines: checkers, OnWrite: m.wrote, Space: d.space.check,
		Publishers: d.secure.tenantKeys.Roots, Gates: d.gates, Artifacts: d.artifacts, Clock: cfg.Clock, OnQuota: d.noteQuota,
	})
}

// targets are the agents that queries ask.
func (d *Daemon) targets(tenant string) []query.Target {
	answerers := d.fleet.Answerers(tenant)
	targets := make([]query.Target, len(answerers))
	for i, a := range answerers {
		targets[i] = query.Target{Agent: a.Agent, Identity: a.Identity, Incarnation: a.Incarnation, Answers: a.Queries}
	}
	return targets
}

// services are what is served over gRPC.
func (d *Daemon) services(cfg Config, m *metrics, reg *registry.Registry) rpc.Config {
	return rpc.Config{
		Registry: reg,
		Fleet:    d.fleet,
		Timeline: d.timeline,
		Mirror:   d.mirror,
		Groups:   d.groups,
		Usage:    d.usage,
		Sealer:   d.secure.sealer,
		Sessions: d.sessions,
		Log:      cfg.Log,
		About:    d.about,

		Authentication: d.secure.authentication,

		Unary:  []grpc.UnaryServerInterceptor{m.grpc.UnaryServerInterceptor(), cfg.Tracing.UnaryServer()},
		Stream: []grpc.StreamServerInterceptor{m.grpc.StreamServerInterceptor(), cfg.Tracing.StreamServer()},
	}
}

// run starts what goes on in the background until life is done, once there is a fleet.
func (d *Daemon) run(life context.Context, controller *rollout.Controller, collector *registry.Collector) {
	leader := feed.Leader{
		Elector:   d.store,
		Feed:      d.feed,
		Connected: func() bool { return d.fan.Connected() && d.store.Refusal() == nil },
		Duties:    []func(context.Context){d.sweepGroups, collector.Run, controller.Run, d.watchFleet, d.keepUsage},
		Log:       d.log,
	}
	for _, part := range []func(context.Context){
		func(ctx context.Context) { registry.Follow(ctx, d.store, d.log, d.feed, d.fleet, d.recent, d.hub) },
		func(ctx context.Context) { d.fleet.Keep(ctx, memory{Store: d.store, space: d.space}, d.Leading, d.log) },
		d.mirror.SealAll,
		d.sessions.Run,
		d.groups.Run,
		d.hub.Run,
		d.recorder.Run,
		d.sweep,
		d.space.run,
		d.keys.run,
	} {
		d.running.Go(func() { d.whenFounded(life, part) })
	}
	d.running.Go(func() { d.secure.run(life) })
	d.running.Go(func() { d.gates.run(life) })
	d.running.Go(func() { every(life, time.Second, d.server.UpdateHealth) })
	// To resign takes etcd, and comes before everything else ends: see close.
	leading, resign := context.WithCancel(life)
	d.resign = func() {
		resign()
		d.leading.Wait()
	}
	d.leading.Go(func() { d.whenFounded(leading, leader.Run) })
}

// whenFounded runs the part from when there is a fleet until ctx is done.
func (d *Daemon) whenFounded(ctx context.Context, part func(context.Context)) {
	select {
	case <-d.founded:
		part(ctx)
	case <-ctx.Done():
	}
}

// Leading reports whether this replica publishes.
func (d *Daemon) Leading() bool { return d.feed.Stats().Leading }

// sweep keeps the fleet's idea of who is unheard up to date.
func (d *Daemon) sweep(ctx context.Context) {
	every(ctx, 250*time.Millisecond, d.fleet.Sweep)
}

// sweepGroups removes the groups that no agent follows any more.
func (d *Daemon) sweepGroups(ctx context.Context) {
	every(ctx, time.Minute, func() { d.groups.Sweep(ctx, d.fleet.Groups()) })
}

// every calls do at each interval until ctx is done.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// serve opens the listeners.
func (d *Daemon) serve(ctx context.Context, cfg Config) error {
	for _, address := range cfg.Listen {
		ln, err := listen(ctx, address)
		if err != nil {
			return err
		}
		d.addrs = append(d.addrs, ln.Addr())
		d.running.Go(func() {
			if err := d.server.Serve(ln); err != nil && !d.draining.Load() {
				select {
				case d.failed <- fmt.Errorf("serving on %s ended: %w", address, err):
				default: // one reason is enough
				}
			}
		})
	}
	if err := d.startConsole(ctx, cfg); err != nil {
		return err
	}
	if cfg.AdminAddress == "" {
		return nil
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", cfg.AdminAddress)
	if err != nil {
		return script.Errorf(script.Invalid, "--admin-address", "%w", err)
	}
	d.adminAddr = ln.Addr()
	d.admin = obs.ServeAdmin(ln, obs.Handler(cfg.Metrics, d.Ready), cfg.Log)
	return nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return gateway.Listen(strings.TrimPrefix(path, "//"))
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--listen", "%w", err)
	}
	return ln, nil
}
