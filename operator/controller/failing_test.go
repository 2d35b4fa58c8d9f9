package controller

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fail has the one agent fail from now on; with no kind it activates what there is.
func (w *world) fail(kind script.Kind) {
	w.failures = nil
	if kind != "" {
		w.failures = []registryclient.AgentFailure{{Agent: "node-a", Err: script.Errorf(kind, "", "no")}}
	}
}

// progress is the one of kstatus' conditions that a LuaScript has, with its reason; "" if it
// has none.
func progress(t *testing.T, ls *v1alpha1.LuaScript) string {
	t.Helper()
	var found []string
	for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if c := meta.FindStatusCondition(ls.Status.Conditions, kind); c != nil {
			found = append(found, kind+"/"+c.Reason)
		}
	}
	if len(found) > 1 {
		t.Errorf("it is both: %v", found)
	}
	ready := meta.IsStatusConditionTrue(ls.Status.Conditions, v1alpha1.ConditionReady)
	if ready == (len(found) > 0) {
		t.Errorf("Ready is %t, and there are %v", ready, found)
	}
	return strings.Join(found, " ")
}

// TestStalledOnAgents: a LuaScript that agents cannot activate is stalled once retries are in
// vain, and goes on as soon as an agent or the spec is another one.
func TestStalledOnAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{})
		w.ready()
		ls := w.pass(time.Second)
		expect := func(what, want string) {
			t.Helper()
			if got := progress(t, ls); got != want {
				t.Errorf("%s: %q, want %q: %+v", what, got, want, ls.Status.Conditions)
			}
		}
		expect("it runs", "")

		w.fail(script.Unavailable)
		w.edit("2")
		ls = w.pass(2 * time.Second)
		expect("the agent retries", "Reconciling/FailedOnAgents")
		if wait := w.pause(); wait <= 0 || wait > failurePatience {
			t.Errorf("comes back in %v: the agent may fail for %v", wait, failurePatience)
		}
		ls = w.pass(failurePatience)
		expect("the retries fail", "Stalled/FailedOnAgents")

		w.restart(0)
		ls = w.reconcile()
		expect("another operator", "Stalled/FailedOnAgents")
		w.away = true
		ls = w.pass(3 * time.Second)
		expect("nobody knows", "Reconciling/FleetUnknown")
		w.away = false
		ls = w.pass(3 * time.Second)
		expect("it is known again", "Stalled/FailedOnAgents")

		w.edit("3")
		ls = w.pass(3 * time.Second)
		expect("another source", "Reconciling/FailedOnAgents")
		w.fail("")
		ls = w.pass(3 * time.Second)
		expect("the agent is repaired", "")
		w.fail(script.Unavailable)
		ls = w.pass(3 * time.Second)
		expect("it fails anew", "Reconciling/FailedOnAgents")
		w.fail(script.Limit)
		ls = w.pass(3 * time.Second)
		expect("it does not retry", "Stalled/FailedOnAgents")
		w.fail("")
		w.edit("4")
		ls = w.pass(3 * time.Second)
		expect("a source that it takes", "")
	})
}
