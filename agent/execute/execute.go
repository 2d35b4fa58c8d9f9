// Package execute runs calls: it finds the release, waits for the call's turn on a
// processor, and runs the program within the limits of the release and its tenant.
package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/admission"
	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/profile"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of an Executor.
type Config struct {
	Table    *cache.Table
	Programs *cache.Programs
	// Position says how far the agent has come, as of now.
	Position func(now time.Time) gateway.Position
	// Tenants returns the settings of a tenant, zero fields meaning their defaults. It
	// is asked at each call, so what changes there holds from the next call on. If it
	// is nil, all tenants have the defaults.
	Tenants func(tenant string) script.TenantSettings
	// Publishers says whose signatures retained versions need that a call names; nil asks
	// for none. What runs without a name was verified before it went live.
	Publishers *publisher.Roots
	// Host is what scripts may use of the agent; nil if there is none.
	Host engine.Host
	// Contents are the staged values that calls of candidates read by Host; nil if Host is.
	Contents Contents
	// MaxRunning calls run at once, not counting one that is over within a millisecond;
	// 0 means GOMAXPROCS-1, at least 1: one processor is left for those who bring the
	// calls and take the answers away.
	MaxRunning int
	// MaxWaiting calls wait for their turn, half of them of one tenant; the others are
	// refused at once. 0 means 1024.
	MaxWaiting int
	// Observers see each call when it has ended, in this order.
	Observers []Observer
	// Shadowing, if not nil, is called before what runs of the release is loaded or run in the shadow of a
	// call, which is done only if ok; leave is called after. A release with a Split is the live one.
	Shadowing func(r *cache.Release) (leave func(), ok bool)
	// Log gets what goes wrong in the shadow of calls; nil means the default logger.
	Log *slog.Logger
	// Profiles are those of scripts that run; nil if there are never any.
	Profiles *profile.Profiles
	// Metrics gets the executor's metrics, if not nil.
	Metrics prometheus.Registerer
}

// Executor runs calls. It is safe for concurrent use.
type Executor struct {
	table     *cache.Table
	programs  *cache.Programs
	position  func(time.Time) gateway.Position
	tenants   func(string) script.TenantSettings
	host      engine.Host
	contents  Contents
	roots     *publisher.Roots
	gate      *admission.Gate
	compiles  *compiles
	metrics   *metrics
	observers []Observer
	profiles  *profile.Profiles
	shadows   shadows
	log       *slog.Logger
	// calls keeps what a call hands to its engine, since handing it over would
	// allocate it anew each time.
	calls sync.Pool
}

// call is what a call takes.
type call struct {
	ended      Ended
	invocation engine.Invocation
	turn       admission.Turn
	settings   script.TenantSettings
	admission  admission.Call
	staged     staged
	trial      bool
}

var _ gateway.Executor = (*Executor)(nil)

// New returns an executor. It fails only if its metrics are registered already.
func New(cfg Config) (*Executor, error) {
	if cfg.MaxRunning <= 0 {
		cfg.MaxRunning = max(runtime.GOMAXPROCS(0)-1, 1)
	}
	if cfg.MaxWaiting <= 0 {
		cfg.MaxWaiting = 1024
	}
	x := &Executor{
		table:     cfg.Table,
		programs:  cfg.Programs,
		position:  cfg.Position,
		tenants:   cfg.Tenants,
		host:      cfg.Host,
		contents:  cfg.Contents,
		roots:     cfg.Publishers,
		observers: cfg.Observers,
		profiles:  cfg.Profiles,
		log:       cmp.Or(cfg.Log, slog.Default()),
		gate:      admission.New(admission.Config{Running: cfg.MaxRunning, Waiting: cfg.MaxWaiting}),
		calls:     sync.Pool{New: func() any { return new(call) }},
	}
	if x.profiles == nil {
		x.profiles = &profile.Profiles{}
	}
	if x.tenants == nil {
		x.tenants = func(string) script.TenantSettings { return script.TenantSettings{} }
	}
	x.shadows.init(x, cfg.Shadowing)
	x.compiles = newCompiles(cfg.MaxRunning, cfg.MaxWaiting, x.tenants)
	m, err := newMetrics(cfg.Metrics, x)
	if err != nil {
		return nil, fmt.Errorf("register the executor's metrics: %w", err)
	}
	x.metrics = m
	return x, nil
}

