package testenv_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/testenv"
)

// TestEnv: what is said of the environment holds, also after a restart.
func TestEnv(t *testing.T) {
	env := testenv.Start(t)
	version, _, err := env.Kubectl(t.Context(), "", "version")
	if err != nil || strings.Count(version, "Version: v1.36.") != 2 {
		t.Errorf("kubectl version: %v\n%s", err, version)
	}
	namespace := env.Namespace(t, "env", map[string]string{"a": "b"})
	manifest := "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: route}\nspec: {tenantId: acme, source: return 1}\n"
	if _, _, err := env.Kubectl(t.Context(), manifest, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Error(err)
	}
	_, stderr, err := env.Kubectl(t.Context(), "", "get", "luascript", "other", "-n", namespace)
	if err == nil || !strings.Contains(stderr, "not found") || !strings.Contains(err.Error(), stderr) {
		t.Errorf("kubectl get other: %v, %q", err, stderr)
	}

	cfg, err := env.User("ann", "developers")
	if err != nil {
		t.Fatal(err)
	}
	ann, err := client.New(cfg, client.Options{Scheme: env.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	var list v1alpha1.LuaScriptList
	if err := ann.List(t.Context(), &list); !apierrors.IsForbidden(err) {
		t.Errorf("a user whom nothing allows it lists LuaScripts: %v", err)
	}

	down := false
	err = env.Restart(func() {
		down = true
		if err := env.Client.List(t.Context(), &list); err == nil {
			t.Error("the API server answers while it is down")
		}
	})
	if err != nil || !down {
		t.Fatal(err)
	}
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil || len(list.Items) != 1 {
		t.Errorf("after a restart there are %d LuaScripts, %v", len(list.Items), err)
	}
	if err := ann.List(t.Context(), &list); !apierrors.IsForbidden(err) {
		t.Errorf("after a restart the user is not known: %v", err)
	}
	var ns corev1.Namespace
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: namespace}, &ns); err != nil || ns.Labels["a"] != "b" {
		t.Errorf("namespace: %v, %v", ns.Labels, err)
	}
}
