// Package agentd puts an agent's process together: the node, its sockets, and
// what operators look at.
package agentd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/agent/calltrace"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/respsock"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/spopsock"
	"github.com/scriptorium-dev/scriptorium/internal/debugsock"
	"github.com/scriptorium-dev/scriptorium/internal/node"
	"github.com/scriptorium-dev/scriptorium/internal/obs"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/internal/tracing"
	"github.com/scriptorium-dev/scriptorium/internal/version"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of an agent's process. The flags of Command say what each is for.
type Config struct {
	Name          string
	Labels        map[string]string // those with an empty value are left out
	StateDir      string
	SocketDir     string
	Registry      string
	NATS          []string
	SubjectPrefix string
	Allow         []string
	CacheBytes    int64
	// ValueCacheBytes of the contents of values are kept in memory.
	ValueCacheBytes int64
	MaxRunning      int
	// CounterMetrics makes the counters of scripts metrics.
	CounterMetrics bool
	// MetricsTenants are those whose metrics the admin listener shows, as names or globs.
	MetricsTenants []string
	// MetricScripts and ClassicHistograms are as in agent.Config.
	MetricScripts     int
	ClassicHistograms bool
	MaxWaiting        int
	AdminAddress      string
	DrainTimeout      time.Duration
	Tenants           []string
	AdoptFleet        string
	RemovalShare      int
	Workers           Workers
	// TenantSockets are the groups of tenants that have sockets of their own.
	TenantSockets map[string]int
	Port          Port
	Security      node.Security
	Decisions     node.Decisions
	Debug         debugsock.Options // served by Run
	// WithoutEngines is as in node.Config; no flag sets it.
	WithoutEngines []string

	Log     *slog.Logger
	Metrics *prometheus.Registry
	// Tracing exports spans; nil for none. Its owner closes it. TracedAgents is as in agent.Config.
	Tracing      *tracing.Tracing
	TracedAgents int
}

// server is what every protocol's server is.
type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

// Daemon is a running agent.
type Daemon struct {
	log      *slog.Logger
	agent    *node.Node
	servers  []server
	admin    *obs.Admin
	tenants  *tenantSockets
	draining atomic.Bool

	cancel  context.CancelFunc // ends following
	running sync.WaitGroup
	failed  chan error // a part that ended by itself
}

// Run serves until ctx is done, then drains within cfg.DrainTimeout.
func Run(ctx context.Context, cfg Config) error {
	closeDebug, err := cfg.Debug.Serve(cfg.Log)
	if err != nil {
		return err
	}
	defer closeDebug()
	d, err := Start(cfg)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		cfg.Log.Info("draining", "timeout", cfg.DrainTimeout.String())
	case err = <-d.failed:
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.DrainTimeout)
	defer cancel()
	return errors.Join(err, d.Stop(drain))
}

