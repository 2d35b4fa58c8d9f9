// Package registryd puts a registry's process together: its store, its feed, its
// listeners, and what operators look at.
package registryd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/console"
	"github.com/scriptorium-dev/scriptorium/internal/debugsock"
	"github.com/scriptorium-dev/scriptorium/internal/obs"
	"github.com/scriptorium-dev/scriptorium/internal/tracing"
	"github.com/scriptorium-dev/scriptorium/internal/version"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/registry/usage"
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
	// Fleet is the only one that is served; if empty, the one that etcd has at the start.
	Fleet string
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
	// Security says whom the registry believes, and by what it is believed.
	Security Security
	// Gates is the file of the sources that steps of rollouts may ask; "" for none.
	Gates string
	// Artifacts says where sources may be fetched from.
	Artifacts Artifacts
	// Console says where the web application is served.
	Console Console
	// AuditRetention, TombstoneRetention and CollectInterval are about what is kept.
	AuditRetention, TombstoneRetention, CollectInterval time.Duration

	Debug   debugsock.Options // served by Run
	Log     *slog.Logger
	Metrics *prometheus.Registry
	// Tracing exports spans; nil for none. Its owner closes it.
	Tracing *tracing.Tracing
	// Engines check sources; those of this edition of Scriptorium if nil.
	Engines map[string]engine.Checker
	// Clock tells the time that is stored, and compared with what is stored; time.Now if nil.
	Clock func() time.Time
}

// Daemon is a running registry.
type Daemon struct {
	log    *slog.Logger
	secure *secured
	gates  *gates
	// artifacts is nil if no source is fetched.
	artifacts registry.Artifacts
	store     *etcdstore.Store
	space     *space
	keys      *keys
	fan       *fanout.Fanout
	mirror    *mirror.Mirror
	recent    *registry.Recent
	asker     *query.Asker
	feed      *feed.Feed
	groups    *feed.Groups
	fleet     *fleet.Fleet
	// The timeline of events: recorder stores them, and hub follows them.
	timeline *timeline.Timeline
	recorder *timeline.Recorder
	hub      *timeline.Hub
	usage    *usage.Ledger
	// sessions are those that agents report in.
	sessions *session.Sessions

	server  *rpc.Server
	admin   *obs.Admin
	console *console.Server // nil for none
	addrs   []net.Addr

	adminAddr net.Addr
	draining  atomic.Bool
	founded   chan struct{} // closed when there is a fleet
	begun     atomic.Bool   // everything was read that calls need

	cancel  context.CancelFunc // ends what goes on in the background
	resign  func()             // ends the lead, and waits for it
	leading sync.WaitGroup
	stop    sync.Once
	running sync.WaitGroup
	failed  chan error // a part that ended by itself
}

