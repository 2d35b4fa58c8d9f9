// Package agent wires one node: it keeps releases on disk, follows the registry's
// feed, and runs the scripts that the node's gateways call. It serves nobody by
// itself: the sockets of package gateway take its Executor.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/scriptorium-dev/scriptorium/agent/answer"
	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/calltrace"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/host"
	"github.com/scriptorium-dev/scriptorium/agent/logring"
	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/natsconn"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/target"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of an agent.
type Config struct {
	// Name of the agent, unique in its fleet: usually the node's.
	Name string
	// Labels go with the agent's status: at most 64, names and values of at most
	// 1 KiB of UTF-8, and 4 KiB in all.
	Labels map[string]string
	// Software is the version that the status names.
	Software string
	// Dir is the state folder. No other agent may use it.
	Dir string
	// Registry is where the registry's gRPC API is: "unix:PATH" or "host:port".
	Registry string
	// DialOptions for the registry; without any, the connection is not encrypted.
	DialOptions []grpc.DialOption
	// NATS servers: "nats://host:port".
	NATS []string
	// NATSSecurity of the connection to them.
	NATSSecurity natsconn.Security
	// Prefix of the NATS subjects; "" means wire.DefaultPrefix.
	Prefix string

	// Trusted holds the keys whose messages, and whose files on disk, are believed.
	// Its keys can be replaced at any time. seal.TrustEverything() asks for no
	// signatures; nil is an error.
	Trusted *seal.Keyring
	// Publishers says whose signatures the scripts of a tenant need besides. They can be
	// replaced at any time: PublishersChanged says so. Nil asks for none.
	Publishers *publisher.Roots
	// Tenants whose scripts the agent holds; the zero Selector means all. When it
	// changes between starts, what is not selected any more is removed.
	Tenants script.Selector
	// AdoptFleet is as in follow.Config.
	AdoptFleet string
	// RemovalShare is as in follow.Config.
	RemovalShare int

	// Engines that run programs.
	Engines []engine.Engine
	// CacheBytes that compiled programs may hold together; 0 means 256 MiB.
	CacheBytes int64
	// ValueCacheBytes of the contents of values that are kept in memory; 0 means 64 MiB.
	ValueCacheBytes int64
	// MaxRunning calls run at once; 0 means GOMAXPROCS-1, at least 1.
	MaxRunning int
	// MaxWaiting calls wait for their turn; 0 means 1024.
	MaxWaiting int

	// Workers configures the processes of isolated tenants. The agent sets its fields Node,
	// MaxWaiting, Log and Metrics. Without a Command the agent starts no such processes, and
	// refuses the calls of isolated tenants.
	Workers worker.Config

	// Decisions says where records of calls go.
	Decisions Decisions

	Log     *slog.Logger          // nil means slog.Default()
	Metrics prometheus.Registerer // may be nil
	// CounterMetrics makes each counter of each tenant's scripts a metric, too.
	CounterMetrics bool
	// MetricScripts is how many scripts have metrics of their own: those called most lately; 0 means 1000.
	MetricScripts int
	// ClassicHistograms has the histograms of scripts have classic buckets, too.
	ClassicHistograms bool

	// Tracer makes the spans of activations; nil for none. TracedAgents is as in follow.Config.
	Tracer       trace.Tracer
	TracedAgents int
	// CallTracing says how calls are traced; nil: they are not.
	CallTracing *calltrace.Config
}

// Agent is one node's. It is safe for concurrent use.
type Agent struct {
	cfg        Config
	log        *slog.Logger
	state      *state
	disk       diskStatus
	contents   *contents
	host       *host.Host
	calls      *callstats.Stats
	recorder   *decisionlog.Recorder
	executor   *execute.Executor
	traces     *calltrace.Tracer // of calls; nil: there are none
	workers    *worker.Pool
	router     gateway.Executor // over both
	tests      gateway.Executor // the same for tests of candidates
	follower   *follow.Follower
	feed       *follow.NATS
	recalls    chan follow.Recall // that wait for their answers
	logs       *logring.Ring
	answers    *answer.Answerer
	profiles   profiles
	tries      tries
	topQueries chan struct{} // has an element for each query that counts calls
	conn       *grpc.ClientConn
	behind     bool // what is live may be older than what was: see store.Loaded
	ran        atomic.Bool
	tooMany    sync.Once // candidates, which is said
	unsigned   unsigned

	endWorkers func()
}

