package follow_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

func traceOf(n int) string { return fmt.Sprintf("00-%032x-%016x-01", n, n) }

// tracing runs a node whose activations are recorded, of one fleet of so many agents.
func tracing(t *testing.T, agents int32, do func(w *world, n *node, spans *tracetest.SpanRecorder)) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	simulateRuns(t, (*world).unsigned, func(ctx context.Context, w *world, n *node) {
		n.tracer, w.agents = provider.Tracer("test"), agents
		n.traced = func(o script.Object, _ trace.SpanContext) {
			if at := n.Revision(o.Key()); at >= o.Revision() {
				t.Errorf("%s is live at revision %d before its span is known: a call may have come", o.Key(), at)
			}
			n.told = append(n.told, o.Key())
		}
		_, stop := n.run(ctx, 1)
		pass(2 * time.Second) // until a beacon has come
		do(w, n, spans)
		stop()
	})
}

func attribute(s sdktrace.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// TestActivationsAreTraced: each transaction that has a trace gets a span in it, which says what went live
// and what could not, when it is tried again, too.
func TestActivationsAreTraced(t *testing.T) {
	tracing(t, 1, func(w *world, n *node, spans *tracetest.SpanRecorder) {
		w.commit(map[string]string{"a": "one"})
		pass(time.Second)
		w.trace = strings.TrimSuffix(traceOf(9), "1") + "0"
		w.commit(map[string]string{"a": "two"})
		pass(time.Second)
		w.trace = "garbage"
		w.commit(map[string]string{"a": "three"})
		pass(time.Second)
		if got := spans.Ended(); len(got) != 0 {
			t.Fatalf("changes that nobody traces have %d spans", len(got))
		}
		w.trace = traceOf(1)
		w.inline = true
		w.commit(map[string]string{"a": "four", "b": "five"})
		pass(time.Second)
		got := spans.Ended()
		if len(got) != 1 || got[0].Name() != "activate" || tracecontext.Of(got[0].Parent()).String() != traceOf(1) || got[0].Status().Code != codes.Unset ||
			attribute(got[0], "scriptorium.revision") != fmt.Sprint(w.head) || attribute(got[0], "scriptorium.objects") != "2" || attribute(got[0], "scriptorium.agent") != "n" {
			t.Fatalf("the spans are %v", got)
		}
		if told := fmt.Sprint(n.told); told != "[releases/acme/a releases/acme/b]" && told != "[releases/acme/b releases/acme/a]" {
			t.Errorf("what went live is %s", told)
		}

		n.told = nil
		w.commit(map[string]string{"a": "bad six", "b": "six"})
		pass(100 * time.Millisecond)
		if len(n.told) != 0 {
			t.Errorf("%v goes live together with what cannot", n.told)
		}
		w.large = true
		mend := w.hides("seven")
		w.commit(map[string]string{"a": "seven", "b": "six"})
		pass(10 * time.Second)
		if len(n.told) != 0 {
			t.Errorf("%v goes live at a retry together with what cannot be fetched", n.told)
		}
		mend()
		pass(time.Minute)
		if len(n.told) != 2 {
			t.Errorf("once it can be fetched, %v goes live", n.told)
		}
		w.large = false
		spans.Reset()

		// What cannot go live is an error, and a span of its own when it is tried again.
		w.trace = traceOf(2)
		w.set(faults{disk: 1})
		w.commit(map[string]string{"a": "six"})
		pass(100 * time.Millisecond)
		got = spans.Ended()
		if len(got) == 0 || got[0].Status().Code != codes.Error || attribute(got[0], "error.type") != "UNAVAILABLE" || attribute(got[0], "scriptorium.failed") != "1" {
			t.Fatalf("of a full disk the spans are %v", got)
		}
		w.set(faults{})
		pass(5 * time.Second)
		n.expect("with room on the disk again")
		got = spans.Ended()
		last := got[len(got)-1]
		if last.Status().Code != codes.Unset || attribute(last, "scriptorium.retry") != "true" || tracecontext.Of(last.Parent()).String() != traceOf(2) {
			t.Errorf("the retry's span is %v", last)
		}
	})
}

// TestTransactionsOfOneBatch: those that go live together are linked with the first.
func TestTransactionsOfOneBatch(t *testing.T) {
	tracing(t, 1, func(w *world, n *node, spans *tracetest.SpanRecorder) {
		blocked := make(chan struct{})
		n.mu.Lock()
		n.committing = func() { <-blocked }
		n.mu.Unlock()
		for i := 1; i <= 4; i++ {
			w.trace = traceOf(i)
			w.commit(map[string]string{fmt.Sprint("s", i): "x"})
		}
		pass(100 * time.Millisecond)
		n.mu.Lock()
		n.committing = nil
		n.mu.Unlock()
		close(blocked)
		pass(10 * time.Second)
		n.expect("after a batch")
		linked := map[trace.SpanID]int{}
		traces := map[string]bool{}
		for _, s := range spans.Ended() {
			traces[tracecontext.Of(s.Parent()).String()] = true
			for _, link := range s.Links() {
				linked[link.SpanContext.SpanID()]++
			}
		}
		if len(traces) != 4 || len(linked) == 0 {
			t.Errorf("%d traces, links with %v", len(traces), linked)
		}
	})
}

// TestFewOfALargeFleetTrace: about twenty agents, whichever trace it is, and the same ones each time.
func TestFewOfALargeFleetTrace(t *testing.T) {
	const agents, changes = 2000, 3
	chosen := [changes]map[string]bool{}
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	simulateRuns(t, (*world).unsigned, func(ctx context.Context, w *world, _ *node) {
		w.agents, w.inline = agents, true
		stops := make([]func(), 0, agents)
		for i := range agents {
			n := newNode(w, fmt.Sprint("node-", i))
			n.tracer = provider.Tracer("test")
			_, stop := n.run(ctx, uint64(i+1))
			stops = append(stops, stop)
		}
		pass(3 * time.Second)
		for i := range changes {
			w.trace = traceOf(i + 1)
			w.commit(map[string]string{"a": fmt.Sprint("text ", i)})
			pass(time.Second)
		}
		for _, stop := range stops {
			stop()
		}
	})
	for _, s := range spans.Ended() {
		i := tracecontext.Of(s.Parent()).TraceID[15] - 1
		if chosen[i] == nil {
			chosen[i] = map[string]bool{}
		}
		chosen[i][attribute(s, "scriptorium.agent")] = true
	}
	for i := range chosen {
		// Twenty are wanted; by chance there are fewer than 5 or more than 45 once in a million times. The
		// choice depends on nothing but the names, so this is decided once and for all.
		if n := len(chosen[i]); n < 5 || n > 45 {
			t.Errorf("change %d is traced by %d agents of %d", i, n, agents)
		}
	}
	same := 0
	for agent := range chosen[0] {
		if chosen[1][agent] {
			same++
		}
	}
	if same > len(chosen[0])/2 {
		t.Errorf("%d of %d agents trace two changes: it is always the same ones", same, len(chosen[0]))
	}
}
