package inside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/respsock"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/spopsock"
	"github.com/scriptorium-dev/scriptorium/agent/host"
	"github.com/scriptorium-dev/scriptorium/agent/profile"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// service answers the agent.
type service struct {
	workerv1.UnimplementedWorkerServer
	*process

	table    *cache.Table
	values   *cache.Values
	tenants  *cache.Tenants
	programs *cache.Programs
	executor *guard
	plain    *execute.Executor // below it
	metrics  *prometheus.Registry
	profiles *profile.Profiles
	calls    *callstats.Stats
	home     home
	records  *records
	roots    *publisher.Roots
	bytes    *budget.Budget      // of the sockets
	conns    *budget.Connections // of the sockets

	applying sync.Mutex // changes come one after the other
	serving  bool       // guarded by applying
	servers  []server   // guarded by applying
	stopWarm context.CancelFunc
}

// keptPast is how many releases are kept that chains may have begun with, which the agent knows for a
// moment after the process has others.
const keptPast = 256

// server is what every protocol's server is.
type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

func newService(p *process, client workerv1.HomeClient) (*service, error) {
	from := home{client: client}
	engines := make(map[string]engine.Engine, len(p.cfg.Engines))
	for _, e := range p.cfg.Engines {
		engines[e.Name()] = marking{Engine: e, page: p.page}
	}
	cached := p.assignment.GetMemoryBytes() / 4
	bytes := max(p.assignment.GetMemoryBytes()/8, leastBytes)
	s := &service{
		process:  p,
		table:    cache.NewTable(),
		values:   cache.NewValues(from, cached),
		tenants:  cache.NewTenants(),
		programs: cache.NewPrograms(cache.Config{Engines: engines, Sources: from, Budget: cached}),
		metrics:  prometheus.NewRegistry(),
		profiles: &profile.Profiles{},
		home:     from,
		roots:    publisher.NewRoots(nil),
		bytes:    budget.NewCapped(bytes, runtime.GC),
		conns:    budget.ConnectionsOf(p.confined.Descriptors, bytes/2),
		stopWarm: func() {},
	}
	s.table.KeepPast(keptPast)
	s.metrics.MustRegister(collectors.NewGoCollector())
	lent, err := host.New(host.Config{Values: s.values, Tenants: s.tenants.Settings, Log: p.log, Metrics: s.metrics})
	if err != nil {
		return nil, err
	}
	if s.calls, err = callstats.New(callstats.Config{
		Table: s.table, Scripts: int(p.assignment.GetMetricScripts()), Classic: p.assignment.GetClassicHistograms(), Metrics: s.metrics,
	}); err != nil {
		return nil, err
	}
	hostServices := newHostServices(lent, from, s.tenants.Settings, s.calls)
	go s.bringCounts(context.Background())
	go func() {
		if err := hostServices.run(context.Background()); err != nil {
			p.log.Error("what scripts log is lost from now on", "error", err)
		}
	}()
	s.records = newRecords(from, s.tenants.Settings)
	go s.records.run(context.Background())
	observers := []execute.Observer{s.records, s.calls}
	x, err := execute.New(execute.Config{
		Table: s.table, Programs: s.programs, Tenants: s.tenants.Settings, Host: hostServices, Contents: s.values, Publishers: s.roots,
		Position:   func(time.Time) gateway.Position { return p.page.Position() },
		MaxRunning: p.running(), MaxWaiting: int(p.assignment.GetMaxWaiting()), Profiles: s.profiles,
		Observers: append(slices.Clone(observers), s.traces()...), Metrics: s.metrics,
		Shadowing: func(r *cache.Release) (func(), bool) { return s.executor.shadow(r) }, Log: p.log,
	})
	if err != nil {
		return nil, err
	}
	s.plain = x
	s.executor = newGuard(gateway.Protect(x, p.log), gateway.Protect(x.Trials(), p.log), x.OnError, s.table, observers, p.page)
	s.executor.set(p.assignment.GetQuarantine())
	return s, nil
}

// running is how many calls run at once: no more than the tenant may use processors, and
// one fewer than the machine has, which the agent and other tenants need.
func (p *process) running() int {
	return max(min(int(p.assignment.GetProcessors()), runtime.NumCPU()-1), 1)
}

// Apply implements workerv1.WorkerServer.
func (s *service) Apply(ctx context.Context, req *workerv1.ApplyRequest) (*workerv1.ApplyResponse, error) {
	c, err := changeOf(req, script.Agent{Name: s.assignment.GetAgent(), Labels: s.assignment.GetLabels()})
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	if s.serving {
		compiled := make(chan struct{})
		go func() {
			defer close(compiled)
			s.compile(context.WithoutCancel(ctx), c.releases)
		}()
		patience := time.NewTimer(compilePatience)
		select {
		case <-compiled:
		case <-patience.C:
		}
		patience.Stop()
	}
	if req.GetSigned() {
		s.roots.Replace(publisher.Verified)
	} else {
		s.roots.Replace(nil)
	}
	s.tenants.Update(c.tenants, c.goneTenants)
	s.values.Update(c.values, nil)
	s.table.Update(c.releases, c.goneScripts)
	s.values.Update(nil, c.goneValues)
	return &workerv1.ApplyResponse{}, nil
}

// compilePatience is how long the fleet waits for programs. What takes longer goes live
// before it is compiled: its own calls wait for that, and nobody else does.
const compilePatience = 25 * time.Millisecond

// compile makes the programs of releases ready. One that fails here goes live all the
// same, and its calls say why.
func (s *service) compile(ctx context.Context, releases []*cache.Release) {
	left := s.leftAlone()
	for _, r := range releases {
		for ; r != nil && !left(r); r = r.Split {
			if _, err := s.programs.Of(ctx, r, atOnce{}); err != nil {
				s.log.Warn("a live script cannot be compiled", "script", r.Name.String(), "version", r.Runs.Number, "error", err)
			}
		}
	}
}

