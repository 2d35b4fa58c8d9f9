package agent

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/answer"
	"github.com/scriptorium-dev/scriptorium/agent/tryout"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// maxTryAge is the age of the oldest query that has a script run. It includes the difference of the clocks.
	maxTryAge = time.Minute
	// tryPart is the approximate size of a part with results.
	tryPart = answer.MaxPart / 4
)

// tries are the scripts that authors try here.
type tries struct {
	contents tryout.Contents
	places   tryout.Places
}

// try answers a query that has this agent run a script that is not published. That a key of the registry signed the query,
// and that it is not known, was checked before.
func (a *Agent) try(ctx context.Context, q *eventv1.Query, send answer.Send) error {
	if err := a.mayTry(q); err != nil {
		return err
	}
	found, err := a.tried(ctx, q)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return script.Errorf(script.Unavailable, "", "the agent is stopping: try again, or on another agent")
	case err != nil:
		return err
	}
	return sendTry(found, send)
}

// tried runs the script, in the process of its tenant if the tenant has one.
func (a *Agent) tried(ctx context.Context, q *eventv1.Query) (*tryout.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, q.GetTry().GetTimeout().AsDuration())
	defer cancel()
	tenant := q.GetTenant()
	leave, err := a.tries.places.Enter(ctx, tenant)
	if err != nil {
		return nil, err
	}
	defer leave()
	data, err := a.tries.contents.Take(ctx, q.GetId(), q.GetTry())
	if err != nil {
		return nil, err
	}
	m := &eventv1.TryScript{}
	if err := proto.Unmarshal(data, m); err != nil || m.GetTenant() != tenant {
		return nil, script.Errorf(script.Invalid, "", "what the registry sent is no script of tenant %s", tenant)
	}
	found, isolated, err := a.workers.TryOut(ctx, m)
	if err == nil && !isolated {
		found, err = tryout.Run(ctx, a.executor, m)
	}
	if err != nil {
		return nil, err
	}
	if found.Run.Isolation = tryout.Shared; isolated {
		found.Run.Isolation = tryout.Process
	}
	return found, nil
}

// mayTry refuses a query that is for another agent or an earlier life of this one, or that is too old, and scripts of tenants
// that this agent does not serve, or of which it runs only what a publisher has signed.
func (a *Agent) mayTry(q *eventv1.Query) error {
	age := time.Since(q.GetSentAt().AsTime())
	switch {
	case len(q.GetAgents()) != 1 || q.GetAgents()[0] != a.cfg.Name || q.GetTenant() == "":
		return script.Errorf(script.Denied, "", "a script is tried on one agent, which the query names")
	case q.GetTry().GetIncarnation() != a.follower.Incarnation():
		return script.Errorf(script.Unavailable, "", "the agent has started again meanwhile: try again")
	case !a.follower.Synced():
		return script.Errorf(script.Unavailable, "", "the agent has just started, and does not know the settings of tenants yet: try again")
	case age > maxTryAge || age < -maxTryAge:
		return script.Errorf(script.Unavailable, "", "the query is %v old by the clock of the agent, at most %v are allowed: set the clocks", age.Round(time.Second), maxTryAge)
	case !a.cfg.Tenants.Matches(q.GetTenant()):
		return script.Errorf(script.NotFound, "tenant", "the agent does not follow tenant %s", q.GetTenant())
	case a.cfg.Publishers.Trust().Requires(q.GetTenant()):
		return script.Errorf(script.Denied, "signature",
			"the agent runs only scripts of tenant %s that a publisher has signed (--tenant-keys), and nobody signs what is tried: try it on an agent without this requirement, or on your machine (scriptctl run)", q.GetTenant())
	}
	return nil
}

// sendTry sends what came of a script.
func sendTry(found *tryout.Answer, send answer.Send) error {
	part, size := &eventv1.TryAnswer{Run: found.Run}, 0
	flush := func() error {
		m := part
		part, size = &eventv1.TryAnswer{}, 0
		return send(&eventv1.Answer{Kind: &eventv1.Answer_Try{Try: m}})
	}
	for _, r := range found.Results {
		if n := proto.Size(r); size > 0 && size+n > tryPart {
			if err := flush(); err != nil {
				return err
			}
		}
		size += proto.Size(r)
		part.Results = append(part.Results, r)
	}
	return flush()
}
