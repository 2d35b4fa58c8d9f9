package suite_test

import (
	"fmt"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/internal/operatord"
	"github.com/scriptorium-dev/scriptorium/internal/tracing"
	"github.com/scriptorium-dev/scriptorium/internal/tracing/tracetest"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
)

// TestOneTraceFromTheLuaScriptToTheCall: what kubectl apply begins, with an annotation or without, has in
// one trace the reconciliation, the registry's request and transaction, the event, the agent's activation,
// the convergence, and the first call.
func TestOneTraceFromTheLuaScriptToTheCall(t *testing.T) {
	collector := tracetest.Start(t, "grpc")
	w := start(t, 1, func(cfg *operatord.Config) {
		traces, err := tracing.Open(t.Context(), tracing.Config{Service: "scriptorium-operator", Log: cfg.Log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(traces.Close)
		cfg.Tracing = traces
	})
	const annotated = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	ls := w.luaScript("route", 1)
	ls.Annotations = map[string]string{v1alpha1.TraceparentAnnotation: annotated}
	if err := env.Client.Create(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	ls = w.converged(ls)
	w.answers("route", 1)
	chain(t, collector, "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1)

	// An edit that says nothing of a trace begins another one, although the annotation is still there.
	ls = w.converged(w.change(ls, func(s *spec) { s.Source = source(2) }))
	edit := collector.AwaitSpan(t, "reconcile LuaScript", func(s tracetest.Span) bool { return s.Attribute("scriptorium.generation") == fmt.Sprint(ls.Generation) })
	if edit.Trace() == "4bf92f3577b34da6a3ce929d0e0e4736" || edit.Parent() != "" {
		t.Errorf("%v is not the root of a trace of its own", edit)
	}
	// The caller's own trace wins over that of the change, which the call is linked with.
	if _, err := w.agents[0].Call(agentclient.ContextWithTraceparent(t.Context(), "00-11111111111111111111111111111111-2222222222222222-01"), "acme/route"); err != nil {
		t.Fatal(err)
	}
	activation := collector.AwaitSpan(t, "activate", func(s tracetest.Span) bool { return s.Trace() == edit.Trace() })
	call := collector.AwaitSpan(t, "call acme/route", func(s tracetest.Span) bool { return s.Trace() == "11111111111111111111111111111111" })
	if links := call.Links(); call.Parent() != "2222222222222222" || len(links) != 1 || links[0] != activation.ID() {
		t.Errorf("%v is linked with %v, want %v", call, links, activation)
	}
}

// chain checks that the spans of a change follow one another.
func chain(t *testing.T, collector *tracetest.Collector, trace, root string, version int) {
	t.Helper()
	parent := root
	for _, want := range []struct{ name, service string }{
		{"reconcile LuaScript", "scriptorium-operator"},
		{"scriptorium.registry.v1.Registry/Publish", "scriptorium-registry"},
		{"etcd transaction", "scriptorium-registry"},
		{"activate", "scriptorium-agent"},
		{"call acme/route", "scriptorium-agent"},
	} {
		span := collector.AwaitSpan(t, want.name, func(s tracetest.Span) bool { return s.Trace() == trace && s.Parent() == parent })
		if span.Service != want.service {
			t.Errorf("%v is of %s, want %s", span, span.Service, want.service)
		}
		switch want.name {
		case "reconcile LuaScript":
			if span.Attribute("scriptorium.luascript") != "route" || span.Attribute("scriptorium.action") != "publish" {
				t.Errorf("%v is about %s", span, span.Attribute("scriptorium.luascript"))
			}
			converged := collector.AwaitSpan(t, "converge", func(s tracetest.Span) bool { return s.Trace() == trace })
			if converged.Parent() != span.ID() || converged.Attribute("scriptorium.agents") != "1" {
				t.Errorf("%v does not follow %v", converged, span)
			}
		case "etcd transaction":
			collector.AwaitSpan(t, "publish event", func(s tracetest.Span) bool { return s.Trace() == trace && s.Parent() == span.ID() })
		case "call acme/route":
			if got := span.Attribute("scriptorium.version"); got != fmt.Sprint(version) {
				t.Errorf("version %s was called, want %d", got, version)
			}
		}
		parent = span.ID()
	}
}
