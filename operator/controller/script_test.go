package controller

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
)

// TestAScript: a Script is published for an owner of its kind, its status and finalizer are written, and it
// takes its script along. The LuaScript of the same name is another object, which nobody touches.
func TestAScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{})
		w.kind = kinds.Script
		created := &v1alpha1.Script{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Generation: 1, UID: "2"},
			Spec:       v1alpha1.LuaScriptSpec{TenantID: "acme", Source: new("function handle() end")},
		}
		if err := w.client.Create(t.Context(), created); err != nil {
			t.Fatal(err)
		}
		w.ready()
		other := w.pass(2 * time.Second)
		if len(other.Finalizers) > 0 || len(other.Status.Conditions) > 0 {
			t.Errorf("the LuaScript has %v and %+v", other.Finalizers, other.Status)
		}
		s, err := kinds.Script.Get(t.Context(), w.client, key)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(s.Finalizers, v1alpha1.Finalizer) || !meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionReady) || s.Status.LatestVersion != 1 {
			t.Errorf("the Script has %v and %+v", s.Finalizers, s.Status)
		}
		if w.release == nil || w.release.Owner != "script/default/route" {
			t.Errorf("the registry has %+v", w.release)
		}
		if reasons := w.told(); !slices.Contains(reasons, "Published") || !slices.Contains(reasons, "Converged") {
			t.Errorf("the events are %v", reasons)
		}
		if err := w.client.Delete(t.Context(), kinds.Script.Object(s)); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * time.Second)
		if _, err := kinds.Script.Get(t.Context(), w.client, key); client.IgnoreNotFound(err) != nil || err == nil || w.release != nil {
			t.Errorf("deleted: %v, and the registry has %+v", err, w.release)
		}
	})
}