// Execute implements gateway.Executor.
func (x *Executor) Execute(ctx context.Context, asked *gateway.Call, reply *gateway.Reply) error {
	start := time.Now()
	c := x.calls.Get().(*call)
	defer x.release(c)
	err := x.execute(ctx, c, asked, reply, false)
	end := time.Now()
	x.answered(end, err, reply)
	err = x.observe(ctx, c, asked, reply, err, start, end)
	if r := c.ended.Release; r != nil && r.Shadow != nil {
		x.shadows.offer(c, asked, reply, err, start)
	}
	x.metrics.called(err, end.Sub(start))
	return err
}

// release makes c ready for another call.
func (x *Executor) release(c *call) {
	c.invocation, c.admission, c.settings, c.staged, c.ended, c.trial = engine.Invocation{}, admission.Call{}, script.TenantSettings{}, staged{}, Ended{}, false
	x.calls.Put(c)
}

// answered completes the reply.
func (x *Executor) answered(at time.Time, err error, reply *gateway.Reply) {
	reply.Position = x.position(at)
	if err != nil {
		reply.Result.Reset()
	}
}

func (x *Executor) execute(ctx context.Context, c *call, asked *gateway.Call, reply *gateway.Reply, trial bool) error {
	release, number, counts, err := x.pick(asked, trial)
	c.ended.of(asked, release, number)
	if err != nil {
		reply.OnError = x.onError(ctx, release, number)
		return err
	}
	loaded, err := x.load(ctx, release, number, reply)
	for err != nil {
		// The release may have been replaced, and its source removed, before
		// its program was loaded: then the call has not begun, and runs what
		// is live now.
		again, _, counted, gone := x.pick(asked, trial)
		if gone != nil || again == release {
			return err
		}
		release, counts = again, counted
		c.ended.of(asked, release, number)
		loaded, err = x.load(ctx, release, number, reply)
	}
	counts = counts && reply.Version == release.Runs.Number
	return x.run(ctx, c, release, &loaded, counts, asked, reply)
}

// run runs the program when it is the call's turn. counts: the call is among those that decide
// what becomes of the release's candidate.
func (x *Executor) run(ctx context.Context, c *call, release *cache.Release, loaded *loaded, counts bool, asked *gateway.Call, reply *gateway.Reply) error {
	c.settings = x.tenants(release.Name.Tenant).OrDefaults()
	c.ended.Decisions, c.ended.Unknown, c.ended.Settings = loaded.Decisions, false, &c.settings
	limits := loaded.Limits.AtMost(c.settings.Limits)
	c.admission = admission.Call{
		Tenant: release.Name.Tenant, Script: release.Name.Script, Settings: &c.settings,
		Concurrency: limits.Concurrency, Timeout: limits.Timeout,
	}
	if err := x.gate.Enter(ctx, &c.turn, &c.admission); err != nil {
		return err
	}
	defer c.leave()
	c.invocation = engine.Invocation{
		Tenant: release.Name.Tenant, OnResponse: asked.OnResponse, Args: asked.Args, Config: loaded.Config, Limits: limits, Memory: share(&c.settings),
		Script: release.Name.Script, Version: reply.Version, Traceparent: asked.Traceparent,
		Host: x.hostOf(c, release, reply.Version), Turn: &c.turn, Used: &c.ended.Used,
	}
	if !c.trial {
		c.invocation.Profile = x.profiles.Of(release.Name, reply.Version)
	}
	var began time.Time
	if counts {
		began = time.Now()
	}
	err := loaded.program.Run(ctx, &c.invocation, &reply.Result)
	reply.OnResponse, reply.Edition = loaded.program.OnResponse(), nil
	if reply.OnResponse && reply.Version == release.Runs.Number {
		reply.Edition = release
	}
	waited := c.turn.Waited()
	if counts {
		note(ctx, release, err, time.Since(began), waited)
	}
	if waited > 0 && script.KindOf(err) == script.Timeout {
		e := *script.AsError(err)
		e.Message += fmt.Sprintf("; it waited %v of that while others had its turn", waited.Round(time.Millisecond))
		return &e
	}
	return err
}

