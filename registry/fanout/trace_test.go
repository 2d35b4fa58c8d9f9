package fanout_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
)

// TestTracedEvents: an event carries the trace of its transaction, which is signed, and the same from all
// replicas. The message's header has that of the span of publishing.
func TestTracedEvents(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	l := listen(t, n.URL())
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	f := connectWith(t, fanout.Config{URLs: []string{n.URL()}, Tracer: provider.Tracer("test")})
	eventually(t, "connected", f.Connected)

	plain := event(6, nil)
	if err := f.PublishEvent(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	msg := l.take()
	if len(msg.Header) != 0 || len(spans.Ended()) != 0 {
		t.Errorf("an event without a trace has the header %v and %d spans", msg.Header, len(spans.Ended()))
	}

	traced := event(7, nil)
	traced.Trace, _ = tracecontext.Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if err := f.PublishEvent(t.Context(), traced); err != nil {
		t.Fatal(err)
	}
	msg = l.take()
	ended := spans.Ended()
	if len(ended) != 1 || tracecontext.Of(ended[0].Parent()) != traced.Trace || ended[0].Status().Code != codes.Unset {
		t.Fatalf("the spans are %v", ended)
	}
	if got, want := msg.Header.Get("traceparent"), tracecontext.Of(ended[0].SpanContext()).String(); got != want {
		t.Errorf("the header has %q, want %q", got, want)
	}
	var e eventv1.Event
	if _, err := keyring.Open(msg.Data, &e); err != nil || e.GetTraceparent() != traced.Trace.String() {
		t.Errorf("the event has %q, %v", e.GetTraceparent(), err)
	}
	again, err := fanout.SealEvent(sealer, traced)
	if err != nil || string(again) != string(msg.Data) {
		t.Errorf("another replica sends another event: %v", err)
	}

	// An agent that does not know the field verifies the same bytes, and ignores it.
	older := &eventv1.Event{Fleet: "F1", Group: "all", Revision: 7, PreviousRevision: 6, CommittedAt: timestamppb.New(traced.CommittedAt), Entries: traced.Entries, Sources: e.GetSources()}
	e.ProtoReflect().Clear(field(t, &e, "traceparent"))
	if !proto.Equal(&e, older) {
		t.Errorf("but for the trace, the event is %v", &e)
	}

	f.Close()
	if err := f.PublishEvent(t.Context(), traced); err == nil || spans.Ended()[1].Status().Code != codes.Error {
		t.Errorf("an event that does not go out: %v", err)
	}
}

func field(t *testing.T, m proto.Message, name protoreflect.Name) protoreflect.FieldDescriptor {
	t.Helper()
	return m.ProtoReflect().Descriptor().Fields().ByName(name)
}

// take returns the next message.
func (l *listener) take() *nats.Msg {
	l.t.Helper()
	msg, err := l.sub.NextMsg(patience)
	if err != nil {
		l.t.Fatal(err)
	}
	return msg
}
