package tenancy

import (
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
)

// TestTraceOfTheAnnotation: the edit that an annotation came with is in its trace. What comes later is not.
func TestTraceOfTheAnnotation(t *testing.T) {
	const caller = "00-11111111111111111111111111111111-2222222222222222-01"
	w, spans := newWorld(t, v1alpha1.ScriptTenantSpec{}), tracetest.NewSpanRecorder()
	w.r.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	st := w.stored()
	st.Annotations = map[string]string{v1alpha1.TraceparentAnnotation: caller}
	if err := w.api.Update(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	check := func(when, want string) {
		t.Helper()
		w.passes()
		got := spans.Ended()
		if len(got) != 1 || tracecontext.Of(got[0].Parent()).String() != want {
			t.Errorf("%s: the spans are %v, want one below %q", when, got, want)
		}
		spans.Reset()
	}
	check("the first edit", caller)
	w.write(nil, "eve")
	check("others took the settings away", "")
	w.edit(v1alpha1.ScriptTenantSpec{Namespaces: []string{"shop"}, Concurrency: new(int32(7))})
	check("an edit that keeps the annotation", "")
}
