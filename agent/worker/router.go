package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Router returns an executor that sends the calls of tenants that have a process to
// it, and all others to local. Lists are local's.
func (p *Pool) Router(local gateway.Executor) gateway.Executor {
	return &router{Executor: local, pool: p}
}

// TrialRouter is Router for the calls of scripts' tests, of which local runs those of
// tenants that have no process: see execute.Executor.Trials. No gateway gets it.
func (p *Pool) TrialRouter(local gateway.Executor) gateway.Executor {
	return &router{Executor: local, pool: p, trial: true}
}

type router struct {
	gateway.Executor
	pool  *Pool
	trial bool
}

// Execute implements gateway.Executor.
func (r *router) Execute(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
	start, used, came := time.Now(), engine.Used{}, notRun
	name, _, _ := strings.Cut(call.Script, "/")
	t, err := r.pool.find(name)
	if err == nil && t == nil {
		return r.Executor.Execute(ctx, call, reply)
	}
	for t != nil {
		if came, err = t.execute(ctx, call, reply, &used, r.trial); err != errLeft { //nolint:errorlint // it is never wrapped
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
	reply.Position = r.Position()
	if err != nil {
		reply.Result.Reset()
	}
	if r.trial {
		return err
	}
	err = r.pool.observe(ctx, call, reply, err, start, used, came)
	r.pool.metrics.called(err)
	return err
}

// course is what has become of a call that goes to a process.
type course int

const (
	notRun     course = iota // no process has it, or lived to count it
	unanswered               // a process has it, and shows it to its observers when it ends
	answered                 // a process has done so
)

// observe shows the call to the observers, and returns what it ends with. The process shows a call that it ran
// to its own; the agent traces each, and does not take it for granted that the process records what it has
// not answered.
func (p *Pool) observe(ctx context.Context, call *gateway.Call, reply *gateway.Reply, err error, start time.Time, used engine.Used, came course) error {
	var observers []execute.Observer
	switch tenant, _, _ := strings.Cut(call.Script, "/"); {
	case came == notRun:
		observers = p.cfg.Observers
	case came == unanswered && p.cfg.Records != nil && p.cfg.Node.Tenants.Settings(tenant).Audit == script.AuditStrict:
		observers = []execute.Observer{p.cfg.Records}
	}
	if len(observers) == 0 && p.cfg.Traces == nil {
		return err
	}
	e := execute.Unrun(call, reply, p.releaseOf(call), start)
	e.Used = used
	err = e.Show(ctx, observers, err)
	if p.cfg.Traces != nil {
		err = e.Show(ctx, []execute.Observer{p.cfg.Traces}, err)
	}
	return err
}

// releaseOf returns the live release of what is called; nil if there is none.
func (p *Pool) releaseOf(call *gateway.Call) *cache.Release {
	if r, ok := call.Edition.(*cache.Release); ok {
		return r
	}
	name, _, _ := strings.Cut(call.Script, "@")
	return p.cfg.Node.Table.Get(name)
}

// ErrEnded is the cause of a call's error if the tenant's process ended meanwhile: the
// script may be why, or another that ran beside it. Of a call by a TrialRouter it is
// ErrEndedAlone if nothing else ran.
var (
	ErrEnded      = errors.New("the process that ran the call has ended")
	ErrEndedAlone = fmt.Errorf("%w, and nothing else ran", ErrEnded)
)

// errLeft says that the tenant has left, and has no process for the call any more.
var errLeft = errors.New("the tenant has left")
