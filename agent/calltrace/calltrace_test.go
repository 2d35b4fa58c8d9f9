package calltrace_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/calltrace"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	sampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	not     = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

// world is a Tracer that samples as the caller says, and what it has made.
type world struct {
	*calltrace.Tracer
	spans   *tracetest.SpanRecorder
	dropped int
}

func newWorld(rate int, roots bool) *world {
	w := &world{spans: tracetest.NewSpanRecorder()}
	sampling := tracecontext.Sampling{Parent: true}
	if roots {
		sampling.Ratio = 1
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans), sdktrace.WithSampler(sdktrace.AlwaysSample()))
	w.Tracer = calltrace.New(calltrace.Config{
		Tracer: provider.Tracer("test"), Rate: rate, Dropped: func(n uint64) { w.dropped += int(n) }, Continue: true, Sampling: sampling,
	})
	return w
}

var edge = script.Name{Tenant: "acme", Script: "edge"}

func ended(name script.Name, traceparent string) *execute.Ended {
	return &execute.Ended{
		Call:    &gateway.Call{Script: name.String(), Traceparent: traceparent, Origin: gateway.Origin{Protocol: "resp", Caller: "uid 7"}},
		Reply:   &gateway.Reply{Version: 3, Digest: script.DigestOf([]byte("x"))},
		Release: &cache.Release{Name: name},
		Start:   time.Now(), Took: time.Millisecond, Used: engine.Used{Instructions: 42, Allocated: 4096},
	}
}

// end ends the call, and returns its span; nil if there is none.
func (w *world) end(t *testing.T, e *execute.Ended) sdktrace.ReadOnlySpan {
	t.Helper()
	before := len(w.spans.Ended())
	if err := w.Ended(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if all := w.spans.Ended(); len(all) > before {
		return all[len(all)-1]
	}
	return nil
}

func attributes(s sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

func TestACall(t *testing.T) {
	w := newWorld(100, false)
	e := ended(edge, sampled)
	s := w.end(t, e)
	if s == nil || s.Name() != "call acme/edge" || s.SpanKind() != trace.SpanKindServer || s.Status().Code != codes.Unset {
		t.Fatalf("the span is %v", s)
	}
	if tracecontext.Of(s.Parent()).String() != sampled || !s.StartTime().Equal(e.Start) || s.EndTime().Sub(s.StartTime()) != e.Took {
		t.Errorf("the span is below %v and took %v", s.Parent(), s.EndTime().Sub(s.StartTime()))
	}
	want := "map[scriptorium.allocated_bytes:4096 scriptorium.caller:uid 7 scriptorium.digest:" + script.DigestOf([]byte("x")).String() +
		" scriptorium.instructions:42 scriptorium.outcome:OK scriptorium.protocol:resp scriptorium.script:edge scriptorium.tenant:acme scriptorium.version:3]"
	if got := fmt.Sprint(attributes(s)); got != want {
		t.Errorf("its attributes are %s, want %s", got, want)
	}
}

// TestErrors: a span has the kind and the line, and not more of a script's text than is bounded.
func TestErrors(t *testing.T) {
	w := newWorld(100, false)
	e := ended(edge, sampled)
	e.Call.OnResponse = true
	e.Err = &script.Error{Kind: script.Script, Message: strings.Repeat("boom \xff", 1000), Line: 7, Column: 3, Field: "config"}
	e.Kind = script.Script
	s := w.end(t, e)
	got := attributes(s)
	if got["error.type"] != "SCRIPT" || got["scriptorium.outcome"] != "SCRIPT" || got["code.line.number"] != "7" || got["code.column.number"] != "3" ||
		got["scriptorium.error.field"] != "config" || got["scriptorium.on_response"] != "true" {
		t.Errorf("its attributes are %v", got)
	}
	if text := s.Status().Description; s.Status().Code != codes.Error || len(text) > 256 || !strings.HasPrefix(text, "boom boom") {
		t.Errorf("its status is %v with %d bytes", s.Status().Code, len(text))
	}
	// A script that is not there has the name that the caller asked for, cut.
	e = ended(script.Name{Tenant: strings.Repeat("x", 1000), Script: "y"}, sampled)
	e.Release, e.Reply.Version, e.Kind = nil, 0, script.NotFound
	e.Err = script.Errorf(script.NotFound, "script", "no such script")
	s = w.end(t, e)
	if got := attributes(s); s.Name() != "call" || len(got["scriptorium.asked"]) != 256 || got["scriptorium.outcome"] != "NOTFOUND" || got["scriptorium.version"] != "" {
		t.Errorf("%s has %v", s.Name(), got)
	}
}

// TestWhatIsRecorded: the caller decides, and what is no trace context counts as none.
func TestWhatIsRecorded(t *testing.T) {
	for _, tt := range []struct {
		traceparent string
		roots, want bool
	}{
		{sampled, false, true},
		{not, true, false},
		{"", false, false},
		{"", true, true},
		{"garbage", false, false},
		{strings.ToUpper(sampled), false, false},
		{strings.Repeat("0", 1<<20), true, true},
	} {
		w := newWorld(100, tt.roots)
		s := w.end(t, ended(edge, tt.traceparent))
		if (s != nil) != tt.want {
			t.Errorf("%.60q: there is a span: %t, want %t", tt.traceparent, s != nil, tt.want)
		}
		if s != nil && tt.traceparent != sampled && s.Parent().IsValid() {
			t.Errorf("%.60q: the span is below %v", tt.traceparent, s.Parent())
		}
	}
}

// TestAFlood: a caller that has each call recorded gets a bounded number of spans, and leaves half of
// them to others. Calls that began long before others make no room for more.
func TestAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(20, false)
		flood := func(name script.Name) {
			for i := range 1000 {
				e := ended(name, sampled)
				if i%2 == 0 {
					e.Took = time.Minute
					e.Start = e.Start.Add(-e.Took)
				}
				w.end(t, e)
			}
		}
		flood(edge)
		if n := len(w.spans.Ended()); n != 10 || w.dropped != 990 {
			t.Errorf("one tenant has %d spans, and %d are dropped", n, w.dropped)
		}
		for i := range 100 {
			flood(script.Name{Tenant: fmt.Sprint("other-", i), Script: "x"})
		}
		if n := len(w.spans.Ended()); n != 20 || w.dropped != 101_000-20 {
			t.Errorf("all have %d spans, and %d are dropped", n, w.dropped)
		}
		<-time.After(time.Second)
		flood(edge)
		if n := len(w.spans.Ended()); n != 30 {
			t.Errorf("a second later there are %d spans, want 30", n)
		}
	})
}

