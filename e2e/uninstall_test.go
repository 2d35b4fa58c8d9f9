//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
)

func (w *world) uninstall(t *testing.T) {
	agents := w.componentPods(t, "agent")
	if err := w.cluster.RemoveTestNamespace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.Uninstall(t.Context(), w.images); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t)
	w.removeFolders(t, agents)
}

// nothingLeft waits until the API server knows nothing of Scriptorium any more.
func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := kube.Until(ctx, func(ctx context.Context) error {
		left, err := w.cluster.Leftovers(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("still there: %v", left)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	kinds := strings.Fields(w.kubectl(t, "", "api-resources", "-o", "name"))
	if i := slices.IndexFunc(kinds, func(kind string) bool { return strings.HasSuffix(kind, ".scriptorium.dev") }); i >= 0 {
		t.Errorf("the API server still knows %s", kinds[i])
	}
	t.Log("no LuaScripts, definitions, namespaces, roles or webhooks are left")
}

// removeFolders removes what stays on the nodes, as docs/kubernetes.md has it. Agents are
// the pods that were there, with the node of each.
func (w *world) removeFolders(t *testing.T, agents map[string]string) {
	t.Helper()
	look := func() map[string][]string {
		t.Helper()
		folders, err := w.cluster.Folders(t.Context(), w.images)
		if err != nil {
			t.Fatal(err)
		}
		return folders
	}
	before := look()
	t.Logf("on the nodes are %v", before)
	for _, node := range agents { // without them, that none are there afterwards would show nothing
		if folders := before[node]; !slices.Equal(folders, []string{"/run/scriptorium", "/var/lib/scriptorium"}) {
			t.Errorf("%s has %v after uninstalling", node, folders)
		}
	}
	said, err := w.cluster.RemoveFolders(t.Context(), w.images)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(said)
	after := look()
	t.Logf("on the nodes are %v", after)
	for _, node := range agents {
		if folders, looked := after[node]; !looked || len(folders) > 0 {
			t.Errorf("%s still has %v (looked: %t)", node, folders, looked)
		}
	}
	if left, err := w.cluster.Leftovers(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// clean removes what a test that failed has left, as well as it goes.
func (w *world) clean(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	left, err := w.cluster.Leftovers(ctx)
	switch {
	case !w.claimed, err == nil && len(left) == 0 && !t.Failed():
		return
	case t.Failed():
		w.explain(t)
	}
	if err := w.cluster.RemoveTestNamespace(ctx); err != nil {
		t.Log(err)
	}
	if err := w.cluster.Uninstall(ctx, w.images); err != nil {
		t.Log(err)
	}
	if _, err := w.cluster.RemoveFolders(ctx, w.images); err != nil {
		t.Log(err)
	}
}