// names that can be part of a NATS subject; a Kubernetes node's can.
var names = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

const (
	maxName                = 253
	defaultCacheBytes      = 256 << 20
	defaultValueCacheBytes = 64 << 20
)

// Open loads what is on disk; the agent can then serve, whatever else is up.
// The caller closes the agent.
func Open(cfg Config) (*Agent, error) {
	if !names.MatchString(cfg.Name) || len(cfg.Name) > maxName {
		return nil, script.Errorf(script.Invalid, "name",
			"%.80q cannot name an agent: want at most %d letters, digits, '-', '_' and single dots between them", cfg.Name, maxName)
	}
	if err := checkTexts(cfg); err != nil {
		return nil, err
	}
	if cfg.Trusted == nil {
		return nil, script.Errorf(script.Internal, "", "agent.Config.Trusted is nil: seal.TrustEverything() is for those who ask for no signatures")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Prefix == "" {
		cfg.Prefix = wire.DefaultPrefix
	}
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = defaultCacheBytes
	}
	if cfg.ValueCacheBytes == 0 {
		cfg.ValueCacheBytes = defaultValueCacheBytes
	}
	a := &Agent{cfg: cfg, log: cfg.Log, recalls: make(chan follow.Recall, maxRecalls), topQueries: make(chan struct{}, maxTopQueries), logs: logring.New(0)}
	conn, err := dial(cfg)
	if err != nil {
		return nil, err
	}
	a.conn = conn
	registry := follow.NewRPC(conn)
	if err := a.load(registry); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := a.assemble(registry); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// dial makes a connection that comes up when it can, and within a second of
// the registry being back.
func dial(cfg Config) (*grpc.ClientConn, error) {
	endpoint, opts, err := target.Parse(cfg.Registry)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	opts = append(opts,
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
	)
	if len(cfg.DialOptions) == 0 {
		opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	conn, err := grpc.NewClient(endpoint, append(opts, cfg.DialOptions...)...)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "registry", "%.200q cannot be dialed: %w", cfg.Registry, err)
	}
	return conn, nil
}

// load opens the state folder and makes live what is in it.
func (a *Agent) load(registry follow.Registry) error {
	disk, loaded, err := store.Open(a.cfg.Dir, a.cfg.Trusted)
	if err != nil {
		return err
	}
	engines := make(map[string]engine.Engine, len(a.cfg.Engines))
	for _, e := range a.cfg.Engines {
		engines[e.Name()] = e
	}
	from := &sources{store: disk, registry: registry, log: a.log}
	a.contents = newContents(from)
	a.state = &state{
		store:    disk,
		table:    cache.NewTable(),
		values:   cache.NewValues(a.contents, a.cfg.ValueCacheBytes),
		tenants:  cache.NewTenants(),
		programs: cache.NewPrograms(cache.Config{Engines: engines, Sources: from, Budget: a.cfg.CacheBytes}),
		group:    a.cfg.Tenants.Group(),
		agent:    a.cfg.self(),
		roots:    a.cfg.Publishers,
	}
	a.state.tester = a.newTester()
	a.tellLost(loaded)
	a.disk = diskStatus{agent: a, corrupt: len(loaded.Lost), untrusted: len(loaded.Doubted)}
	if err := a.measure(loaded); err != nil {
		return errors.Join(err, disk.Close())
	}
	a.behind = loaded.Behind && len(loaded.Releases)+len(loaded.Values) > 0
	a.state.restore(a.state.choose(loaded, a.cfg.Tenants, a.log))
	a.log.Info("state loaded", "scripts", a.state.table.Len(), "values", a.state.values.Len(), "fleet", a.state.cursor.Fleet, "revision", a.state.cursor.Revision,
		"tenants", a.cfg.Tenants.String())
	return nil
}

