package suite_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/internal/operatord"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
)

// leaseNamespace is where the lease is that says who leads.
const leaseNamespace = "default"

func elect(c *operatord.Config) { c.LeaderElection, c.Namespace = true, leaseNamespace }

// startTwo starts a world with two operators, of which the first one leads, and the second
// one is ready to.
func startTwo(t *testing.T) (w *world, first, second *running) {
	t.Helper()
	w = start(t, 1, elect)
	first = w.operator
	w.eventually("the first one leads", first.leads)
	second = w.runOperator(elect)
	t.Cleanup(second.cancel)
	w.eventually("the second one is ready", func() bool { return second.Ready(t.Context()).Ready })
	return w, first, second
}

// TestOneLeads: of two operators one works; when it stops, the other one goes on.
func TestOneLeads(t *testing.T) {
	w, _, second := startTwo(t)
	ls := w.converged(w.create("route", 1))
	ls = w.converged(w.change(ls, func(s *spec) { s.Source = source(2) }))
	w.tells(ls, "Published", "Converged", "Published", "Converged")
	if second.leads() {
		t.Error("both lead")
	}
	w.stopOperator()
	w.operator = second
	ls = w.converged(w.change(ls, func(s *spec) { s.Source = source(3) }))
	if !second.leads() {
		t.Error("it was done by one that does not lead")
	}
	w.answers("route", 3)
	if ls.Status.ActiveVersion != 3 {
		t.Errorf("version %d, want 3", ls.Status.ActiveVersion)
	}
	w.tells(ls, "Published", "Converged", "Published", "Converged", "Published", "Converged")
}

// TestLeadershipIsLost: an operator from which the lease is taken in the middle of its work
// ends, and says so; the other one takes over when the lease has run out, and nothing is
// published twice.
func TestLeadershipIsLost(t *testing.T) {
	w, first, second := startTwo(t)
	const count = 20
	var all []*v1alpha1.LuaScript
	for i := range count {
		all = append(all, w.create(fmt.Sprintf("s-%d", i), i))
	}
	w.await(all[0], "published", func(ls *v1alpha1.LuaScript) bool { return is(ls, v1alpha1.ConditionPublished, metav1.ConditionTrue) })
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: "scriptorium-operator"}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"holderIdentity":"another"}}`))
	if err := env.Client.Patch(t.Context(), lease, patch); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-first.ended:
		if err == nil || !strings.Contains(err.Error(), "leader election lost") {
			t.Errorf("the one that led: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on without the lease")
	}
	w.operator = second
	late := w.converged(w.create("late", 100))
	if !second.leads() {
		t.Error("it was done by one that does not lead")
	}
	w.tells(late, "Published", "Converged")
	for i, ls := range all {
		ls = w.converged(ls)
		w.answers(ls.Name, i)
		if ls.Status.ActiveVersion != 1 {
			t.Errorf("%s was published again: version %d", ls.Name, ls.Status.ActiveVersion)
		}
	}
}
