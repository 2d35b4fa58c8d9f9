package webhook

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// scriptTenants validates ScriptTenants.
type scriptTenants struct{}

// ValidateCreate validates a new ScriptTenant.
func (v *scriptTenants) ValidateCreate(_ context.Context, t *v1alpha1.ScriptTenant) (admission.Warnings, error) {
	return v.validate(t)
}

// ValidateUpdate validates a ScriptTenant whose spec is another one now.
func (v *scriptTenants) ValidateUpdate(_ context.Context, before, t *v1alpha1.ScriptTenant) (admission.Warnings, error) {
	if !t.DeletionTimestamp.IsZero() || equality.Semantic.DeepEqual(before.Spec, t.Spec) {
		return nil, nil
	}
	return v.validate(t)
}

// ValidateDelete lets everything go.
func (*scriptTenants) ValidateDelete(context.Context, *v1alpha1.ScriptTenant) (admission.Warnings, error) {
	return nil, nil
}

func (*scriptTenants) validate(t *v1alpha1.ScriptTenant) (admission.Warnings, error) {
	_, err := spec.TenantSettings(t)
	faults, ok := spec.AllFaults(err)
	if !ok {
		return nil, err
	}
	if len(faults) > 0 {
		return nil, refusal("ScriptTenant", t.Name, faults)
	}
	return suspicious(&t.Spec), nil
}

// suspicious warns of what is allowed and may not be meant.
func suspicious(s *v1alpha1.ScriptTenantSpec) (warnings admission.Warnings) {
	switch selector := s.NamespaceSelector; {
	case selector == nil && len(s.Namespaces) == 0:
		warnings = append(warnings, "spec.namespaces: names none, and there is no namespaceSelector: no script can be the tenant's")
	case selector != nil && len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0:
		warnings = append(warnings, "spec.namespaceSelector: is empty, which selects every namespace of the cluster: remove it to select none")
	}
	if s.Memory != nil && s.Isolation != string(script.IsolationProcess) {
		warnings = append(warnings, "spec.memory: has no effect unless spec.isolation is process")
	}
	return warnings
}
