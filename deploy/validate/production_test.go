package validate_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestProduction: no node, drain or shortage takes more than one of those that there are
// several of, if there are as many nodes, and what keeps scripts and tells of them is somebody else's.
func TestProduction(t *testing.T) {
	for _, way := range []rendering{
		{"overlay", overlay(kustomize + "/production")},
		{"chart", template("--values=" + production)},
	} {
		t.Run(way.name, func(t *testing.T) {
			objects := parse(t, way.make(t))
			there := map[string]*unstructured.Unstructured{}
			for _, o := range objects {
				there[title(o)] = o
				if o.GetKind() == "StatefulSet" || o.GetName() == "scriptorium-nats" && o.GetKind() == "Deployment" {
					t.Errorf("there is a %s", title(o))
				}
			}
			for name, replicas := range map[string]int32{"scriptorium-registry": 3, "scriptorium-operator": 2} {
				d := into[appsv1.Deployment](t, there["Deployment/"+name].Object)
				if *d.Spec.Replicas != replicas {
					t.Errorf("%s has %d replicas, want %d", name, *d.Spec.Replicas, replicas)
				}
				apart(t, name, d.Spec.Template)
				budget := into[policyv1.PodDisruptionBudget](t, there["PodDisruptionBudget/"+name].Object)
				if !selects(budget.Spec.Selector, d.Spec.Template.Labels) || budget.Spec.MaxUnavailable == nil || budget.Spec.MaxUnavailable.IntValue() != 1 {
					t.Errorf("%s: its budget is %+v", name, budget.Spec)
				}
				important(t, name, d.Spec.Template, there)
			}
			agent := into[appsv1.DaemonSet](t, there["DaemonSet/scriptorium-agent"].Object)
			important(t, agent.Name, agent.Spec.Template, there)
		})
	}
}

// apart checks that no two of the pods are on one node while another has none.
func apart(t *testing.T, name string, pod corev1.PodTemplateSpec) {
	t.Helper()
	for _, s := range pod.Spec.TopologySpreadConstraints {
		if s.TopologyKey == corev1.LabelHostname && s.MaxSkew == 1 && s.WhenUnsatisfiable == corev1.DoNotSchedule && selects(s.LabelSelector, pod.Labels) {
			return
		}
	}
	t.Errorf("%s: two of its pods may be on one node: %+v", name, pod.Spec.TopologySpreadConstraints)
}

// important checks that the pods are of a PriorityClass that comes with them.
func important(t *testing.T, name string, pod corev1.PodTemplateSpec, there map[string]*unstructured.Unstructured) {
	t.Helper()
	if class := pod.Spec.PriorityClassName; class == "" || there["PriorityClass/"+class] == nil {
		t.Errorf("%s has the PriorityClass %q, which does not come with it", name, class)
	}
}