// Start loads the state folder and serves from it, and follows the registry from
// then on. It does not wait for the registry, unless what is on disk may be out of date: see
// agent.CatchUp.
func Start(cfg Config) (*Daemon, error) {
	access, err := gateway.ParseAccess(accessRules(cfg.Allow))
	if err != nil {
		return nil, err
	}
	if access.Open() {
		cfg.Log.Warn("every caller that can open a socket may use every tenant, as --allow says")
	}
	if err := checkTenantSockets(cfg.TenantSockets); err != nil {
		return nil, err
	}
	users, err := cfg.Workers.users()
	if err != nil {
		return nil, err
	}
	expiries := tlsfiles.NewExpiries("agent")
	port, err := cfg.Port.open(tlsfiles.ModesFor(cfg.Security.InsecureFileModes), expiries, cfg.Log)
	if err != nil {
		return nil, err
	}
	if err := cfg.Tracing.Register(cfg.Metrics); err != nil {
		return nil, err
	}
	cfg.Decisions.Sinks = cfg.decisionSinks()
	sockets := newTenantSockets(cfg)
	n, err := node.Open(node.Config{
		Config: agent.Config{
			Name: cfg.Name, Labels: withValues(cfg.Labels), Dir: cfg.StateDir,
			Registry: cfg.Registry, NATS: cfg.NATS, Prefix: cfg.SubjectPrefix, AdoptFleet: cfg.AdoptFleet, RemovalShare: cfg.RemovalShare,
			CacheBytes: cfg.CacheBytes, ValueCacheBytes: cfg.ValueCacheBytes, MaxRunning: cfg.MaxRunning, MaxWaiting: cfg.MaxWaiting,
			Workers: cfg.workers(users, sockets), Log: cfg.Log, Metrics: cfg.Metrics, CounterMetrics: cfg.CounterMetrics,
			MetricScripts: cfg.MetricScripts, ClassicHistograms: cfg.ClassicHistograms,
			Tracer: cfg.Tracing.Tracer(), TracedAgents: cfg.TracedAgents, CallTracing: callTracing(cfg.Tracing),
		},
		Tenants: cfg.Tenants, Security: cfg.Security, Expiries: expiries, Decisions: cfg.Decisions,
		WithoutEngines: cfg.WithoutEngines,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &Daemon{log: cfg.Log, agent: n, tenants: sockets, cancel: cancel, failed: make(chan error, 1)}
	d.goRun("follow the registry", func() error { return n.Run(ctx) })
	if port != nil {
		d.running.Go(func() { port.run(ctx) })
	}
	n.CatchUp()
	if err := d.serve(cfg, access, port); err != nil {
		stopped, cancelStop := context.WithCancel(ctx)
		cancelStop() // nobody was served: there is nothing to wait for
		return nil, errors.Join(err, d.Stop(stopped))
	}
	cfg.Log.Info("serving", "sockets", cfg.SocketDir, "version", version.String(), "tenants", cfg.Tenants)
	return d, nil
}

// callTracing returns how calls are traced; nil if they are not.
func callTracing(t *tracing.Tracing) *calltrace.Config {
	calls := t.Calls()
	if calls == nil {
		return nil
	}
	return &calltrace.Config{Tracer: calls.Tracer, Sampling: calls.Sampling, Rate: calls.Rate, Dropped: calls.Dropped, Continue: calls.Continue}
}

// accessRules returns the rules in the values of --allow, or those of an agent without any. A variable
// holds several rules with semicolons between them: one has commas already.
func accessRules(values []string) (rules []string) {
	if len(values) == 0 {
		return gateway.OwnRules()
	}
	for _, value := range values {
		rules = append(rules, strings.Split(value, ";")...)
	}
	return rules
}

// serve opens the sockets, the port and the admin listener.
func (d *Daemon) serve(cfg Config, access *gateway.Access, port *port) error {
	executor, shared := d.agent.Executor(), budget.New(gateway.DefaultBudget)
	conns := budget.OwnConnections(gateway.IdleBytes)
	if err := errors.Join(registerConnections(cfg.Metrics, conns), registerInfo(cfg.Metrics, cfg.Name)); err != nil {
		return err
	}
	overHTTP := httpsock.Options{
		Executor: executor, Access: access, Logger: cfg.Log, Connections: conns, Budget: shared, Ready: d.notReady,
		Metrics: func(g gateway.Grant) (prometheus.Gatherer, error) { return granted(cfg.Metrics, g), nil },
	}
	servers := map[string]server{
		"resp": respsock.New(respsock.Options{Executor: executor, Access: access, Logger: cfg.Log, Version: version.String(), Connections: conns, Budget: shared}),
		"grpc": grpcsock.New(grpcsock.Options{Executor: executor, Access: access, Logger: cfg.Log, Connections: conns, Budget: shared}),
		"spop": spopsock.New(spopsock.Options{Executor: executor, Access: access, Logger: cfg.Log, Connections: conns, Budget: shared}),
		"http": httpsock.New(overHTTP),
	}
	for _, protocol := range gateway.Protocols {
		name := protocol + ".sock"
		l, err := gateway.Listen(filepath.Join(cfg.SocketDir, name))
		if err != nil {
			return err
		}
		d.serveOn(name, servers[protocol], l)
	}
	if err := d.tenants.serve(servers); err != nil {
		return script.Errorf(script.Invalid, "--"+tenantSocketsFlag, "%w", err)
	}
	if port != nil {
		l, err := port.listen()
		if err != nil {
			return err
		}
		overHTTP.Access, overHTTP.Identify, overHTTP.TLS = nil, port.identify, port.tls
		d.serveOn("the port of --http-listen", httpsock.New(overHTTP), l)
		cfg.Log.Info("callers with a token or a certificate of --http-callers are served over TCP", "address", l.Addr().String(), "tls", port.tls != nil)
	}
	return d.serveAdmin(cfg, access)
}

// serveOn serves the listener until Stop.
func (d *Daemon) serveOn(name string, s server, l net.Listener) {
	d.servers = append(d.servers, s)
	d.goRun(name, func() error { return s.Serve(l) })
}

// serveAdmin opens the admin listener, if there is to be one.
func (d *Daemon) serveAdmin(cfg Config, access *gateway.Access) error {
	if cfg.AdminAddress == "" {
		return nil
	}
	metrics, err := adminMetrics(cfg, access)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", cfg.AdminAddress)
	if err != nil {
		return script.Errorf(script.Invalid, "--admin-address", "%w", err)
	}
	d.admin = obs.ServeAdmin(l, obs.Handler(metrics, d.readiness), cfg.Log)
	return nil
}

// goRun runs a part; one that ends before Stop fails the daemon.
func (d *Daemon) goRun(name string, run func() error) {
	d.running.Go(func() {
		err := run()
		if d.draining.Load() {
			return
		}
		select {
		case d.failed <- fmt.Errorf("%s ended: %w", name, err):
		default: // one reason is enough
		}
	})
}

// notReady says why the agent does not serve, or nil.
func (d *Daemon) notReady() error {
	if d.draining.Load() {
		return script.Errorf(script.Unavailable, "", "the agent is draining")
	}
	return d.agent.NotReady()
}

func (d *Daemon) readiness(context.Context) obs.Readiness {
	if err := d.notReady(); err != nil {
		return obs.Readiness{Reason: err.Error()}
	}
	state := obs.Readiness{Ready: true}
	if why := d.agent.Degraded(time.Now()); why != "" {
		state.Degraded = []string{why}
	}
	return state
}

// Stop drains: it takes no new connections, finishes calls in flight until ctx
// is done, tells the registry that this agent is leaving, and closes everything.
func (d *Daemon) Stop(ctx context.Context) error {
	d.draining.Store(true)
	d.tenants.close()
	var (
		mu   sync.Mutex
		errs []error
		wg   sync.WaitGroup
	)
	for _, s := range d.servers {
		wg.Go(func() {
			if err := s.Shutdown(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("drain: %w", err))
			}
		})
	}
	wg.Wait()
	if err := d.agent.Workers().Shutdown(ctx); err != nil {
		errs = append(errs, fmt.Errorf("drain the processes of tenants: %w", err))
	}
	if err := d.agent.EndRecords(ctx); err != nil {
		errs = append(errs, fmt.Errorf("drain the decision log: %w", err))
	}
	d.cancel()
	d.running.Wait()
	if d.admin != nil {
		errs = append(errs, d.admin.Close())
	}
	return errors.Join(append(errs, d.agent.Close())...)
}
