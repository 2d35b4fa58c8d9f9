package main

import (
	"context"
	"runtime"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// unadmitted is an executor without admission, to measure what it is worth: as many
// calls run at once as there are processors, first come, first served, each to its end.
type unadmitted struct {
	table    *cache.Table
	programs *cache.Programs
	slots    chan struct{}
}

func newUnadmitted(table *cache.Table, programs *cache.Programs) *unadmitted {
	return &unadmitted{table: table, programs: programs, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// Execute is gateway.Executor's.
func (u *unadmitted) Execute(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
	release := u.table.Get(call.Script)
	if release == nil {
		return script.Errorf(script.NotFound, "script", "%s is not here", call.Script)
	}
	program, err := u.programs.Of(ctx, release, nil)
	if err != nil {
		return err
	}
	select {
	case u.slots <- struct{}{}:
	case <-ctx.Done():
		return script.Errorf(script.Overloaded, "", "the call's time ran out while it waited for its turn")
	}
	defer func() { <-u.slots }()
	reply.Version, reply.Digest = release.Runs.Number, release.Runs.Digest
	return program.Run(ctx, &engine.Invocation{
		Tenant: release.Name.Tenant, Args: call.Args, Config: release.Config, Limits: release.Limits,
	}, &reply.Result)
}

// Chain is gateway.Executor's.
func (*unadmitted) Chain(dst []gateway.Link, _, _ string, _ *script.Attributes, _ *gateway.Call) ([]gateway.Link, error) {
	return dst, nil
}

// List is gateway.Executor's.
func (*unadmitted) List() []gateway.Script { return nil }

// Position is gateway.Executor's.
func (*unadmitted) Position() gateway.Position { return position(time.Now()) }

// position says that the agent has activated the one revision.
func position(time.Time) gateway.Position { return gateway.Position{Revision: 1} }