// tellLost says what of the state folder is not served.
func (a *Agent) tellLost(loaded *store.Loaded) {
	for _, lost := range loaded.Lost {
		a.log.Warn("part of the state folder is lost; it is fetched again", "path", lost.Path, "error", lost.Err)
	}
	if n := len(loaded.Doubted); n > 0 {
		a.log.Warn("files of the state folder are not signed by a trusted key; what is in them is not served, is fetched again, and left alone until then",
			"files", n, "first", loaded.Doubted[0].Path, "error", loaded.Doubted[0].Err)
	}
}

func (a *Agent) assemble(registry follow.Registry) (err error) {
	var observers []execute.Observer
	var traced func(script.Object, trace.SpanContext)
	if a.cfg.CallTracing != nil {
		a.traces = calltrace.New(*a.cfg.CallTracing)
		observers, traced = append(observers, a.traces), a.traces.Activated
	}
	a.feed = &follow.NATS{URLs: a.cfg.NATS, Security: a.cfg.NATSSecurity, Subjects: wire.Subjects{Prefix: a.cfg.Prefix}, Group: a.state.group, Agent: a.cfg.Name, Log: a.log}
	if err := errors.Join(a.measureFeed(), a.provide()); err != nil {
		return err
	}
	a.answers, err = answer.New(answer.Config{
		Agent: a.cfg.Name,
		Handlers: map[string]answer.Handler{
			"recent_logs": a.recentLogs, "script_profile": a.profileScript, "process_profile": a.profileProcess, "end_profile": a.endProfile,
			"top": a.top, "shadow": a.shadowFindings, "try": a.try, "recent_calls": a.recentCalls,
		},
		Send: a.sendAnswer, Log: a.log, Metrics: a.cfg.Metrics,
	})
	if err != nil {
		return fmt.Errorf("prepare to answer queries: %w", err)
	}
	a.follower, err = follow.New(follow.Config{
		Agent: a.cfg.Name, Labels: a.cfg.Labels, Software: a.cfg.Software,
		Trusted: a.cfg.Trusted, Publishers: a.cfg.Publishers, Tenants: a.cfg.Tenants, AdoptFleet: a.cfg.AdoptFleet, RemovalShare: a.cfg.RemovalShare,
		State: a.state, Registry: registry, Feed: a.feed, Reporter: a.feed, Tail: a.tail, Recall: a.recall, Query: a.answers.Answer, Content: a.tries.contents.Add,
		Troubles: a.troubles, Lags: a.lags, Trials: a.trials, Usage: a.calls.TakeUse, Disk: a.disk.tell,
		Tracer: a.cfg.Tracer, TracedAgents: a.cfg.TracedAgents, Traced: traced,
		Log: a.log, Metrics: a.cfg.Metrics,
	})
	if err != nil {
		return err
	}
	if err := a.record(); err != nil {
		return err
	}
	a.executor, err = execute.New(execute.Config{
		Table: a.state.table, Programs: a.state.programs, Position: a.position, Tenants: a.state.tenants.Settings, Publishers: a.cfg.Publishers,
		Host: a.host, Contents: a.state.values, Observers: append(a.observers(), observers...), Profiles: &a.profiles.scripts,
		MaxRunning: a.cfg.MaxRunning, MaxWaiting: a.cfg.MaxWaiting, Metrics: a.cfg.Metrics, Log: a.log,
	})
	if err != nil {
		return err
	}
	return a.startWorkers()
}

// observers see each call wherever it runs or fails: first the decision log, which can refuse the answer.
func (a *Agent) observers() []execute.Observer { return []execute.Observer{a.recorder, a.calls} }

