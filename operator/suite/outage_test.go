package suite_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/internal/operatord"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// withoutRegistry does something while the registry is down.
func (w *world) withoutRegistry(f func()) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.StopRegistry(ctx); err != nil {
		w.t.Fatal(err)
	}
	f()
	if err := w.StartRegistry(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// TestRegistryDown: while the registry is down LuaScripts say so, agents go on, and
// nothing that was applied is lost.
func TestRegistryDown(t *testing.T) {
	w := start(t, 2)
	changed := w.converged(w.create("changed", 1))
	removed := w.converged(w.create("removed", 1))
	idle := w.converged(w.create("idle", 4))
	var created *v1alpha1.LuaScript
	w.withoutRegistry(func() {
		changed = w.change(changed, func(s *spec) { s.Source = source(2) })
		created = w.create("created", 3)
		if err := env.Client.Delete(t.Context(), removed); err != nil {
			t.Fatal(err)
		}
		for _, ls := range []*v1alpha1.LuaScript{changed, created} {
			ls = w.await(ls, "says that the registry is down", func(ls *v1alpha1.LuaScript) bool {
				return is(ls, v1alpha1.ConditionReconciling, metav1.ConditionTrue) && is(ls, v1alpha1.ConditionReady, metav1.ConditionUnknown)
			})
			if message(ls, v1alpha1.ConditionReconciling) == "" || message(ls, v1alpha1.ConditionStalled) != "" || is(ls, v1alpha1.ConditionConverged, metav1.ConditionTrue) {
				t.Errorf("%+v", ls.Status)
			}
		}
		w.await(removed, "waits for the registry", func(ls *v1alpha1.LuaScript) bool {
			return ls != nil && is(ls, v1alpha1.ConditionReady, metav1.ConditionFalse) && !ls.DeletionTimestamp.IsZero()
		})
		w.answers("changed", 1)
		w.answers("removed", 1)

		// An operator that has never heard of the scripts leaves what the one before it said.
		w.stopOperator()
		w.startOperator()
		changed = w.change(changed, func(s *spec) { s.Source = source(20) })
		for _, ls := range []*v1alpha1.LuaScript{changed, idle} {
			ls = w.await(ls, "says that the registry is down, again", func(ls *v1alpha1.LuaScript) bool {
				return is(ls, v1alpha1.ConditionPublished, metav1.ConditionUnknown)
			})
			if s := ls.Status; s.ActiveVersion != 1 || s.LatestVersion != 1 || s.Revision == 0 || s.Digest == "" || len(s.History) != 1 || s.Agents == nil {
				t.Errorf("forgotten: %+v", s)
			}
		}
	})
	w.converged(changed)
	w.answers("changed", 20)
	w.tells(changed, "Published", "Converged", "Published", "Converged")
	w.converged(idle)
	w.tells(idle, "Published", "Converged")
	w.converged(created)
	w.answers("created", 3)
	w.gone(removed)
	w.eventually("the agents have let go of it", func() bool {
		_, err := w.agents[0].Call(t.Context(), tenant+"/removed")
		return script.KindOf(err) == script.NotFound
	})
}

// TestGivingUp: a LuaScript that is deleted while the registry is down does not stay for
// ever: it goes when the wait is over, or at once when somebody says so.
func TestGivingUp(t *testing.T) {
	w := start(t, 1, func(c *operatord.Config) { c.DeleteWait = 2 * time.Second })
	waits := w.converged(w.create("waits", 1))
	w.withoutRegistry(func() { w.deleted(waits) })
	w.told(waits, "Abandoned")
	w.answers("waits", 1)

	w.stopOperator()
	w.startOperator(func(c *operatord.Config) { c.DeleteWait = 0 }) // for ever
	abandoned := w.converged(w.create("abandoned", 2))
	w.withoutRegistry(func() {
		if err := env.Client.Delete(t.Context(), abandoned); err != nil {
			t.Fatal(err)
		}
		w.await(abandoned, "waits for the registry", func(ls *v1alpha1.LuaScript) bool {
			return ls != nil && is(ls, v1alpha1.ConditionReady, metav1.ConditionFalse)
		})
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"scriptorium.dev/abandon":"true"}}}`))
		if err := env.Client.Patch(t.Context(), abandoned, patch); err != nil {
			t.Fatal(err)
		}
		w.gone(abandoned)
	})
	w.told(abandoned, "Abandoned")
	w.answers("abandoned", 2)

	// Whoever creates it again has it again.
	again := w.converged(w.create("abandoned", 3))
	w.answers("abandoned", 3)
	if again.Status.ActiveVersion != 2 {
		t.Errorf("version %d, want 2", again.Status.ActiveVersion)
	}
}

// TestOperatorRestart: the next operator does what was applied while none ran, or while one
// stopped in the middle of its work. Nothing is done, or has its event, twice.
func TestOperatorRestart(t *testing.T) {
	w := start(t, 2)
	first := w.converged(w.create("first", 1))
	w.tells(first, "Published", "Converged")
	const count = 40
	var all []*v1alpha1.LuaScript
	for i := range count {
		all = append(all, w.create(fmt.Sprintf("s-%d", i), i))
	}
	w.await(all[count/4], "published", func(ls *v1alpha1.LuaScript) bool { return is(ls, v1alpha1.ConditionPublished, metav1.ConditionTrue) })
	w.stopOperator() // some are done, some are not
	stopped := w.found()

	all[0] = w.change(all[0], func(s *spec) { s.Source = source(1000) })
	if err := env.Client.Delete(t.Context(), all[1]); err != nil {
		t.Fatal(err)
	}
	late := w.create("late", 5)

	w.startOperator()
	for i, ls := range all {
		if i == 1 {
			w.gone(ls)
			continue
		}
		all[i] = w.converged(ls)
		w.answers(ls.Name, or(i == 0, 1000, i))
		if want := or(i == 0, all[0].Status.ActiveVersion, 1); all[i].Status.ActiveVersion != want {
			t.Errorf("%s was published again: version %d", ls.Name, all[i].Status.ActiveVersion)
		}
		switch was := stopped[ls.Name]; {
		case i == 0, is(was, v1alpha1.ConditionConverged, metav1.ConditionTrue):
		case was.Status.Revision == 0:
			w.tells(ls, "Published", "Converged")
		default:
			w.told(ls, "Converged")
		}
	}
	w.converged(late)
	w.tells(late, "Published", "Converged")
	w.tells(w.converged(w.create("last", 6)), "Published", "Converged") // and so the events of all the others are there

	// An operator that finds everything done writes nothing, and tells of nothing.
	w.stopOperator()
	before, told := w.found(), w.sequences()
	w.startOperator()
	w.tells(w.converged(w.create("probe", 1)), "Published", "Converged")
	for name, now := range w.found() {
		if was, ok := before[name]; ok && was.ResourceVersion != now.ResourceVersion {
			t.Errorf("%s was written without a reason", name)
		}
	}
	for uid, now := range w.sequences() {
		if was, ok := told[uid]; ok && !slices.Equal(was, now) {
			t.Errorf("the events were %v, and then %v", was, now)
		}
	}
	w.tells(first, "Published", "Converged")
	// Events that were on their way when the operator stopped are lost.
	for _, ls := range all[2:] {
		if got := told[ls.UID]; !has([]string{"Published", "Converged"}, got) {
			t.Errorf("%s: the events are %v", ls.Name, got)
		}
	}
}

func or[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

// found returns the LuaScripts of the namespace, by their names.
func (w *world) found() map[string]*v1alpha1.LuaScript {
	w.t.Helper()
	var list v1alpha1.LuaScriptList
	if err := env.Client.List(w.t.Context(), &list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	found := map[string]*v1alpha1.LuaScript{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found
}

// TestAPIServerRestart: the operator outlives the API server, and what changes in the
// registry meanwhile is put right afterwards.
func TestAPIServerRestart(t *testing.T) {
	w := start(t, 2)
	ls := w.converged(w.create("route", 1))
	err := env.Restart(func() {
		if _, err := w.publish("route", 99, forced); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ls = w.await(ls, "put right", func(now *v1alpha1.LuaScript) bool {
		return is(now, v1alpha1.ConditionConverged, metav1.ConditionTrue) && now.Status.Revision > ls.Status.Revision
	})
	w.answers("route", 1)
	ls = w.converged(w.change(ls, func(s *spec) { s.Source = source(2) }))
	w.answers("route", 2)
	w.deleted(ls)
}
