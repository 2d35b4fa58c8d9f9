package worker

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/calltrace"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
)

// tracingOf tells a process which calls on its own sockets it is to bring.
func tracingOf(t *calltrace.Tracer) *workerv1.CallTracing {
	if t == nil {
		return nil
	}
	sampling, rate, continues := t.Choice()
	return &workerv1.CallTracing{Parent: sampling.Parent, Ratio: sampling.Ratio, Rate: int32(min(rate, 1<<30)), Continues: continues} //nolint:gosec // it fits
}

// A call ended at most so long before the process says so, and took no longer.
const (
	maxTraceAge = time.Minute
	maxTraceFor = time.Hour
)

// traced reads a call that a process says to have ended; ok is false if that cannot be. What it says is
// about scripts of its own tenant, and a bounded text.
func (t *tenant) traced(m *workerv1.TracedCall, now time.Time) (c *calltrace.Call, ok bool) {
	c = &calltrace.Call{
		Asked: tracecontext.Text(m.GetAsked()), Version: m.GetVersion(), OnResponse: m.GetOnResponse(),
		Protocol: tracecontext.Text(m.GetProtocol()), Caller: tracecontext.Text(m.GetCaller()),
		Start: m.GetStart().AsTime(), Took: m.GetTook().AsDuration(), Instructions: m.GetInstructions(), Allocated: m.GetAllocated(),
	}
	ended := now.Sub(c.Start.Add(c.Took))
	if c.Took < 0 || c.Took > maxTraceFor || ended < -time.Second || ended > maxTraceAge {
		return nil, false
	}
	if m.GetScript() != "" {
		r := t.pool.cfg.Node.Table.Get(t.name + "/" + m.GetScript())
		if r == nil {
			return nil, false
		}
		c.Name = r.Name
	}
	if e := wire.ToError(m.GetError()); e != nil {
		c.Err = believed(e)
		c.Kind = c.Err.Kind
	}
	c.Digest, _ = wire.ToDigest(m.GetDigest())
	if text := m.GetTraceparent(); text != "" {
		if c.Trace, ok = tracecontext.Parse(text); !ok {
			return nil, false
		}
		if sampling, _, _ := t.pool.cfg.Traces.Choice(); !sampling.Sampled(c.Trace) {
			return nil, false
		}
	}
	return c, true
}