// leave gives the call's turn back.
func (c *call) leave() {
	c.turn.Leave()
	c.ended.Ran = c.turn.Used()
}

// share returns how much memory the calls of a tenant may make together. A process of its
// own has a bound that counts all of it.
func share(settings *script.TenantSettings) int64 {
	if settings.Isolation == script.IsolationProcess {
		return 0
	}
	return settings.MemoryBytes
}

// find returns the release that the call is of, and the number of the version if it names one; also
// with an error, if that is not to run. A trial is of what callers may not run, too.
func (x *Executor) find(call *gateway.Call, trial bool) (*cache.Release, uint64, error) {
	if r := editionOf(call); r != nil {
		return r, 0, nil // which was enabled when the request came
	}
	r, number, err := x.named(call.Script)
	switch {
	case err != nil:
		return nil, 0, err
	case trial:
	case !r.Enabled:
		return r, number, disabled(r)
	case r.Untried():
		return r, number, untried(r)
	}
	return r, number, nil
}

func (x *Executor) named(ref string) (*cache.Release, uint64, error) {
	if r := x.table.Get(ref); r != nil {
		return r, 0, nil
	}
	parsed, err := script.ParseRef(ref)
	if err != nil {
		return nil, 0, err
	}
	base, _, _ := strings.Cut(ref, "@")
	r := x.table.Get(base)
	if r == nil {
		return nil, 0, x.notFound(parsed.Name)
	}
	return r, parsed.Version, nil
}

// loaded is a version that can run.
type loaded struct {
	program engine.Program
	cache.Running
}

// load returns the version with the number, or the one that runs here if it is 0, and says in the
// reply which that is.
func (x *Executor) load(ctx context.Context, r *cache.Release, number uint64, reply *gateway.Reply) (loaded, error) {
	key, with, err := x.vetted(ctx, r, number, reply)
	if err != nil {
		return loaded{}, err
	}
	var program engine.Program
	if reply.Version == r.Runs.Number {
		program, err = x.programs.Of(ctx, r, x.compiles)
	} else {
		program, err = x.programs.Get(ctx, r.Name.Tenant, key, with.Inputs(), x.compiles)
	}
	if err != nil {
		return loaded{}, unloaded(err, r.Name, reply.Version)
	}
	return loaded{program, with}, nil
}

// vetted returns what the version runs with, and the key of its program unless it runs here. If the
// agent requires signatures, a publisher has signed both.
func (x *Executor) vetted(ctx context.Context, r *cache.Release, number uint64, reply *gateway.Reply) (key cache.Key, with cache.Running, err error) {
	reply.Version, reply.Digest, reply.OnError = r.Runs.Number, r.Runs.Digest, script.OnError{}
	defer func() {
		if err == nil && with.OnError != nil {
			reply.OnError = *with.OnError
		}
	}()
	trust := x.roots.Trust()
	if number != 0 && number != r.Runs.Number {
		reply.Version, reply.Digest = 0, script.Digest{}
		var retained bool
		if key, retained = r.Retained(number); !retained {
			return key, with, script.Errorf(script.NotFound, "version", "%s has no version %d; it keeps %s", r.Name, number, listOf(r.Numbers()))
		}
		if err = r.Vouched(number, trust); err != nil {
			return key, with, err
		}
		reply.Version, reply.Digest = number, key.Digest
	}
	if with, err = x.programs.Running(ctx, r, reply.Version); err != nil {
		return key, with, unloaded(err, r.Name, reply.Version)
	}
	if with.Library {
		return key, with, script.IsLibrary(r.Name)
	}
	if err = r.MayRun(reply.Version, with, trust); err != nil {
		reply.Version, reply.Digest = 0, script.Digest{}
	}
	return key, with, err
}

