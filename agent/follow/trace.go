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
	// tracedObjects of an activation have their keys in its span.
	tracedObjects = 10
	// tracedTransactions of one batch have a span.
	tracedTransactions = 32
)

// activations makes the spans of what goes live.
type activations struct {
	tracer trace.Tracer
	agent  string
	most   int          // agents that trace one activation
	agents atomic.Int32 // of the group, connected, as the last beacon said
	done   func(script.Object, trace.SpanContext)
}

func newActivations(cfg Config) *activations {
	t := &activations{tracer: cfg.Tracer, agent: cfg.Agent, most: cmp.Or(cfg.TracedAgents, DefaultTracedAgents), done: cfg.Traced}
	if t.tracer == nil {
		t.tracer = noop.Tracer{}
	}
	if t.done == nil {
		t.done = func(script.Object, trace.SpanContext) {}
	}
	return t
}

// chosen reports whether this agent is among those that trace the activation. Each agent decides by
// itself, and the same each time.
func (t *activations) chosen(id trace.TraceID) bool {
	agents := int(t.agents.Load())
	if agents <= t.most {
		return true
	}
	sum := sha256.Sum256(append(id[:], t.agent...))
	return float64(binary.BigEndian.Uint64(sum[:8])) < float64(t.most)/float64(agents)*math.MaxUint64
}

// tracedChange is what one transaction changed here.
type tracedChange struct {
	trace   tracecontext.Context
	objects []*candidate
}

// byTransaction returns the candidates by the transactions that this agent traces, in their order.
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

// tell makes a span of each transaction of a job that has ended. Those of one batch went live together:
// each is linked with the first.
func (t *activations) tell(kind jobKind, began, ready time.Time, candidates []*candidate) {
	live := time.Now()
	var first trace.SpanContext
	list := t.byTransaction(candidates)
	for _, a := range list {
		options := []trace.SpanStartOption{trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindConsumer)}
		if first.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: first}))
		}
		_, span := t.tracer.Start(tracecontext.With(context.Background(), a.trace), "activate", options...)
		if !span.IsRecording() {
			continue
		}
		if !first.IsValid() {
			first = span.SpanContext()
		}
		span.SetAttributes(
			attribute.String("scriptorium.agent", t.agent), attribute.Bool("scriptorium.retry", kind == jobRetry),
			attribute.Int("scriptorium.objects", len(a.objects)), attribute.Int("scriptorium.batch.transactions", len(list)),
		)
		span.AddEvent("fetched and compiled", trace.WithTimestamp(ready))
		a.describe(span)
		for _, c := range a.objects {
			if c.err == nil {
				t.done(c.Object, span.SpanContext())
			}
		}
		span.End(trace.WithTimestamp(live))
	}
}

// describe says what the transaction changed, and what could not go live.
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
