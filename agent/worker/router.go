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
	name, _, _ := strings.Cut(call.Script, "/")
	t, err := r.pool.find(name)
	if err == nil && t == nil {
		return r.Executor.Execute(ctx, call, reply)
	}
	for t != nil {
		if err = t.execute(ctx, call, reply); err != errLeft { //nolint:errorlint // it is never wrapped
			break
		}
		left := t
		if t, err = r.pool.find(name); err == nil && t == nil {
			return r.Executor.Execute(ctx, call, reply)
		}
		if t == left {
			err = script.Errorf(script.Unavailable, "tenant", "the process of tenant %s is being ended: the agent stops", name)
			break
		}
	}
	r.pool.metrics.called(err)
	reply.Position = r.Position()
	if err != nil {
		reply.Result.Reset()
	}
	return err
}

// errLeft says that the tenant has left, and has no process for the call any more.
var errLeft = errors.New("the tenant has left")
