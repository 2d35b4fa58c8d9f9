package follow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// DefaultTracedAgents is how many agents trace an activation, unless configured.
const DefaultTracedAgents = 20

const (
	// tracedObjects is the maximum number of objects whose keys are in the span of an activation.
	tracedObjects = 10
	// tracedTransactions is the maximum number of transactions of a batch that have a span.
	tracedTransactions = 32
)

// activations makes the spans of activations.
type activations struct {
	tracer trace.Tracer
	agent  string
	most   int          // maximum number of agents that trace an activation
	agents atomic.Int32 // connected agents of the group, from the last beacon
	traced func(script.Object, trace.SpanContext)
}

func newActivations(cfg Config) *activations {
	t := &activations{tracer: cfg.Tracer, agent: cfg.Agent, most: cmp.Or(cfg.TracedAgents, DefaultTracedAgents), traced: cfg.Traced}
	if t.tracer == nil {
		t.tracer = noop.Tracer{}
	}
	if t.traced == nil {
		t.traced = func(script.Object, trace.SpanContext) {}
	}
	return t
}

// chosen reports whether this agent traces the activation. It depends only on the trace id, the agent's name and the
// number of agents.
func (t *activations) chosen(id trace.TraceID) bool {
	agents := int(t.agents.Load())
	if agents <= t.most {
		return true
	}
	sum := sha256.Sum256(append(id[:], t.agent...))
	return float64(binary.BigEndian.Uint64(sum[:8])) < float64(t.most)/float64(agents)*math.MaxUint64
}

// tracedChange has the candidates of one transaction.
type tracedChange struct {
	trace   tracecontext.Context
	objects []*candidate
	span    trace.Span
}

// byTransaction groups the candidates by transaction, for the transactions that this agent traces.
func (t *activations) byTransaction(candidates []*candidate) (list []*tracedChange) {
	for _, c := range candidates {
		if !c.Trace.Valid() {
			continue
		}
		var of *tracedChange
		for _, a := range list {
			if a.trace == c.Trace {
				of = a
				break
			}
		}
		if of == nil {
			if len(list) == tracedTransactions || !t.chosen(c.Trace.TraceID) {
				continue
			}
			of = &tracedChange{trace: c.Trace}
			list = append(list, of)
		}
		of.objects = append(of.objects, c)
	}
	return list
}

// begin makes a span for each transaction of a job whose objects are about to become live. Calls can come as soon as they
// are, so what links calls with changes knows the spans before. A job activates its transactions together, so each span has
// a link to the first one. The caller must call end.
func (t *activations) begin(kind jobKind, began, ready time.Time, candidates []*candidate) (list []*tracedChange) {
	var first trace.SpanContext
	all := t.byTransaction(candidates)
	for _, a := range all {
		options := []trace.SpanStartOption{trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindConsumer)}
		if first.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: first}))
		}
		_, a.span = t.tracer.Start(tracecontext.With(context.Background(), a.trace), "activate", options...)
		if !a.span.IsRecording() {
			continue
		}
		if !first.IsValid() {
			first = a.span.SpanContext()
		}
		a.span.SetAttributes(
			attribute.String("scriptorium.agent", t.agent), attribute.Bool("scriptorium.retry", kind == jobRetry),
			attribute.Int("scriptorium.objects", len(a.objects)), attribute.Int("scriptorium.batch.transactions", len(all)),
		)
		a.span.AddEvent("fetched and compiled", trace.WithTimestamp(ready))
		for _, c := range a.objects {
			if c.err == nil {
				t.traced(c.Object, a.span.SpanContext())
			}
		}
		list = append(list, a)
	}
	return list
}

// end ends the spans of a job that has finished.
func (t *activations) end(list []*tracedChange) {
	live := time.Now()
	for _, a := range list {
		a.describe(a.span)
		a.span.End(trace.WithTimestamp(live))
	}
}

// describe sets the attributes of the span: the changed objects, and those that could not be activated.
func (a *tracedChange) describe(span trace.Span) {
	keys, failed := make([]string, 0, min(len(a.objects), tracedObjects)), 0
	var revision script.Revision
	for _, c := range a.objects {
		revision = max(revision, c.Object.Revision())
		if len(keys) < tracedObjects {
			keys = append(keys, tracecontext.Text(c.Key))
		}
		if c.err == nil {
			continue
		}
		if failed++; failed == 1 {
			span.SetStatus(codes.Error, tracecontext.Text(c.err.Error()))
			span.SetAttributes(attribute.String("error.type", string(script.KindOf(c.err))))
		}
	}
	span.SetAttributes(attribute.Int64("scriptorium.revision", int64(revision)), attribute.StringSlice("scriptorium.keys", keys), attribute.Int("scriptorium.failed", failed))
}
