package worker

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/engine"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// patience is how long a call waits for a process to be there.
	patience = time.Second
	// maxForwarded is how many calls of a tenant are on their way to its process.
	maxForwarded = 1024
)

// execute forwards a call to the tenant's process, and waits for one if there is none
// just now. Used gets what the process says that the call used. A trial is a call that one of a script's
// tests makes.
func (t *tenant) execute(ctx context.Context, call *gateway.Call, reply *gateway.Reply, used *engine.Used, trial bool) (course, error) {
	key, runs := t.keyed(call)
	edition, chained := call.Edition.(*cache.Release)
	asked, limits := call.Script, script.Limits{}
	if chained {
		asked, limits = runs, edition.Limits
		reply.OnError = script.OnError{}
		if edition.OnError != nil {
			reply.OnError = *edition.OnError
		}
	} else if onError := t.pool.cfg.Node.OnError; onError != nil {
		reply.OnError = onError(ctx, runs)
	}
	if t.calls.Add(1) > maxForwarded {
		t.calls.Add(-1)
		return notRun, script.Errorf(script.Overloaded, "tenant", "%d calls of tenant %s are on their way to its process, the most that this agent takes: try again", maxForwarded, t.name)
	}
	defer t.calls.Add(-1)
	p, err := t.process(ctx)
	for err == nil && !p.enter() { // another one has taken its place meanwhile
		p, err = t.process(ctx)
	}
	if err != nil {
		return notRun, err
	}
	defer p.leave()
	if !chained {
		limits = t.limits(asked)
	}
	resp, sent, err := p.caller.call(ctx, bounds{time: limits.Timeout + patience + time.Second, answer: limits.ResultBytes + answerSlack},
		&workerv1.ExecuteRequest{
			Script: asked, Args: call.Args, Traceparent: call.Traceparent, Trial: trial, Chained: chained || call.OnResponse, Key: key, OnResponse: call.OnResponse,
			Protocol: call.Origin.Protocol, Caller: call.Origin.Caller,
		})
	if err != nil {
		err = t.lost(ctx, err)
		if trial {
			err = t.lostTrial(p, asked, err)
		}
		if !sent || errors.Is(err, ErrEnded) {
			return notRun, err
		}
		return unanswered, err
	}
	used.Instructions, used.Allocated = resp.GetInstructions(), resp.GetAllocated()
	return answered, believe(resp, limits.ResultBytes, reply)
}

// keyed returns the key of the call, which the process does not look for in the client's request, and
// a reference to what the call runs.
func (t *tenant) keyed(call *gateway.Call) (key, ref string) {
	if r, ok := call.Edition.(*cache.Release); ok {
		return call.KeyFrom(r.KeySource()), script.Ref{Name: r.Name, Version: r.Runs.Number}.String()
	}
	r := t.pool.cfg.Node.Table.Get(call.Script) // nil if it names a version
	if r == nil || r.Split == nil {
		return call.KeyFrom(""), call.Script
	}
	key = call.KeyFrom(r.KeySource())
	if runs := r.For(key); runs != r {
		return key, script.Ref{Name: r.Name, Version: runs.Runs.Number}.String()
	}
	return key, call.Script
}

// limits returns those of a script, by its reference: the widest of the release that is
// live and the one that is about to be, which the process may run already.
func (t *tenant) limits(ref string) script.Limits {
	name, _, versioned := strings.Cut(ref, "@")
	if versioned { // which has limits of its own
		return script.MaxLimits()
	}
	limits, found := script.Limits{}, false
	if r := t.pool.cfg.Node.Table.Get(name); r != nil {
		limits, found = r.Widest(), true
	}
	if last := t.last.Load(); last != nil {
		if next, ok := last.limits[name]; ok {
			limits.Timeout = max(limits.Timeout, next.Timeout)
			limits.ResultBytes = max(limits.ResultBytes, next.ResultBytes)
			found = true
		}
	}
	if !found {
		return script.MaxLimits()
	}
	return limits
}

// serves reports whether there is a process that has the change, and can be called.
func (s *state) serves(change int) bool {
	return s.process != nil && s.has >= change && s.process.reachable()
}

// process returns the one that serves, once it has the changes that are live by now.
func (t *tenant) process(ctx context.Context) (*process, error) {
	return t.processWith(ctx, t.state.Load().late)
}

// processWith returns the process that serves, once it has the change. It does not wait for
// later ones, which may come faster than the process takes them.
func (t *tenant) processWith(ctx context.Context, change int) (*process, error) {
	s := t.state.Load()
	if s.serves(change) {
		return s.process, nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		switch {
		case s.serves(change):
			return s.process, nil
		case s.refused != nil:
			return nil, s.refused
		}
		select {
		case <-s.changed:
			s = t.state.Load()
		case <-ctx.Done():
			return nil, &script.Error{
				Kind: script.Timeout, Err: context.Cause(ctx),
				Message: "the call's time ran out while the process of tenant " + t.name + " was being started, or made a change live",
			}
		case <-timer.C:
			if s.has < change { // which ends with the change, or with the process
				timer.Reset(patience)
				continue
			}
			return nil, script.Errorf(script.Unavailable, "tenant", "the process of tenant %s is being started, or makes a change live, which takes longer than %v: try again", t.name, patience)
		}
	}
}

// lost returns what a call fails with whose process did not answer.
func (t *tenant) lost(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return &script.Error{Kind: script.Timeout, Message: "the call was canceled", Err: context.Cause(ctx)}
	case ctx.Err() != nil:
		return &script.Error{Kind: script.Timeout, Message: "the call's time ran out", Err: context.Cause(ctx)}
	}
	if e, ok := errors.AsType[*script.Error](err); ok { // it was too large, or the process has no room or no answer
		return e
	}
	t.pool.metrics.lost.Inc()
	return &script.Error{
		Kind: script.Unavailable, Field: "tenant", Err: ErrEnded,
		Message: "the process of tenant " + t.name + " ended while it ran the call, and is being replaced: try again",
	}
}

// lostTrial returns what a test of a candidate fails with whose process has ended: whether
// the test is why, or may be, or not at all, since the agent ended it. That is known a
// moment later.
func (t *tenant) lostTrial(p *process, ref string, err error) error {
	if !errors.Is(err, ErrEnded) {
		return err
	}
	e := *script.AsError(err)
	e.Err = nil
	timer := time.NewTimer(unreachableFor + lastWords)
	defer timer.Stop()
	select {
	case <-p.end.known:
	case <-timer.C:
		return &e
	}
	if !p.end.why.blames(1) {
		return &e
	}
	name, _, _ := strings.Cut(ref, "@")
	others := maps.Clone(p.end.ran)
	delete(others, link.MarkTrial(name))
	if r := t.pool.cfg.Node.Table.Get(name); r != nil && r.Candidate != nil {
		delete(others, link.MarkSource(r.Candidate.Version.Digest))
	}
	if e.Err = ErrEnded; len(others) == 0 {
		e.Err = ErrEndedAlone
	}
	return &e
}