// Run serves until ctx is done, then drains within cfg.DrainTimeout. If ctx is done
// before it serves, that is no error.
func Run(ctx context.Context, cfg Config) error {
	closeDebug, err := cfg.Debug.Serve(cfg.Log)
	if err != nil {
		return err
	}
	defer closeDebug()
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
// and serves. While there is no fleet, it refuses all calls. ctx bounds the start alone.
func Start(ctx context.Context, cfg Config) (*Daemon, error) {
	if len(cfg.Listen) == 0 {
		return nil, script.Errorf(script.Invalid, "--listen", "name at least one address: host:port or unix:PATH")
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	secure, err := cfg.Security.open(cfg)
	if err != nil {
		return nil, err
	}
	if _, err := cfg.Console.site(cfg.Security); cfg.Console.Listen != "" && err != nil {
		return nil, err
	}
	gates, err := openGates(cfg.Gates, cfg.Security.modes(), cfg.Log)
	if err != nil {
		return nil, err
	}
	artifacts, err := cfg.Artifacts.open(cfg.Security.modes(), cfg.Log)
	if err != nil {
		return nil, err
	}
	seconds := newEtcdMetrics()
	if err := cfg.Metrics.Register(seconds); err != nil {
		return nil, fmt.Errorf("register the metrics of etcd: %w", err)
	}
	store, err := etcdstore.Open(etcdstore.Config{
		Endpoints: cfg.EtcdEndpoints, Prefix: cfg.EtcdPrefix, Fleet: cfg.Fleet, Security: secure.etcd, Candidate: secure.sealer.KeyID(),
		Observe: observeEtcd(seconds), Tracer: cfg.Tracing.Tracer(),
	})
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d := &Daemon{
		log: cfg.Log, secure: secure, gates: gates, artifacts: artifacts, store: store, space: &space{store: store},
		keys: &keys{store: store, own: secure.sealer.KeyID()}, cancel: cancel,
		founded: make(chan struct{}), failed: make(chan error, 1),
	}
	if err := d.start(ctx, life, cfg); err != nil {
		now, cancelNow := context.WithCancel(ctx)
		cancelNow() // nobody was served: there is nothing to wait for
		return nil, errors.Join(err, d.Stop(now))
	}
	cfg.Log.Info("serving", "listen", cfg.Listen, "etcd", cfg.EtcdEndpoints)
	return d, nil
}

// Addrs are the addresses that gRPC is served on, in the order of Config.Listen.
func (d *Daemon) Addrs() []net.Addr { return d.addrs }

// ConsoleURL is where browsers find the console; "" if there is none.
func (d *Daemon) ConsoleURL() string {
	if d.console == nil {
		return ""
	}
	return d.console.URL()
}

// AdminAddr is the address of /healthz, /readyz and /metrics; nil if there is none.
func (d *Daemon) AdminAddr() net.Addr { return d.adminAddr }

// Ready says whether the registry can do its work: etcd answers and has the fleet, and
// the feed runs. Without NATS it is degraded: writes work, and agents poll. So it is while
// records cannot be read.
func (d *Daemon) Ready(ctx context.Context) obs.Readiness {
	if d.draining.Load() {
		return obs.Readiness{Reason: "the registry is draining"}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := d.store.Fleet(ctx)
	if err == nil {
		err = d.Unavailable()
	}
	if err != nil {
		return obs.Readiness{Reason: err.Error()}
	}
	if !d.feed.Stats().Running {
		return obs.Readiness{Reason: "the registry does not keep up with etcd: see the log"}
	}
	state := obs.Readiness{Ready: true}
	for _, p := range d.parts() {
		if p.Fault != "" {
			state.Degraded = append(state.Degraded, p.Fault)
		}
	}
	return state
}

// parts are what the registry can work without, and how each is.
func (d *Daemon) parts() []rpc.Part {
	nats, records, keys, space := rpc.Part{Name: "NATS"}, rpc.Part{Name: "records"}, rpc.Part{Name: "signing keys"}, rpc.Part{Name: "etcd space"}
	if !d.fan.Connected() {
		nats.Fault = "NATS cannot be reached: agents poll, and changes take seconds"
	}
	if lost := d.mirror.Unreadable(); len(lost) > 0 {
		records.Fault = fmt.Sprintf("%d records in etcd cannot be read; what was live before stays live: run scriptctl doctor", len(lost))
	}
	keys.Fault = d.keys.check()
	if err := d.space.check(); err != nil {
		space.Fault = err.Error()
	}
	return []rpc.Part{nats, records, keys, space}
}

// about says what the registry is, for who checks it.
func (d *Daemon) about(ctx context.Context) rpc.About {
	etcd := rpc.Part{Name: "etcd", Fault: d.Ready(ctx).Reason}
	return rpc.About{Software: version.String(), Parts: append([]rpc.Part{etcd}, d.parts()...)}
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

// drainFeed waits until what was acknowledged has become events, and NATS has them
// if it is for this replica to publish them; then another one leads.
func (d *Daemon) drainFeed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, feedDrain)
	defer cancel()
	head, err := d.store.Head(ctx)
	if err == nil {
		err = d.mirror.Reached(ctx, head)
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
	var errs []error
	if d.console != nil {
		errs = append(errs, d.console.Stop(ctx))
	}
	if d.server != nil {
		d.server.Drain(ctx)
		if d.begun.Load() {
			d.drainFeed(ctx)
		}
	}
	if d.resign != nil {
		d.resign()
	}
	d.cancel()
	d.running.Wait()
	if d.admin != nil {
		errs = append(errs, d.admin.Close())
	}
	if d.fan != nil {
		d.fan.Close()
	}
	return errors.Join(append(errs, d.store.Close())...)
}
