package spec

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
)

// Edit says which trace the latest edit of an object belongs to; the zero Edit is for an object that this
// process has not seen.
type Edit struct {
	generation int64
	annotation string // that the object had at the edit
	caller     tracecontext.Context
}

// See takes note of the object's generation; observed is the generation in its status. An annotation that
// an edit did not change belongs to an earlier edit. So does the annotation of an edit that an earlier
// operator process has observed.
func (e *Edit) See(o metav1.Object, observed int64) {
	if e.generation == o.GetGeneration() {
		return
	}
	next := Edit{generation: o.GetGeneration(), annotation: o.GetAnnotations()[v1alpha1.TraceparentAnnotation]}
	if next.annotation != e.annotation && next.generation != observed {
		next.caller, _ = tracecontext.Parse(next.annotation)
	}
	*e = next
}

// Caller returns the trace; zero if the edit belongs to none.
func (e *Edit) Caller() tracecontext.Context { return e.caller }
