package suite_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (w *world) held(ls *v1alpha1.LuaScript, says string) *v1alpha1.LuaScript {
	w.t.Helper()
	return w.await(ls, "held: "+says, func(ls *v1alpha1.LuaScript) bool {
		return strings.Contains(message(ls, v1alpha1.ConditionHeld), says)
	})
}

// TestTheOperatorRespectsAHold: what a person holds stays, whatever is applied meanwhile, and the
// LuaScript says who holds it and why.
func TestTheOperatorRespectsAHold(t *testing.T) {
	w := start(t, 2)
	ls := w.converged(w.create("route", 1))
	ls = w.converged(w.change(ls, func(s *spec) { s.Source = source(2) }))
	if _, _, err := w.registry.Rollback(t.Context(), nameOf("route"), 0, registryclient.Write{Author: "ann", Note: "carts lost"}); err != nil {
		t.Fatal(err)
	}
	ls = w.held(ls, `by ann since `)
	w.answers("route", 1)
	if ls.Status.Phase != v1alpha1.PhaseHeld || !is(ls, v1alpha1.ConditionReady, metav1.ConditionFalse) || !is(ls, v1alpha1.ConditionConverged, metav1.ConditionFalse) {
		t.Errorf("held: %+v", ls.Status)
	}
	for _, says := range []string{`version 2 is stored`, `("carts lost")`, `scriptctl release ` + nameOf("route").String()} {
		if text := message(ls, v1alpha1.ConditionReady); !strings.Contains(text, says) {
			t.Errorf("the condition Ready does not say %q: %s", says, text)
		}
	}
	ls = w.held(w.change(ls, func(s *spec) { s.Source = source(3) }), "version 3 is stored")
	w.answers("route", 1)
	if _, _, err := w.registry.LiftHold(t.Context(), nameOf("route"), registryclient.Write{Author: "ann"}); err != nil {
		t.Fatal(err)
	}
	ls = w.converged(ls)
	w.answers("route", 3)
	if text := message(ls, v1alpha1.ConditionHeld); text != "" || ls.Status.Phase != v1alpha1.PhaseActive {
		t.Errorf("released, and %s: %s", ls.Status.Phase, text)
	}
	w.told(ls, "Held")
	w.told(ls, "Released")
	if _, ok := w.events(ls)["Restored"]; ok {
		t.Error("the operator put something right that a person has chosen")
	}
}

// TestTheOperatorRespectsAFreeze: while the registry is frozen, what is applied is stored and what
// is deleted stays. The LuaScript says who froze it and why, and goes on soon after the thaw.
func TestTheOperatorRespectsAFreeze(t *testing.T) {
	w := start(t, 1)
	ls, going := w.converged(w.create("route", 1)), w.converged(w.create("going", 1))
	if _, err := w.registry.Freeze(t.Context(), 0, nil, "ann", "incident 12"); err != nil {
		t.Fatal(err)
	}
	ls = w.held(w.change(ls, func(s *spec) { s.Source = source(2) }), `version 2 is stored, and does not run: frozen by ann since `)
	w.answers("route", 1)
	if c := meta.FindStatusCondition(ls.Status.Conditions, v1alpha1.ConditionReady); ls.Status.Phase != v1alpha1.PhaseHeld || c.Reason != "Frozen" || !strings.Contains(c.Message, `("incident 12"): scriptctl thaw`) ||
		is(ls, v1alpha1.ConditionStalled, metav1.ConditionTrue) || ls.Status.Candidate.State != v1alpha1.CandidateFrozen {
		t.Errorf("frozen: %+v", ls.Status)
	}
	if err := env.Client.Delete(t.Context(), going); err != nil {
		t.Fatal(err)
	}
	w.await(going, "refused", func(ls *v1alpha1.LuaScript) bool {
		return strings.Contains(message(ls, v1alpha1.ConditionReady), "the registry is frozen by ann since ") && ls.Status.Phase == v1alpha1.PhaseHeld
	})
	w.answers("going", 1)
	if _, err := w.registry.Thaw(t.Context(), "ann", ""); err != nil {
		t.Fatal(err)
	}
	ls = w.await(ls, "converged", func(ls *v1alpha1.LuaScript) bool {
		return ls.Status.ActiveVersion == 2 && is(ls, v1alpha1.ConditionConverged, metav1.ConditionTrue)
	})
	w.answers("route", 2)
	if text := message(ls, v1alpha1.ConditionHeld); text != "" || ls.Status.Phase != v1alpha1.PhaseActive {
		t.Errorf("thawed, and %s: %s", ls.Status.Phase, text)
	}
	w.gone(going)
}

// TestTheAnnotationHolds: the annotation holds the script at what runs, and it alone lifts that.
func TestTheAnnotationHolds(t *testing.T) {
	w := start(t, 1)
	ls := w.converged(w.create("route", 1))
	annotate := func(change func(annotations map[string]string)) {
		t.Helper()
		next := ls.DeepCopy()
		if next.Annotations == nil {
			next.Annotations = map[string]string{}
		}
		change(next.Annotations)
		if err := env.Client.Patch(t.Context(), next, client.MergeFrom(ls)); err != nil {
			t.Fatal(err)
		}
		ls = next
	}
	annotate(func(a map[string]string) { a[script.HoldAnnotation] = "incident 12\n" })
	ls = w.held(ls, `("incident 12 ")`)
	if ls.Status.Phase != v1alpha1.PhaseActive {
		t.Errorf("held at what is wanted: %+v", ls.Status)
	}
	ls = w.held(w.change(ls, func(s *spec) { s.Source = source(2) }), "version 2 is stored")
	w.answers("route", 1)
	_, _, err := w.registry.LiftHold(t.Context(), nameOf("route"), registryclient.Write{Author: "ann"})
	if script.KindOf(err) != script.Denied || !strings.Contains(err.Error(), script.HoldAnnotation) {
		t.Errorf("somebody else lifts it: %v", err)
	}
	annotate(func(a map[string]string) { a[script.HoldAnnotation] = "incident 13" })
	ls = w.held(ls, `("incident 13")`)
	annotate(func(a map[string]string) { a[script.HoldAnnotation] = "" })
	ls = w.await(ls, "held without a reason", func(ls *v1alpha1.LuaScript) bool {
		text := message(ls, v1alpha1.ConditionHeld)
		return text != "" && !strings.Contains(text, "incident")
	})
	annotate(func(a map[string]string) { delete(a, script.HoldAnnotation) })
	w.converged(ls)
	w.answers("route", 2)
}
