// Package tenancy holds to what ScriptTenants say: which namespaces may act for a
// tenant (Check, which the webhook and the controllers of scripts both ask), and what the
// registry has of a tenant's settings (Setup, the ScriptTenant controller).
package tenancy

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// tenantField is the field of an object that names its tenant.
const tenantField = "spec.tenantId"

// allNamespaces stands for all namespaces in a ScriptTenant.
const allNamespaces = "*"

// Allows reports whether spec lets the namespace with these labels act for the tenant.
// A selector that is not valid selects nothing.
func Allows(spec *v1alpha1.ScriptTenantSpec, namespace string, set map[string]string) bool {
	if allowsByName(spec, namespace) {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.NamespaceSelector)
	return err == nil && selector.Matches(labels.Set(set))
}

func allowsByName(spec *v1alpha1.ScriptTenantSpec, namespace string) bool {
	return slices.Contains(spec.Namespaces, allNamespaces) || slices.Contains(spec.Namespaces, namespace)
}

// Check returns nil if a ScriptTenant lets the namespace act for the tenant, and a
// *script.Error of kind Denied that says what to change if not. Any other error is one
// of reading, and says nothing about the namespace.
func Check(ctx context.Context, r client.Reader, tenant, namespace string) error {
	_, err := Find(ctx, r, tenant, namespace)
	return err
}

// Find is Check, and returns the ScriptTenant if it lets the namespace act.
func Find(ctx context.Context, r client.Reader, tenant, namespace string) (*v1alpha1.ScriptTenant, error) {
	t := &v1alpha1.ScriptTenant{}
	switch err := r.Get(ctx, client.ObjectKey{Name: tenant}, t); {
	case apierrors.IsNotFound(err):
		return nil, script.Errorf(script.Denied, tenantField,
			"there is no ScriptTenant %s: have one created whose spec.namespaces names %s", tenant, namespace)
	case err != nil:
		return nil, fmt.Errorf("reading ScriptTenant %s: %w", tenant, err)
	case !t.DeletionTimestamp.IsZero():
		return nil, script.Errorf(script.Denied, tenantField, "the ScriptTenant %s is being deleted", tenant)
	}
	allowed, err := allows(ctx, r, t, namespace)
	if err != nil {
		return nil, err
	}
	if !allowed {
		return nil, script.Errorf(script.Denied, tenantField,
			"the ScriptTenant %s does not let the namespace %s act for it: have %[2]s added to its spec.namespaces, or use another tenant", tenant, namespace)
	}
	return t, nil
}

// allows is Allows, and reads the namespace's labels if it must.
func allows(ctx context.Context, r client.Reader, t *v1alpha1.ScriptTenant, namespace string) (bool, error) {
	if allowsByName(&t.Spec, namespace) || t.Spec.NamespaceSelector == nil {
		return Allows(&t.Spec, namespace, nil), nil
	}
	ns := namespaceMetadata()
	if err := r.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return false, fmt.Errorf("reading the labels of namespace %s: %w", namespace, err)
	}
	return Allows(&t.Spec, namespace, ns.Labels), nil
}

// namespaceMetadata is a Namespace of which the labels alone are read, and kept in the
// cache.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return ns
}
