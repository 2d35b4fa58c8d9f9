package local_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/tracing/tracetest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestCallsOfAWalledTenantAreTraced: its process has no network, so the agent makes the spans: of calls
// that it forwards, and of those on the tenant's own sockets.
func TestCallsOfAWalledTenantAreTraced(t *testing.T) {
	collector := tracetest.Start(t, "grpc")
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	settings := &script.TenantSettings{Isolation: script.IsolationProcess, MemoryBytes: 128 << 20}
	if _, _, err := s.registry.SetTenant(ctx, "acme", settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	s.publishTraced(t, name, "function handle(fail)\n  if fail then\n    error('boom')\n  end\n  return 1\nend")
	socket := filepath.Join(s.AgentDir(1), "tenants", "acme", "grpc.sock")
	own, err := agentclient.New("unix:" + socket)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if !eventually(ctx, func() bool { _, err := os.Stat(socket); return err == nil }) {
		t.Fatalf("%s is not there", socket)
	}
	if !eventually(ctx, func() bool { _, err := own.Call(ctx, name.String()); return err == nil }) {
		t.Fatalf("nothing is answered over %s", socket)
	}
	for i, client := range []*agentclient.Client{s.agents[0], own} {
		for j, fails := range []bool{false, true} {
			kept, skipped := callerOf(0x2000+10*i+j, true), callerOf(0x3000+10*i+j, false)
			for _, caller := range []string{kept.String(), skipped.String(), ""} {
				_, err := client.Call(agentclient.ContextWithTraceparent(ctx, caller), name.String(), fails)
				if fails != (script.KindOf(err) == script.Script) {
					t.Fatalf("the call ended with %v", err)
				}
			}
			span := collector.AwaitSpan(t, "call acme/route", func(span tracetest.Span) bool { return span.Trace() == kept.TraceID.String() })
			outcome, line := "OK", ""
			if fails {
				outcome, line = "SCRIPT", "3"
			}
			if span.Parent() != kept.SpanID.String() || span.Attribute("scriptorium.outcome") != outcome || span.Attribute("code.line.number") != line ||
				span.Attribute("scriptorium.instructions") == "0" || span.Attribute("scriptorium.version") != "1" || span.Instance != "agent-1" {
				t.Errorf("%v ended with %s in line %s after %s instructions of version %s", span, span.Attribute("scriptorium.outcome"),
					span.Attribute("code.line.number"), span.Attribute("scriptorium.instructions"), span.Attribute("scriptorium.version"))
			}
		}
	}
	if n := len(collector.Spans()); n != 4 {
		t.Errorf("there are %d spans, want those of 4 calls: %v", n, collector.Spans())
	}
}
