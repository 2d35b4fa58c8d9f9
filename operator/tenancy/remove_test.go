package tenancy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/tenancy"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

var down = script.Errorf(script.Unavailable, "", "cannot reach the registry")

// failing is a ScriptTenant that an operator before this one could not remove an hour ago,
// and the time of that.
func failing(t *testing.T, name string, spec v1alpha1.ScriptTenantSpec, others ...metav1.Condition) (*v1alpha1.ScriptTenant, time.Time) {
	t.Helper()
	st := create(t, &v1alpha1.ScriptTenant{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{v1alpha1.Finalizer}}, Spec: spec,
	})
	since := metav1.NewTime(time.Now().Add(-time.Hour)).Rfc3339Copy()
	st.Status.Conditions = append(others, metav1.Condition{
		Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: "Deleting", LastTransitionTime: since,
	})
	if err := kube.Client.Status().Update(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	if err := kube.Client.Delete(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	return st, since.Time
}

// The operator and the registry were away together for longer than the wait, and the
// registry comes back a moment later.
func TestRemovalIsTriedBeforeItIsGivenUp(t *testing.T) {
	st, since := failing(t, "together", v1alpha1.ScriptTenantSpec{})
	r := newRegistry()
	r.fails.Store(down)
	run(t, tenancy.Config{Registry: r, DeleteWait: 10 * time.Minute})
	got := awaitReady(t, "together", metav1.ConditionFalse, "Deleting")
	if c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReconciling); c == nil || !c.LastTransitionTime.Time.Equal(since) {
		t.Errorf("the first attempt that failed was at %v: %+v", since, c)
	}
	r.fails.Store(nil)
	awaitGone(t, "together")
	awaitTold(t, st, "Deleted: the registry no longer has its settings")
}

// While its scripts hold it, the wait for the registry does not run.
func TestInUseEndsTheWait(t *testing.T) {
	shop := kube.Namespace(t, "shop", nil)
	user := newScript(t, shop, "user", "held")
	_, since := failing(t, "held", v1alpha1.ScriptTenantSpec{Namespaces: []string{shop}}, metav1.Condition{
		Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "Refused", LastTransitionTime: metav1.Now(),
	})
	r := newRegistry()
	r.fails.Store(down)
	run(t, tenancy.Config{Registry: r, DeleteWait: 10 * time.Minute})
	if got := awaitReady(t, "held", metav1.ConditionFalse, "InUse"); len(got.Status.Conditions) != 1 {
		t.Errorf("what was true before: %+v", got.Status.Conditions)
	}
	if err := kube.Client.Delete(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	got := awaitReady(t, "held", metav1.ConditionFalse, "Deleting")
	if c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReconciling); c == nil || !c.LastTransitionTime.After(since) {
		t.Errorf("the wait began before the scripts were gone, at %v: %+v", since, c)
	}
}

// What agents may have keeps its bounds, whatever its status says of it, though its namespace
// may no longer act for the tenant.
func TestWhatAgentsMayHaveIsProtected(t *testing.T) {
	shop := kube.Namespace(t, "shop", nil)
	protected := map[string]func(*v1alpha1.LuaScript){
		"tested": func(ls *v1alpha1.LuaScript) { firstVersionIs(t, ls, v1alpha1.CandidateTesting) },
		"failed": func(ls *v1alpha1.LuaScript) { firstVersionIs(t, ls, v1alpha1.CandidateFailed) },
		// The registry's answer to its first publish was lost.
		"unknown": func(ls *v1alpha1.LuaScript) {
			change(t, ls, func() { ls.Finalizers = []string{v1alpha1.Finalizer} })
		},
	}
	for name, become := range protected {
		become(newScript(t, shop, name, name))
	}
	newScript(t, shop, "refused", "refused") // none of it was ever published
	for _, name := range []string{"tested", "failed", "unknown", "refused"} {
		failing(t, name, v1alpha1.ScriptTenantSpec{})
	}
	run(t, tenancy.Config{Registry: newRegistry()})
	awaitGone(t, "refused")
	for name := range protected {
		got := awaitReady(t, name, metav1.ConditionFalse, "InUse")
		if c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, shop+"/"+name) {
			t.Errorf("%s: %s", name, c.Message)
		}
		ls := &v1alpha1.LuaScript{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name}}
		change(t, ls, func() { ls.Finalizers = nil })
		if err := kube.Client.Delete(t.Context(), ls); err != nil {
			t.Fatal(err)
		}
		awaitGone(t, name)
	}
}

// Who has to wait for its scripts to go bounds them until then.
func TestSettingsArePutRightWhileInUse(t *testing.T) {
	r := newRegistry()
	run(t, tenancy.Config{Registry: r, Resync: often})
	shop := kube.Namespace(t, "shop", nil)
	st := newTenant(t, "bounded", v1alpha1.ScriptTenantSpec{Isolation: "process", Namespaces: []string{shop}})
	newScript(t, shop, "user", "bounded")
	awaitScripts(t, "bounded", 1)
	awaitReady(t, "bounded", metav1.ConditionTrue, "Configured")
	if err := kube.Client.Delete(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, "bounded", metav1.ConditionFalse, "InUse")
	if _, _, err := r.Registry.SetTenant(t.Context(), registry.SetTenant{Tenant: "bounded", Author: "eve", By: everybody}); err != nil {
		t.Fatal(err)
	}
	awaitTold(t, st, "Restored: its settings had been taken away in the registry: they are back")
	if got := r.settings(t, "bounded").Settings.Isolation; got != script.IsolationProcess {
		t.Errorf("isolation %q", got)
	}
	r.fails.Store(down)
	await(t, func() error {
		got := awaitReady(t, "bounded", metav1.ConditionFalse, "InUse")
		c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady)
		if !strings.HasSuffix(c.Message, "; whether they have their bounds until then is not known: "+down.Message) {
			return errors.New(c.Message)
		}
		return nil
	})
}