// OnError returns what Execute says in its reply to a call of the script, or the version of it, that
// ref names.
func (x *Executor) OnError(ctx context.Context, ref string) script.OnError {
	r, number, _ := x.named(ref) // without one it is the default
	return x.onError(ctx, r, number)
}

func (x *Executor) onError(ctx context.Context, r *cache.Release, number uint64) script.OnError {
	var reply gateway.Reply
	if r == nil {
		return reply.OnError
	}
	_, _, _ = x.vetted(ctx, r, number, &reply) // with an error it is the default
	return reply.OnError
}

// unloaded says of which version the program could not be loaded.
func unloaded(err error, name script.Name, number uint64) error {
	if err == nil {
		return nil
	}
	e := *script.AsError(err)
	e.Message = fmt.Sprintf("%s@%d cannot be run now: %s", name, number, e.Message)
	return &e
}

func untried(r *cache.Release) error {
	c := r.Candidate
	if c.Frozen != "" {
		return script.Errorf(script.Disabled, "script", "%s has no version that runs yet: its first, %d, waits, because the registry is frozen %s", r.Name, c.Version.Number, c.Frozen)
	}
	if c.Failed != "" {
		return script.Errorf(script.Disabled, "script", "%s has no version that runs: its first, %d, has failed its tests: %s; publish one that passes, or see scriptctl rollout status %s",
			r.Name, c.Version.Number, c.Failed, r.Name)
	}
	return script.Errorf(script.Disabled, "script", "%s has no version that runs yet: its first, %d, is being tested; see scriptctl rollout status %s", r.Name, c.Version.Number, r.Name)
}

func disabled(r *cache.Release) error {
	return script.Errorf(script.Disabled, "script", "%s is disabled; its owner can enable it: scriptctl enable %s", r.Name, r.Name)
}

func (x *Executor) notFound(name script.Name) error {
	if x.table.Len() == 0 {
		return script.Errorf(script.NotFound, "script", "%s is not on this agent, which has no scripts: it has not reached its registry, or believes nothing of what is on its disk; its log says", name)
	}
	return script.Errorf(script.NotFound, "script", "%s is not on this agent; publish it, or see what there is: scriptctl list", name)
}

func listOf(numbers []uint64) string {
	text := make([]string, len(numbers))
	for i, n := range numbers {
		text[i] = fmt.Sprint(n)
	}
	return strings.Join(text, ", ")
}

// List implements gateway.Executor.
func (x *Executor) List() []gateway.Script {
	releases := x.table.Sorted()
	scripts := make([]gateway.Script, len(releases))
	for i, r := range releases {
		active := r.Runs
		active.Signature = "" // no caller's concern
		scripts[i] = gateway.Script{
			Name: r.Name, Revision: r.Revision, Active: active,
			Pinned: r.Pinned, Enabled: r.Enabled && !r.Untried(), Trigger: r.Trigger,
		}
	}
	return scripts
}

// Position implements gateway.Executor.
func (x *Executor) Position() gateway.Position { return x.position(time.Now()) }

// kindOf is script.KindOf, with what a canceled caller gets.
func kindOf(err error) script.Kind {
	if errors.Is(err, context.Canceled) && script.KindOf(err) == script.Internal {
		return script.Timeout
	}
	return script.KindOf(err)
}
