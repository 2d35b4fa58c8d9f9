package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// templates are manifests of all kinds, with a name to be filled in.
var templates = map[string]string{
	"Script":       header + "kind: Script\nmetadata: {name: %s}\nspec: {tenantId: acme, source: return 1}\n",
	"LuaScript":    header + "kind: LuaScript\nmetadata: {name: %s}\nspec: {tenantId: acme, source: return 1}\n",
	"ScriptTenant": header + "kind: ScriptTenant\nmetadata: {name: %s}\nspec: {namespaces: [default]}\n",
}

// isStatus checks what kstatus, which Flux and others use, says of an object.
func isStatus(t *testing.T, u *unstructured.Unstructured, want status.Status) {
	t.Helper()
	got, err := status.Compute(u)
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != want {
		t.Errorf("kstatus says %s (%s) of %s, want %s; its status is %v", got.Status, got.Message, u.GetKind(), want, u.Object["status"])
	}
}

// isUnobserved checks that an object has the status that nobody wrote.
func isUnobserved(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	if got := fmt.Sprint(u.Object["status"]); got != "map[observedGeneration:-1]" {
		t.Errorf("%s has the status %s", u.GetKind(), got)
	}
	isStatus(t, u, status.InProgressStatus)
}

// get reads an object of that kind as it is in the API server.
func get(t *testing.T, kind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	u := object(t, fmt.Sprintf(templates[kind], name))
	if kind != "ScriptTenant" {
		u.SetNamespace(namespace)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	return u
}

// reconciled is a status as the operator writes it.
func reconciled(generation int64) map[string]any {
	return map[string]any{
		"observedGeneration": generation,
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "Active", "message": "it runs", "observedGeneration": generation,
			"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
		}},
	}
}

// report writes a status as the operator does: as a merge patch of what changed in it.
func report(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	before := u.DeepCopy()
	u.Object["status"] = reconciled(u.GetGeneration())
	if err := env.Client.Status().Patch(t.Context(), u, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// TestUnreconciledIsNotCurrent: whichever way an object is applied, tools that go by kstatus
// wait for the operator, and nobody but the operator owns the status.
func TestUnreconciledIsNotCurrent(t *testing.T) {
	namespace := env.Namespace(t, "kstatus", nil)
	for kind, manifest := range templates {
		for name, args := range map[string][]string{
			"created":     {"create"},
			"applied":     {"apply"},
			"server-side": {"apply", "--server-side"},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				text := fmt.Sprintf(manifest, name)
				args := append(args, "-n", namespace, "-f", "-")
				kubectl(t, text, args...)
				u := get(t, kind, namespace, name)
				isUnobserved(t, u)
				for _, m := range u.GetManagedFields() {
					if owned := m.FieldsV1.GetRawString(); strings.Contains(owned, "f:status") {
						t.Errorf("%s owns %s", m.Manager, owned)
					}
				}
				report(t, u)
				isStatus(t, u, status.CurrentStatus)
				if name == "created" {
					remove(t, u)
					return
				}
				kubectl(t, text, args...)
				u = get(t, kind, namespace, name)
				isStatus(t, u, status.CurrentStatus)
				kubectl(t, strings.NewReplacer("return 1", "return 2", "default", "elsewhere").Replace(text), args...)
				u = get(t, kind, namespace, name)
				if u.GetGeneration() != 2 {
					t.Errorf("generation %d", u.GetGeneration())
				}
				isStatus(t, u, status.InProgressStatus)
				isTerminating(t, u)
			})
		}
	}
}

// isTerminating deletes an object that the operator holds, and checks what kstatus says.
func isTerminating(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	finalizers := func(list ...string) {
		t.Helper()
		before := u.DeepCopy()
		u.SetFinalizers(list)
		if err := env.Client.Patch(t.Context(), u, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	finalizers(v1alpha1.Finalizer)
	if err := env.Client.Delete(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	u = get(t, u.GetKind(), u.GetNamespace(), u.GetName())
	isStatus(t, u, status.TerminatingStatus)
	finalizers()
}

// TestDefinitionsAreUpgraded: objects from before the status had a default get it as they are
// read, and those that have a status keep theirs.
func TestDefinitionsAreUpgraded(t *testing.T) {
	namespace := env.Namespace(t, "upgrade", nil)
	names := map[string]string{"LuaScript": "luascripts", "ScriptTenant": "scripttenants"}
	for kind, plural := range names {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: plural + ".scriptorium.dev"}, crd); err != nil {
			t.Fatal(err)
		}
		upgraded := crd.DeepCopy()
		properties := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
		old := properties["status"]
		old.Default = nil
		properties["status"] = old
		change := func(from, to *apiextensionsv1.CustomResourceDefinition, hasStatus bool) {
			t.Helper()
			if err := env.Client.Patch(t.Context(), to.DeepCopy(), client.MergeFrom(from)); err != nil {
				t.Fatal(err)
			}
			awaitStatus(t, kind, namespace, hasStatus)
		}
		change(upgraded, crd, false)
		for _, name := range []string{"fresh", "settled"} {
			if _, err := create(t, namespace, fmt.Sprintf(templates[kind], name)); err != nil {
				t.Fatal(err)
			}
		}
		fresh, settled := get(t, kind, namespace, "fresh"), get(t, kind, namespace, "settled")
		isStatus(t, fresh, status.CurrentStatus) // which is what was wrong
		report(t, settled)
		change(crd, upgraded, true)

		isUnobserved(t, get(t, kind, namespace, "fresh"))
		report(t, fresh) // by one who read it before
		isStatus(t, get(t, kind, namespace, "fresh"), status.CurrentStatus)
		if got := get(t, kind, namespace, "settled"); fmt.Sprint(got.Object["status"]) != fmt.Sprint(settled.Object["status"]) {
			t.Errorf("%s: the status was %v, and is %v", kind, settled.Object["status"], got.Object["status"])
		}
		remove(t, fresh)
		remove(t, settled)
	}
}

// remove deletes an object that may be in no namespace, so that the test can run again.
func remove(t *testing.T, o client.Object) {
	t.Helper()
	if err := env.Client.Delete(t.Context(), o); err != nil {
		t.Error(err)
	}
}

// awaitStatus waits until the API server gives new objects a status, or does not.
func awaitStatus(t *testing.T, kind, namespace string, want bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for {
		u, err := create(t, namespace, fmt.Sprintf(templates[kind], "probe"), client.DryRunAll)
		if err != nil {
			t.Fatal(err)
		}
		if (u.Object["status"] != nil) == want {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("new objects of kind %s have the status %v", kind, u.Object["status"])
		}
	}
}
