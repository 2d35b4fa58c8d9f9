package tenancy

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
)

// Settled reports whether the registry has had settings of st since st was created, of
// whichever generation. Before that the operator publishes no script of the tenant: it would
// run without its bounds, and in the agent's own process. Afterwards it stays settled:
// a change that is not in the registry yet, or that is wrong, stops nobody's scripts.
func Settled(st *v1alpha1.ScriptTenant) bool {
	// Ready alone is not enough: it tells of the generation that there is now.
	return meta.IsStatusConditionTrue(st.Status.Conditions, v1alpha1.ConditionConfigured) ||
		meta.IsStatusConditionTrue(st.Status.Conditions, v1alpha1.ConditionReady)
}
