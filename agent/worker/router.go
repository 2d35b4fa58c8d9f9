package worker

import (
	"context"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
)

// Router returns an executor that sends the calls of tenants that have a process to
// it, and all others to local. Lists are local's.
func (p *Pool) Router(local gateway.Executor) gateway.Executor {
	return &router{Executor: local, pool: p}
}

type router struct {
	gateway.Executor
	pool *Pool
}

// Execute implements gateway.Executor.
func (r *router) Execute(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
	tenants := r.pool.byName.Load()
	if len(*tenants) == 0 {
		return r.Executor.Execute(ctx, call, reply)
	}
	name, _, _ := strings.Cut(call.Script, "/")
	t := (*tenants)[name]
	if t == nil {
		return r.Executor.Execute(ctx, call, reply)
	}
	err := t.execute(ctx, call, reply)
	reply.Position = r.Position()
	if err != nil {
		reply.Result.Reset()
	}
	return err
}
