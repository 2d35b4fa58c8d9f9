package validate_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/operator/testenv"
)

// TestInstallUpgradeUninstall goes through the life of a release on an API server, and
// looks that each object is there, and gone in the end.
func TestInstallUpgradeUninstall(t *testing.T) {
	e := bare(t)
	release := func(args ...string) {
		t.Helper()
		program, err := helmProgram()
		if err != nil {
			t.Fatal(err)
		}
		home := t.TempDir()
		cmd := exec.CommandContext(t.Context(), program, append(args, "--namespace="+namespace, "--kubeconfig="+e.Kubeconfig())...)
		cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("helm %q: %v\n%s", args, err, out)
		}
	}
	try, inProduction := parse(t, template()(t)), parse(t, template("--values="+production)(t))

	release("install", "scriptorium", chart, "--create-namespace")
	present(t, e, try)
	release("upgrade", "scriptorium", chart, "--values="+production)
	present(t, e, slices.DeleteFunc(inProduction, isJob)) // the second Job has another name
	release("uninstall", "scriptorium", "--wait=hookOnly")
	for _, o := range slices.Concat(try, inProduction) {
		kept := o.GetKind() == "CustomResourceDefinition"
		if there(t, e, o) != kept {
			t.Errorf("after uninstalling, %s is there: %t", title(o), !kept)
		}
	}
}

// TestApplyAndDelete does the same with kubectl, and applies an overlay over the other.
func TestApplyAndDelete(t *testing.T) {
	e := bare(t)
	kubectl := func(args ...string) string {
		t.Helper()
		out, _, err := e.Kubectl(t.Context(), "", args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	try := parse(t, overlay(kustomize+"/try")(t))
	kubectl("apply", "-k", kustomize+"/try")
	present(t, e, try)
	for line := range strings.Lines(kubectl("apply", "-k", kustomize+"/try")) {
		if !strings.HasSuffix(strings.TrimSpace(line), " unchanged") {
			t.Errorf("applied again, and %s", line)
		}
	}
	kubectl("delete", "job", "scriptorium-bootstrap", "--namespace="+namespace) // as its time to live would
	kubectl("apply", "-k", kustomize+"/production")
	kubectl("delete", "-k", kustomize+"/production", "--wait=false")
	kubectl("delete", "-k", kustomize+"/try", "--wait=false", "--ignore-not-found")
	for _, o := range try {
		if o.GetKind() != "Namespace" && there(t, e, o) { // its controller removes that
			t.Errorf("after deleting, %s is there", title(o))
		}
	}
}

// bare returns an API without Scriptorium's definitions.
func bare(t *testing.T) *testenv.Env {
	t.Helper()
	e := testenv.Start(t)
	if err := e.Client.DeleteAllOf(t.Context(), &apiextensionsv1.CustomResourceDefinition{}); err != nil {
		t.Fatal(err)
	}
	for _, o := range parse(t, template()(t)) {
		for o.GetKind() == "CustomResourceDefinition" && there(t, e, o) {
			if err := t.Context().Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return e
}

func isJob(o *unstructured.Unstructured) bool { return o.GetKind() == "Job" }

func present(t *testing.T, e *testenv.Env, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		if !there(t, e, o) {
			t.Errorf("%s is not there", title(o))
		}
	}
	kinds := map[string]bool{}
	for _, o := range objects {
		kinds[o.GetKind()] = true
	}
	for _, kind := range []string{"CustomResourceDefinition", "ClusterRole", "ValidatingWebhookConfiguration", "DaemonSet"} {
		if !kinds[kind] {
			t.Errorf("no %s among %q", kind, slices.Sorted(maps.Keys(kinds)))
		}
	}
}

// there says whether an object is, and is not being deleted.
func there(t *testing.T, e *testenv.Env, o *unstructured.Unstructured) bool {
	t.Helper()
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(o.GroupVersionKind())
	err := e.Client.Get(context.WithoutCancel(t.Context()), client.ObjectKeyFromObject(o), got)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}
