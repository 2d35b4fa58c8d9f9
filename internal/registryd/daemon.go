// Package registryd puts a registry's process together: its store, its feed, its
// listeners, and what operators look at.
package registryd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/internal/obs"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of a registry's process.
type Config struct {
	// EtcdEndpoints of one etcd cluster, such as "http://127.0.0.1:2379".
	EtcdEndpoints []string
	// EtcdPrefix of all keys; etcdstore.DefaultPrefix if empty.
	EtcdPrefix string
	// EtcdWait is how long Start waits for etcd; 30 s if 0.
	EtcdWait time.Duration
	// NATS are the URLs of the servers of one NATS cluster.
	NATS []string
	// SubjectPrefix of the NATS subjects; wire.DefaultPrefix if empty.
	SubjectPrefix string
	// Listen is where gRPC is served: each "unix:PATH" or "host:port".
	Listen []string
	// AdminAddress is the host:port of /healthz, /readyz and /metrics; none if empty.
	AdminAddress string
	// DrainTimeout is how long Run lets calls finish.
	DrainTimeout time.Duration

	Log     *slog.Logger
	Metrics *prometheus.Registry
	// Engines check sources; those of this edition of Scriptorium if nil.
	Engines map[string]engine.Checker
}

// Daemon is a running registry.
type Daemon struct {
	log    *slog.Logger
	store  *etcdstore.Store
	fan    *fanout.Fanout
	feed   *registry.Feed
	fleet  *fleet.Fleet
	server *rpc.Server
	admin  *obs.Admin
	addrs  []net.Addr

	adminAddr net.Addr
	draining  atomic.Bool

	cancel  context.CancelFunc // ends the feed and the fleet
	stop    sync.Once
	running sync.WaitGroup
	failed  chan error // a part that ended by itself
}

// Run serves until ctx is done, then drains within cfg.DrainTimeout. If ctx is done
// before it serves, that is no error.
func Run(ctx context.Context, cfg Config) error {
	d, err := Start(ctx, cfg)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		cfg.Log.Info("stopped before it served", "reason", err)
		return nil
	}
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		cfg.Log.Info("draining", "timeout", cfg.DrainTimeout)
	case err = <-d.failed:
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.DrainTimeout)
	defer cancel()
	return errors.Join(err, d.Stop(drain))
}

// Start connects to etcd, for which it waits, and to NATS, for which it does not,
// and serves. ctx bounds the start alone.
func Start(ctx context.Context, cfg Config) (*Daemon, error) {
	if len(cfg.Listen) == 0 {
		return nil, script.Errorf(script.Invalid, "--listen", "name at least one address: host:port or unix:PATH")
	}
	store, err := etcdstore.Open(etcdstore.Config{Endpoints: cfg.EtcdEndpoints, Prefix: cfg.EtcdPrefix})
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d := &Daemon{log: cfg.Log, store: store, cancel: cancel, failed: make(chan error, 1)}
	if err := d.start(ctx, life, cfg); err != nil {
		now, cancelNow := context.WithCancel(ctx)
		cancelNow() // nobody was served: there is nothing to wait for
		return nil, errors.Join(err, d.Stop(now))
	}
	cfg.Log.Info("serving", "listen", cfg.Listen, "etcd", cfg.EtcdEndpoints)
	return d, nil
}

