package worker

import (
	"context"
	"errors"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
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
// just now.
func (t *tenant) execute(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
	if t.calls.Add(1) > maxForwarded {
		t.calls.Add(-1)
		return script.Errorf(script.Overloaded, "tenant", "%d calls of tenant %s are on their way to its process, the most that this agent takes: try again", maxForwarded, t.name)
	}
	defer t.calls.Add(-1)
	p, err := t.process(ctx)
	for err == nil && !p.enter() { // another one has taken its place meanwhile
		p, err = t.process(ctx)
	}
	if err != nil {
		return err
	}
	defer p.leave()
	resp, err := p.caller.call(ctx, &workerv1.ExecuteRequest{Script: call.Script, Args: call.Args, Traceparent: call.Traceparent})
	if err != nil {
		return t.lost(ctx, err)
	}
	reply.Version = resp.GetVersion()
	if len(resp.GetDigest()) > 0 {
		if reply.Digest, err = wire.ToDigest(resp.GetDigest()); err != nil {
			return script.Errorf(script.Internal, "", "the process of tenant %s answered nonsense: %w", t.name, err)
		}
	}
	if e := wire.ToError(resp.GetError()); e != nil {
		return e
	}
	for _, result := range resp.GetResults() {
		if err := reply.Append(func(dst []byte) ([]byte, error) { return append(dst, result...), nil }); err != nil {
			return err
		}
	}
	return nil
}

// process returns the one that serves.
func (t *tenant) process(ctx context.Context) (*process, error) {
	s := t.state.Load()
	if s.process != nil && s.process.reachable() {
		return s.process, nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		switch {
		case s.process != nil && s.process.reachable():
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
				Message: "the call's time ran out while the process of tenant " + t.name + " was being started",
			}
		case <-timer.C:
			return nil, script.Errorf(script.Unavailable, "tenant", "the process of tenant %s is being started, which takes longer than %v: try again", t.name, patience)
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
	if script.KindOf(err) == script.Limit { // it was too large to be sent
		return err
	}
	t.pool.metrics.lost.Inc()
	return script.Errorf(script.Unavailable, "tenant", "the process of tenant %s ended while it ran the call, and is being replaced: try again", t.name)
}
