package inside

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// marking is an engine that marks on the page what it compiles and runs, so that the
// agent knows what that was if the process dies of it.
type marking struct {
	engine.Engine
	page *link.Page
}

// Compile implements engine.Engine.
func (m marking) Compile(src engine.Source) (engine.Program, error) {
	slot := m.page.Enter(link.MarkSource(script.DigestOf(src.Code)))
	defer m.page.Leave(slot)
	p, err := m.Engine.Compile(src)
	if err != nil {
		return nil, err
	}
	return &marked{Program: p, page: m.page}, nil
}

type marked struct {
	engine.Program
	page *link.Page
}

// Run implements engine.Program. A test is marked as that already, from its beginning on, and so is what runs
// in the shadow of a call: no script has the mark of its tenant.
func (m *marked) Run(ctx context.Context, inv *engine.Invocation, res *engine.Result) error {
	if ctx.Value(trialKey{}) != nil {
		return m.Program.Run(ctx, inv, res)
	}
	slot := m.page.Enter(link.MarkScript(script.Name{Tenant: inv.Tenant, Script: inv.Script}))
	defer m.page.Leave(slot)
	return m.Program.Run(ctx, inv, res)
}

// guard keeps scripts from running that are in quarantine, or have the same source, and
// those that are suspected of killing the process from running together.
type guard struct {
	gateway.Executor
	trials  gateway.Executor // runs the calls of scripts' tests
	onError func(ctx context.Context, ref string) script.OnError
	// observers see the calls that the guard refuses.
	observers []execute.Observer
	page      *link.Page // where these are marked
	table     *cache.Table
	rules     atomic.Pointer[rules]
	alone     chan struct{} // holds an element while a suspect runs
	waiting   atomic.Int64  // suspects' calls that wait for that
}

// Bounds on calls of suspects, of which one runs at a time, maybe for long.
const (
	maxSuspects     = 16 // that wait
	suspectPatience = time.Second
)

// rules are immutable.
type rules struct {
	quarantined map[string]*script.Error // by "tenant/name"
	suspects    map[string]bool
}

// names returns who has rules.
func (r *rules) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range r.quarantined {
			if !yield(name) {
				return
			}
		}
		for name := range r.suspects {
			if !yield(name) {
				return
			}
		}
	}
}

func newGuard(x, trials gateway.Executor, onError func(context.Context, string) script.OnError, table *cache.Table, observers []execute.Observer, page *link.Page) *guard {
	g := &guard{Executor: x, trials: trials, onError: onError, page: page, table: table, observers: observers, alone: make(chan struct{}, 1)}
	g.rules.Store(&rules{})
	return g
}

// set puts rules in place of those before.
func (g *guard) set(req *workerv1.QuarantineRequest) {
	r := &rules{quarantined: map[string]*script.Error{}, suspects: map[string]bool{}}
	for _, q := range req.GetScripts() {
		r.quarantined[q.GetScript()] = wire.ToError(q.GetError())
	}
	for _, name := range req.GetSuspects() {
		r.suspects[name] = true
	}
	g.rules.Store(r)
}

// Execute implements gateway.Executor.
func (g *guard) Execute(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
	r := g.rules.Load()
	if len(r.quarantined) == 0 && len(r.suspects) == 0 {
		return g.Executor.Execute(ctx, call, reply)
	}
	name, _, _ := strings.Cut(call.Script, "@")
	err := r.quarantined[name]
	if err == nil {
		asked, ok := call.Edition.(*cache.Release)
		if !ok {
			if asked = g.table.Get(name); asked != nil {
				asked = asked.For(call.KeyFrom(asked.KeySource()))
			}
		}
		if asked != nil {
			err = g.barred(r, asked.Runs.Digest)
		}
	}
	start := time.Now()
	if err != nil {
		return g.refuse(ctx, call, reply, start, err)
	}
	if r.suspects[name] {
		if err := g.enter(ctx); err != nil {
			return g.refuse(ctx, call, reply, start, err)
		}
		defer func() { <-g.alone }()
	}
	return g.Executor.Execute(ctx, call, reply)
}

// refuse ends a call that does not run.
func (g *guard) refuse(ctx context.Context, call *gateway.Call, reply *gateway.Reply, start time.Time, err error) error {
	reply.Position, reply.OnError = g.Position(), g.onError(ctx, call.Script)
	name, _, _ := strings.Cut(call.Script, "@")
	return execute.Unrun(call, reply, g.table.Get(name), start).Show(ctx, g.observers, err)
}

// trialKey is the key of what the context of a test has.
type trialKey struct{}

// Try runs a call of a script's tests, which is of the candidate: that the script is in
// quarantine, or suspected, is another version's doing, and the candidate may be what mends
// it. So it runs unless it has the source of what is in quarantine.
func (g *guard) Try(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
	name, _, _ := strings.Cut(call.Script, "@")
	if asked := g.table.Get(name); asked != nil && asked.Candidate != nil {
		if err := g.barred(g.rules.Load(), asked.Candidate.Version.Digest); err != nil {
			reply.Position = g.Position()
			return err
		}
	}
	slot := g.page.Enter(link.MarkTrial(name))
	defer g.page.Leave(slot)
	return g.trials.Execute(context.WithValue(ctx, trialKey{}, true), call, reply)
}

// shadow marks what is loaded or run in the shadow of calls: the candidate, or the live version again. ok is
// false if the script, or another with the source, is in quarantine, or any script is suspected: what runs
// beside that one would hide who ends the process.
func (g *guard) shadow(r *cache.Release) (leave func(), ok bool) {
	rules, name := g.rules.Load(), r.Name.String()
	if rules.quarantined[name] != nil || len(rules.suspects) > 0 || g.barred(rules, r.Runs.Digest) != nil {
		return nil, false
	}
	mark := link.MarkShadow(r.Name)
	if r.Split != nil {
		mark = link.MarkScript(r.Name)
	}
	slot := g.page.Enter(mark)
	return func() { g.page.Leave(slot) }, true
}

// mayTryOut returns why a source that is not published does not run: see shadow.
func (g *guard) mayTryOut(source []byte) error {
	rules := g.rules.Load()
	if len(rules.suspects) > 0 {
		return script.Errorf(script.Unavailable, "tenant", "scripts of the tenant keep ending its process on this agent: try it on another agent")
	}
	if err := g.barred(rules, script.DigestOf(source)); err != nil {
		return err
	}
	return nil
}

// barred returns why the source does not run, or nil: what has the same is in quarantine.
func (g *guard) barred(r *rules, d script.Digest) *script.Error {
	for other, err := range r.quarantined {
		if o := g.table.Get(other); o != nil && (o.Runs.Digest == d || o.OfCandidate().Runs.Digest == d) {
			return err
		}
	}
	return nil
}

// enter waits until no other suspect runs.
func (g *guard) enter(ctx context.Context) error {
	select {
	case g.alone <- struct{}{}:
		return nil
	default:
	}
	const why = "its tenant's process keeps dying, and what may be the reason runs one by one"
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > maxSuspects {
		return script.Errorf(script.Overloaded, "script", "%d calls wait already, the most that may: %s", maxSuspects, why)
	}
	timer := time.NewTimer(suspectPatience)
	defer timer.Stop()
	select {
	case g.alone <- struct{}{}:
		return nil
	case <-timer.C:
		return script.Errorf(script.Overloaded, "script", "the call has waited for its turn for %v: %s", suspectPatience, why)
	case <-ctx.Done():
		return &script.Error{
			Kind: script.Overloaded, Field: "script", Err: context.Cause(ctx),
			Message: "the call's time ran out while it waited for its turn: " + why,
		}
	}
}