// leftAlone tells which releases are compiled for their calls alone: those of scripts
// that are in quarantine or suspected, and of others with the same source. Compiling
// may be what kills the process.
func (s *service) leftAlone() func(*cache.Release) bool {
	names, sources := map[string]bool{}, map[script.Digest]bool{}
	for name := range s.executor.rules.Load().names() {
		names[name] = true
		if r := s.table.Get(name); r != nil {
			sources[r.Runs.Digest], sources[r.OfCandidate().Runs.Digest] = true, true
		}
	}
	return func(r *cache.Release) bool { return names[r.Name.String()] || sources[r.Runs.Digest] }
}

// atOnce lets be compiled what no call waits for, of which there is one at a time.
type atOnce struct{}

var _ cache.Turns = atOnce{}

// Enter implements cache.Turns.
func (atOnce) Enter(context.Context, string) (leave func(), err error) { return func() {}, nil }

// change is what an ApplyRequest asks for.
type change struct {
	releases []*cache.Release
	values   []script.Value
	tenants  []script.Tenant

	goneScripts []script.Name
	goneValues  []script.ValueKey
	goneTenants []string
}

func changeOf(req *workerv1.ApplyRequest, agent script.Agent) (*change, error) {
	c := &change{}
	for _, m := range req.GetPut() {
		o, ok, err := wire.ToObject(m)
		if err != nil || !ok {
			return nil, errors.Join(fmt.Errorf("the agent sent %.80q, which cannot be read", m.GetKey()), err)
		}
		switch {
		case o.Release != nil:
			c.releases = append(c.releases, cache.NewReleaseOn(agent, *o.Release))
		case o.Value != nil:
			c.values = append(c.values, *o.Value)
		default:
			c.tenants = append(c.tenants, *o.Tenant)
		}
	}
	for _, key := range req.GetGone() {
		kind, name, _ := strings.Cut(key, "/")
		tenant, rest, _ := strings.Cut(name, "/")
		switch script.ObjectKind(kind) {
		case script.Releases:
			c.goneScripts = append(c.goneScripts, script.Name{Tenant: tenant, Script: rest})
		case script.Values:
			c.goneValues = append(c.goneValues, script.ValueKey{Tenant: tenant, Key: rest})
		case script.Tenants:
			c.goneTenants = append(c.goneTenants, name)
		}
	}
	return c, nil
}

// Serve implements workerv1.WorkerServer.
func (s *service) Serve(context.Context, *workerv1.ServeRequest) (*workerv1.ServeResponse, error) {
	access, err := gateway.ParseAccess(s.assignment.GetAccess())
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	if s.serving {
		return &workerv1.ServeResponse{}, nil
	}
	for i, protocol := range s.assignment.GetSockets() {
		srv, err := s.server(protocol, access)
		if err != nil {
			return nil, wire.ToStatus(err)
		}
		s.servers = append(s.servers, srv)
		go func() { _ = srv.Serve(s.listeners[i]) }() // ends with Drain
	}
	s.serving = true
	ctx, cancel := context.WithCancel(context.Background())
	s.stopWarm = cancel
	go s.warm(ctx)
	return &workerv1.ServeResponse{}, nil
}

// leastBytes of the sockets' budget: a few of the largest requests fit.
const leastBytes = 32 << 20

func (s *service) server(protocol string, access *gateway.Access) (server, error) {
	switch protocol {
	case "resp":
		return respsock.New(respsock.Options{Executor: s.executor, Access: access, Logger: s.log, Version: s.cfg.Version, Connections: s.conns, Budget: s.bytes}), nil
	case "grpc":
		return grpcsock.New(grpcsock.Options{Executor: s.executor, Access: access, Logger: s.log, Connections: s.conns, Budget: s.bytes}), nil
	case "spop":
		return spopsock.New(spopsock.Options{Executor: s.executor, Access: access, Logger: s.log, Connections: s.conns, Budget: s.bytes}), nil
	case "http":
		return httpsock.New(httpsock.Options{
			Executor: s.executor, Access: access, Logger: s.log, Connections: s.conns, Budget: s.bytes,
			Metrics: func(g gateway.Grant) (prometheus.Gatherer, error) {
				return s.metrics, g.CheckTenant(s.assignment.GetTenant())
			},
		}), nil
	}
	return nil, script.Errorf(script.Internal, "", "there is no protocol %q", protocol)
}

// warm compiles what is live, as far as there is room, so that first calls need not
// wait for it.
func (s *service) warm(ctx context.Context) {
	left := s.leftAlone()
	for r := range s.table.All() {
		if ctx.Err() != nil || s.programs.Full() {
			return
		}
		for ; r != nil && !left(r); r = r.Split {
			_, _ = s.programs.Of(ctx, r, atOnce{}) // a call that needs it says what is wrong
		}
	}
}

// Quarantine implements workerv1.WorkerServer.
func (s *service) Quarantine(_ context.Context, req *workerv1.QuarantineRequest) (*workerv1.QuarantineResponse, error) {
	s.executor.set(req)
	return &workerv1.QuarantineResponse{}, nil
}

// Drain implements workerv1.WorkerServer.
func (s *service) Drain(ctx context.Context, _ *workerv1.DrainRequest) (*workerv1.DrainResponse, error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.stopWarm()
	var draining sync.WaitGroup
	for _, srv := range s.servers {
		draining.Go(func() { _ = srv.Shutdown(ctx) }) // what is left when ctx ends is cut off
	}
	draining.Wait()
	s.servers = nil
	s.records.bring(ctx)
	s.bring(ctx)
	return &workerv1.DrainResponse{}, nil
}
