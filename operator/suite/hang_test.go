package suite_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/internal/operatord"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
)

// TestRegistryHangs: a registry that takes what is asked and never answers is one that is
// down: LuaScripts say so, a deletion is given up when its wait is over, and all goes on
// when the registry does.
func TestRegistryHangs(t *testing.T) {
	var g *gate
	w := start(t, 1, func(c *operatord.Config) {
		dir, err := os.MkdirTemp("", "hang") // t.TempDir may be too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		socket := filepath.Join(dir, "registry.sock")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		g = newGate(t, l, "unix", c.Registry[len("unix:"):])
		c.Registry, c.DeleteWait = "unix:"+socket, 2*time.Second
	})
	changed := w.converged(w.create("changed", 1))
	removed := w.converged(w.create("removed", 2))

	open := g.shut()
	changed = w.change(changed, func(s *spec) { s.Source = source(3) })
	created := w.create("created", 4)
	if err := env.Client.Delete(t.Context(), removed); err != nil {
		t.Fatal(err)
	}
	for _, ls := range []*v1alpha1.LuaScript{changed, created} {
		w.await(ls, "says that the registry does not answer", func(ls *v1alpha1.LuaScript) bool {
			return is(ls, v1alpha1.ConditionReconciling, metav1.ConditionTrue) && is(ls, v1alpha1.ConditionReady, metav1.ConditionUnknown) &&
				message(ls, v1alpha1.ConditionReconciling) != ""
		})
	}
	w.gone(removed)
	w.told(removed, "Abandoned")
	w.answers("changed", 1)
	w.answers("removed", 2)

	open()
	w.converged(changed)
	w.answers("changed", 3)
	w.converged(created)
	w.answers("created", 4)
}
