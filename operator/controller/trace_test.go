package controller

import (
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
)

// TestAnAnnotationThatStays belongs to the edit that it came with, also if an operator before this one has
// observed that.
func TestAnAnnotationThatStays(t *testing.T) {
	const (
		first  = "00-11111111111111111111111111111111-2222222222222222-01"
		second = "00-33333333333333333333333333333333-4444444444444444-01"
	)
	synctest.Test(t, func(t *testing.T) {
		w, spans := newWorld(t, interceptor.Funcs{}), tracetest.NewSpanRecorder()
		restart := func() {
			w.restart(0)
			w.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
		}
		edit := func(annotation, source string) {
			ls := w.reconcile()
			ls.Annotations = map[string]string{v1alpha1.TraceparentAnnotation: annotation}
			ls.Spec.Source = &source
			ls.Generation++
			w.update(ls)
		}
		w.ready()
		restart()
		edit(first, "one")
		check := func(when, want string) {
			t.Helper()
			w.pass(time.Second)
			got := "none"
			for _, s := range spans.Ended() {
				if s.Name() == "reconcile LuaScript" {
					got = tracecontext.Of(s.Parent()).String()
				}
			}
			if got != want {
				t.Errorf("%s: the parent is %q, want %q", when, got, want)
			}
			spans.Reset()
		}
		check("an edit", first)
		restart()
		w.pass(time.Second)
		edit(first, "two")
		check("another edit, after a restart", "")
		edit(second, "three")
		check("an edit with another annotation", second)
		restart()
		edit(first, "four")
		check("an edit that this operator is the first to see", first)
	})
}
