package inside

import (
	"context"
	"strings"
	"sync/atomic"

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

// Run implements engine.Program.
func (m *marked) Run(ctx context.Context, inv *engine.Invocation, res *engine.Result) error {
	slot := m.page.Enter(link.MarkScript(script.Name{Tenant: inv.Tenant, Script: inv.Script}))
	defer m.page.Leave(slot)
	return m.Program.Run(ctx, inv, res)
}

// guard keeps scripts from running that are in quarantine, and those that are suspected
// of killing the process from running together.
type guard struct {
	gateway.Executor
	rules atomic.Pointer[rules]
	alone chan struct{} // holds an element while a suspect runs
}

// rules are immutable.
type rules struct {
	quarantined map[string]*script.Error // by "tenant/name"
	suspects    map[string]bool
}

func newGuard(x gateway.Executor) *guard {
	g := &guard{Executor: x, alone: make(chan struct{}, 1)}
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
	if err := r.quarantined[name]; err != nil {
		reply.Position = g.Position()
		return err
	}
	if r.suspects[name] {
		select {
		case g.alone <- struct{}{}:
			defer func() { <-g.alone }()
		case <-ctx.Done():
			reply.Position = g.Position()
			return &script.Error{
				Kind: script.Overloaded, Err: context.Cause(ctx),
				Message: "the call's time ran out while it waited for its turn: its tenant's process keeps dying, and what may be the reason runs one by one",
			}
		}
	}
	return g.Executor.Execute(ctx, call, reply)
}