// start assembles the parts. life is the daemon's, ctx bounds the start.
func (d *Daemon) start(ctx, life context.Context, cfg Config) error {
	id, err := d.awaitStore(ctx, cfg)
	if err != nil {
		return err
	}
	m := newMetrics()
	d.fleet = fleet.New(fleet.Config{Converged: m.took})
	d.fan, err = fanout.Connect(fanout.Config{
		URLs:       cfg.NATS,
		Subjects:   wire.Subjects{Prefix: cfg.SubjectPrefix},
		Reports:    d.fleet.Heard,
		RollCalled: d.fleet.RollCalled,
		Log:        cfg.Log,
	})
	if err != nil {
		return err
	}
	d.feed = registry.NewFeed(d.store, d.fan, cfg.Log)
	if err := m.register(cfg.Metrics, d.feed, d.fan, d.fleet); err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}
	engines := cfg.Engines
	if engines == nil {
		l := lua.New()
		engines = map[string]engine.Checker{l.Name(): l}
	}
	d.server = rpc.New(rpc.Config{
		Registry: registry.New(registry.Config{Store: d.store, Engines: engines, Wrote: m.wrote}),
		Fleet:    d.fleet,
		Log:      cfg.Log,
		Unary:    []grpc.UnaryServerInterceptor{m.grpc.UnaryServerInterceptor()},
		Stream:   []grpc.StreamServerInterceptor{m.grpc.StreamServerInterceptor()},
	})
	d.running.Go(func() { d.feed.Run(life) })
	d.running.Go(func() { registry.Follow(life, d.store, d.fleet, cfg.Log) })
	d.running.Go(func() { d.sweep(life) })
	// What is written from now on is to become an event at once, and reports count
	// once the releases are known.
	select {
	case <-d.feed.Begun():
	case <-ctx.Done():
		return script.Errorf(script.Unavailable, "", "the feed did not begin in time: %w", ctx.Err())
	}
	if err := d.fleet.Reached(ctx, 0); err != nil {
		return err
	}
	d.fan.RollCall(id)
	return d.serve(ctx, cfg)
}

// awaitStore waits until etcd answers, and returns the registry's identity.
func (d *Daemon) awaitStore(ctx context.Context, cfg Config) (string, error) {
	wait := cfg.EtcdWait
	if wait == 0 {
		wait = 30 * time.Second
	}
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		id, err := d.store.Fleet(bounded)
		if err == nil {
			return id, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if bounded.Err() != nil {
			return "", fmt.Errorf("gave up on etcd after %v: %w", wait, err)
		}
		cfg.Log.Warn("etcd cannot be reached yet", "error", err)
		select {
		case <-time.After(500 * time.Millisecond):
		case <-bounded.Done():
		}
	}
}

// sweep keeps the fleet's idea of who is unheard up to date.
func (d *Daemon) sweep(ctx context.Context) {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			d.fleet.Sweep()
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

// Addrs are the addresses that gRPC is served on, in the order of Config.Listen.
func (d *Daemon) Addrs() []net.Addr { return d.addrs }

// AdminAddr is the address of /healthz, /readyz and /metrics; nil if there is none.
func (d *Daemon) AdminAddr() net.Addr { return d.adminAddr }

// Ready says whether the registry can do its work: etcd answers and the feed
// runs. Without NATS it is degraded: writes work, and agents poll.
func (d *Daemon) Ready(ctx context.Context) obs.Readiness {
	if d.draining.Load() {
		return obs.Readiness{Reason: "the registry is draining"}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := d.store.Head(ctx); err != nil {
		return obs.Readiness{Reason: err.Error()}
	}
	if !d.feed.Running() {
		return obs.Readiness{Reason: "the feed does not follow etcd: see the log"}
	}
	state := obs.Readiness{Ready: true}
	if !d.fan.Connected() {
		state.Degraded = []string{"NATS cannot be reached: agents poll, and changes take seconds"}
	}
	return state
}

// Stop drains: it takes no new connections, ends watches, finishes calls in
// flight until ctx is done, and closes everything. A second call does nothing.
func (d *Daemon) Stop(ctx context.Context) (err error) {
	d.stop.Do(func() { err = d.close(ctx) })
	return err
}

// feedDrain bounds the wait for the last events: if etcd is down they do not come,
// and agents find out by the next beacon of another replica, or by polling.
const feedDrain = 2 * time.Second

// drainFeed waits until what was acknowledged has become events, and NATS has them.
func (d *Daemon) drainFeed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, feedDrain)
	defer cancel()
	head, err := d.store.Head(ctx)
	if err == nil {
		err = d.feed.Reached(ctx, head)
	}
	if err == nil && d.fan.Connected() {
		err = d.fan.Flush(ctx)
	}
	if err != nil {
		d.log.Warn("the last events may not have gone out; agents heal by themselves", "error", err)
	}
}

func (d *Daemon) close(ctx context.Context) error {
	d.draining.Store(true)
	if d.server != nil {
		d.server.Drain(ctx)
		d.drainFeed(ctx)
	}
	d.cancel()
	d.running.Wait()
	var errs []error
	if d.admin != nil {
		errs = append(errs, d.admin.Close())
	}
	if d.fan != nil {
		d.fan.Close()
	}
	return errors.Join(append(errs, d.store.Close())...)
}
