package webhook

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// refusal is what the API server says of an object with faults. It is like what it says
// of objects that are not of their schema, so that kubectl prints one fault a line; but
// without the values, which may be whole scripts.
func refusal(kind, name string, faults spec.Faults) error {
	if len(faults) == 0 {
		return nil
	}
	causes := make([]metav1.StatusCause, len(faults))
	for i, fault := range faults {
		causes[i] = metav1.StatusCause{Type: causeOf(fault.Kind), Field: fault.Field, Message: spec.Words(fault)}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusUnprocessableEntity,
		Reason:  metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("%s %q is invalid: %s", kind, name, faults.Error()),
		Details: &metav1.StatusDetails{Group: v1alpha1.GroupVersion.Group, Kind: kind, Name: name, Causes: causes},
	}}
}

func causeOf(kind script.Kind) metav1.CauseType {
	if kind == script.Denied {
		return metav1.CauseTypeForbidden
	}
	return metav1.CauseTypeFieldValueInvalid
}
