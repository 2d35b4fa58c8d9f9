package controller

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// traced is the trace that a generation of the spec belongs to.
type traced struct {
	edit       spec.Edit
	generation int64
	attempts   int
	span       trace.SpanContext // of the last change in the registry
	done       time.Time         // when it ended
}

// of takes note of the spec's generation.
func (t *traced) of(ls *v1alpha1.LuaScript) {
	t.edit.See(ls, ls.Status.ObservedGeneration)
	if t.generation != ls.Generation {
		*t = traced{edit: t.edit, generation: ls.Generation}
	}
}

// begin begins the span of a change in the registry. That of a spec begins when the spec arrived, and
// continues the trace in its annotation. What puts right what others changed is a trace of its own.
func (x *reconciliation) trace(ctx context.Context, action Kind, restores bool) (_ context.Context, end func(error)) {
	t := &x.m.trace
	options := []trace.SpanStartOption{trace.WithAttributes(
		attribute.String("k8s.namespace.name", x.ls.Namespace), attribute.String("scriptorium.kind", string(x.kind)),
		attribute.String("scriptorium.tenant", tracecontext.Text(x.name.Tenant)), attribute.String("scriptorium.script", x.name.Script),
		attribute.Int64("scriptorium.generation", x.ls.Generation), attribute.String("scriptorium.action", string(action)),
	)}
	if x.kind == kinds.LuaScript { // dashboards from before there was another kind look for it
		options = append(options, trace.WithAttributes(attribute.String("scriptorium.luascript", x.ls.Name)))
	}
	switch {
	case restores:
		options = append(options, trace.WithNewRoot(), trace.WithAttributes(attribute.Bool("scriptorium.restores", true)))
	case t.attempts == 0 && !x.m.seenAt.IsZero():
		options = append(options, trace.WithTimestamp(x.m.seenAt))
	}
	t.attempts++
	ctx, span := x.tracer.Start(tracecontext.With(ctx, t.edit.Caller()), "reconcile "+string(x.kind), options...)
	return ctx, func(err error) {
		t.span, t.done = span.SpanContext(), time.Now()
		if err != nil {
			span.SetStatus(codes.Error, tracecontext.Text(err.Error()))
			span.SetAttributes(attribute.String("error.type", string(script.KindOf(err))))
		}
		span.End()
	}
}

// traceConvergence makes the span of the time from the change until the status says that all agents run
// it.
func (x *reconciliation) traceConvergence() {
	t := &x.m.trace
	if t.generation != x.ls.Generation || !t.span.IsValid() {
		return
	}
	_, span := x.tracer.Start(trace.ContextWithSpanContext(context.Background(), t.span), "converge", trace.WithTimestamp(t.done))
	if s := x.facts.agent; s != nil {
		span.SetAttributes(attribute.Int("scriptorium.agents", s.Active), attribute.String("scriptorium.slowest_agent", tracecontext.Text(s.SlowestAgent)))
	}
	span.End()
}
