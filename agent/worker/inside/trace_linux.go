package inside

import (
	"context"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/agent/calltrace"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
)

// Bounds of the calls that wait for the agent to make their spans, and that are sent together.
const (
	maxTraced      = 256
	tracedTogether = 64
)

// traces returns the observer of calls that are traced: none if the agent traces none.
func (s *service) traces() []execute.Observer {
	cfg := s.assignment.GetTracing()
	if cfg == nil {
		return nil
	}
	t := &tracer{calls: make(chan *workerv1.TracedCall, maxTraced)}
	t.tracer = calltrace.New(calltrace.Config{
		Emit: t.emit, Sampling: tracecontext.Sampling{Parent: cfg.GetParent(), Ratio: cfg.GetRatio()}, Rate: int(cfg.GetRate()), Continue: cfg.GetContinues(),
		Dropped: func(n uint64) { t.dropped.Add(n) },
	})
	go t.run(context.Background(), s.home)
	return []execute.Observer{t}
}

// tracer keeps the calls of the process's own sockets whose spans the agent makes: the process has no
// network. The agent sees those that it forwards.
type tracer struct {
	tracer  *calltrace.Tracer
	calls   chan *workerv1.TracedCall
	dropped atomic.Uint64 // since the last report to the agent
}

type usedKey struct{}

// usedBy returns the context of a call that the agent forwarded, which fills used.
func usedBy(ctx context.Context, used *engine.Used) context.Context {
	return context.WithValue(ctx, usedKey{}, used)
}

// Ended implements execute.Observer.
func (t *tracer) Ended(ctx context.Context, e *execute.Ended) error {
	if used, ok := ctx.Value(usedKey{}).(*engine.Used); ok {
		*used = e.Used
		return nil
	}
	return t.tracer.Ended(ctx, e)
}

// emit queues a call, or drops it.
func (t *tracer) emit(c *calltrace.Call) {
	m := &workerv1.TracedCall{
		Script: c.Name.Script, Asked: c.Asked, Version: c.Version, Digest: wire.FromDigest(c.Digest), OnResponse: c.OnResponse,
		Protocol: c.Protocol, Caller: c.Caller, Start: timestamppb.New(c.Start), Took: durationpb.New(c.Took),
		Instructions: c.Instructions, Allocated: c.Allocated, Traceparent: c.Trace.String(),
	}
	if e := c.Err; e != nil {
		cut := *e
		cut.Kind, cut.Message, cut.Field = c.Kind, tracecontext.Text(e.Message), tracecontext.Text(e.Field)
		m.Error = wire.FromError(&cut)
	}
	select {
	case t.calls <- m:
	default:
		t.dropped.Add(1)
	}
}

// run sends calls, as many together as there are, until ctx is done. Those that the agent does not take
// are lost, and counted.
func (t *tracer) run(ctx context.Context, to home) {
	for {
		var req workerv1.TraceRequest
		select {
		case call := <-t.calls:
			req.Calls = append(req.Calls, call)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(req.GetCalls()) < tracedTogether; {
			select {
			case call := <-t.calls:
				req.Calls = append(req.Calls, call)
			default:
				more = false
			}
		}
		req.Dropped = t.dropped.Swap(0)
		bounded, cancel := context.WithTimeout(ctx, countPatience)
		if _, err := to.client.Trace(bounded, &req); err != nil {
			t.dropped.Add(req.GetDropped() + uint64(len(req.GetCalls())))
		}
		cancel()
	}
}
