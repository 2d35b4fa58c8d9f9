package worker

import (
	"context"
	"errors"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
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
	t := r.tenantOf(call)
	for t != nil {
		err := t.execute(ctx, call, reply)
		if err == errLeft { //nolint:errorlint // it is never wrapped
			if again := r.tenantOf(call); again != t {
				t = again
				continue
			}
			err = script.Errorf(script.Unavailable, "tenant", "the process of tenant %s is being ended: the agent stops", t.name)
		}
		r.pool.metrics.called(err)
		reply.Position = r.Position()
		if err != nil {
			reply.Result.Reset()
		}
		return err
	}
	return r.Executor.Execute(ctx, call, reply)
}

// errLeft says that the tenant has left, and has no process for the call any more.
var errLeft = errors.New("the tenant has left")

// tenantOf returns the tenant whose process the call is for, or nil.
func (r *router) tenantOf(call *gateway.Call) *tenant {
	tenants := *r.pool.byName.Load()
	if len(tenants) == 0 {
		return nil
	}
	name, _, _ := strings.Cut(call.Script, "/")
	return tenants[name]
}