// Executor runs calls. It serves from Open until Close.
func (a *Agent) Executor() gateway.Executor { return a.router }

// Values are the live values of the tenants that the agent follows.
func (a *Agent) Values() *cache.Values { return a.state.values }

// Tenants are the live settings of the tenants that the agent follows.
func (a *Agent) Tenants() *cache.Tenants { return a.state.tenants }

// Ready reports whether the agent has something to answer from: what was on
// disk, or what the registry sent. That may be that there are no scripts.
func (a *Agent) Ready() bool {
	return a.state.cursor.Fleet != "" || a.state.table.Len() > 0 || a.follower.Synced()
}

// FirstSync is closed when the agent has synchronized with the registry for the first time since Open.
func (a *Agent) FirstSync() <-chan struct{} { return a.follower.FirstSync() }

// staleAfter is how old the registry's last word may be before it is worth a look.
const staleAfter = 10 * time.Second

// Degraded says what keeps the agent from being current; "" if it is.
func (a *Agent) Degraded(now time.Time) string {
	if held := a.follower.Held(); held != "" {
		return held
	}
	if err := a.state.diskError(now); err != nil {
		return fmt.Sprintf("the disk cannot be written, so changes wait: make room in %s: %v", a.cfg.Dir, err)
	}
	_, staleness := a.follower.Position(now)
	switch {
	case staleness < 0:
		return "the registry was not heard since the start: what is on disk is served"
	case staleness > staleAfter:
		return fmt.Sprintf("the registry was not heard for %v: what was live stays live", staleness.Round(time.Second))
	}
	return ""
}

func (a *Agent) position(now time.Time) gateway.Position {
	revision, staleness := a.follower.Position(now)
	return gateway.Position{Revision: revision, Staleness: staleness}
}

// catchUpFor bounds how long an agent that may be behind waits for the registry.
const catchUpFor = 3 * time.Second

// answersFor is how many times as long it waits for the end of an answer that has begun.
const answersFor = 10

// CatchUp returns when the agent can serve without going back to an older version. If the end
// of the journal is damaged, that is after the first sync; while the registry does not answer,
// it is after three seconds, and after thirty at most. Run is called before.
func (a *Agent) CatchUp() { a.catchUp(catchUpFor) }

// catchUp waits so long for the registry to begin an answer, and then for the answer.
func (a *Agent) catchUp(patience time.Duration) {
	if !a.behind {
		return
	}
	a.log.Warn("the end of the journal is damaged or missing, so what is on disk may be older than what was live; the agent waits for the registry before it serves",
		"for_its_answer", patience.String())
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for range answersFor {
		select {
		case <-a.follower.FirstSync():
			return
		case <-timer.C:
		}
		if !a.follower.Answering() {
			break
		}
		timer.Reset(patience)
	}
	a.log.Warn("the registry does not answer in time; the agent serves what is on disk")
}

// Run follows the registry until ctx is done; then it says good-bye and returns
// nil. An outage is no error. Run is called once at most.
func (a *Agent) Run(ctx context.Context) error {
	if a.ran.Swap(true) {
		return errors.New("the agent has run already")
	}
	defer a.feed.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		a.state.warm(ctx, a.log)
		return nil
	})
	g.Go(func() error { return a.follower.Run(ctx) })
	g.Go(func() error { return a.host.Run(ctx) })
	g.Go(func() error { return a.answerRecalls(ctx) })
	g.Go(func() error { return a.answers.Run(ctx) })
	g.Go(func() error { return a.logs.Run(ctx) })
	g.Go(func() error { return a.state.tester.Run(ctx) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("agent %s: %w", a.cfg.Name, err)
	}
	return nil
}

// Close releases everything. Run must have returned; calls that come later may
// fail.
func (a *Agent) Close() error {
	if a.endWorkers != nil {
		a.endWorkers()
	}
	a.endRecords()
	a.state.programs.Close()
	a.contents.close()
	return errors.Join(a.conn.Close(), a.state.store.Close())
}