// TestTheFirstCall: the first call after a change that is traced belongs to its trace, unless the caller has
// one; and each is linked with it.
func TestTheFirstCall(t *testing.T) {
	change, _ := tracecontext.Parse("00-11111111111111111111111111111111-2222222222222222-01")
	activated := func(w *world, version uint64) {
		w.Activated(script.Object{Release: &script.Release{Name: edge, Active: script.Version{Number: version}}}, change.Remote())
	}
	w := newWorld(100, false)
	if s := w.end(t, ended(edge, "")); s != nil {
		t.Fatal("a call without a trace has a span")
	}
	activated(w, 3)
	if s := w.end(t, ended(script.Name{Tenant: "acme", Script: "other"}, "")); s != nil {
		t.Error("another script has the first call")
	}
	if s := w.end(t, ended(edge, not)); s != nil {
		t.Error("a call has a span whose caller wants none")
	}
	s := w.end(t, ended(edge, ""))
	if s == nil || tracecontext.Of(s.Parent()) != change || len(s.Links()) != 1 || tracecontext.Of(s.Links()[0].SpanContext) != change {
		t.Fatalf("the first call's span is %v", s)
	}
	if s := w.end(t, ended(edge, "")); s != nil {
		t.Error("the second call has a span")
	}
	s = w.end(t, ended(edge, sampled))
	if s == nil || tracecontext.Of(s.Parent()).String() != sampled || len(s.Links()) != 1 {
		t.Errorf("a call of a caller with a trace has the span %v", s)
	}
	// A call of another version than the change is about is not linked, nor one that comes late.
	activated(w, 4)
	if s := w.end(t, ended(edge, "")); s != nil {
		t.Error("a call of the version before belongs to the change")
	}
	late := ended(edge, "")
	late.Reply.Version, late.Start = 4, time.Now().Add(time.Hour)
	if s := w.end(t, late); s != nil {
		t.Error("a call belongs to a change of an hour ago")
	}
	// However many changes there are, the memory is bounded.
	for i := range 5000 {
		w.Activated(script.Object{Release: &script.Release{Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Active: script.Version{Number: 3}}}, change.Remote())
	}
	found := 0
	for i := range 5000 {
		if w.end(t, ended(script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, "")) != nil {
			found++
		}
	}
	if found+w.dropped > 1024 || found+w.dropped < 1000 {
		t.Errorf("%d changes of 5000 are known", found+w.dropped)
	}
}

func BenchmarkEnded(b *testing.B) {
	for name, traceparent := range map[string]string{"no context": "", "sampled out": not} {
		b.Run(name, func(b *testing.B) {
			w, e, ctx := newWorld(100, false), ended(edge, traceparent), context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Ended(ctx, e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestCostsNoMemory: a call that is not recorded.
func TestCostsNoMemory(t *testing.T) {
	w, ctx := newWorld(100, false), t.Context()
	change, _ := tracecontext.Parse(sampled)
	w.Activated(script.Object{Release: &script.Release{Name: script.Name{Tenant: "acme", Script: "never-called"}}}, change.Remote())
	for _, traceparent := range []string{"", not, "garbage"} {
		e := ended(edge, traceparent)
		if n := testing.AllocsPerRun(100, func() { _ = w.Ended(ctx, e) }); n != 0 {
			t.Errorf("%q: %v allocations", traceparent, n)
		}
	}
}
