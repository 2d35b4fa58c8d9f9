package tenancy_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/tenancy"
)

func TestAllows(t *testing.T) {
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "acme"}}
	for _, tt := range []struct {
		name   string
		spec   v1alpha1.ScriptTenantSpec
		labels map[string]string
		want   bool
	}{
		{name: "nobody"},
		{name: "by name", spec: v1alpha1.ScriptTenantSpec{Namespaces: []string{"other", "shop"}}, want: true},
		{name: "others by name", spec: v1alpha1.ScriptTenantSpec{Namespaces: []string{"shops", "sho", "Shop"}}},
		{name: "everybody", spec: v1alpha1.ScriptTenantSpec{Namespaces: []string{"*"}}, want: true},
		{name: "a star is no pattern", spec: v1alpha1.ScriptTenantSpec{Namespaces: []string{"sh*"}}},
		{name: "by label", spec: v1alpha1.ScriptTenantSpec{NamespaceSelector: team}, labels: map[string]string{"team": "acme", "x": "y"}, want: true},
		{name: "another label", spec: v1alpha1.ScriptTenantSpec{NamespaceSelector: team}, labels: map[string]string{"team": "beta"}},
		{name: "no label", spec: v1alpha1.ScriptTenantSpec{NamespaceSelector: team}},
		{name: "a selector of all", spec: v1alpha1.ScriptTenantSpec{NamespaceSelector: &metav1.LabelSelector{}}, want: true},
		{name: "both, one is enough", spec: v1alpha1.ScriptTenantSpec{Namespaces: []string{"shop"}, NamespaceSelector: team}, want: true},
		{
			name: "a selector that is not valid",
			spec: v1alpha1.ScriptTenantSpec{NamespaceSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Near"}},
			}},
			labels: map[string]string{"team": "acme"},
		},
	} {
		if got := tenancy.Allows(&tt.spec, "shop", tt.labels); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
