package suite_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

func nameOf(name string) script.Name { return script.Name{Tenant: tenant, Script: name} }

// publish publishes by hand, as scriptctl does.
func (w *world) publish(name string, n int, write registryclient.Write) (registryclient.Published, error) {
	write.Author = "ann"
	settings := &script.Settings{Spec: script.Spec{Limits: script.Limits{Timeout: script.MaxLimits().Timeout}}}
	return w.registry.Publish(w.t.Context(), registryclient.PublishRequest{Name: nameOf(name), Source: []byte(*source(n)), Entrypoint: new("handle"), Settings: settings, Write: write})
}

// TestTwoClaimOneScript: of two LuaScripts of one script the first has it; the second
// says who does, forces nothing, and has it as soon as the first is gone.
func TestTwoClaimOneScript(t *testing.T) {
	w := start(t, 1)
	first := w.converged(w.create("route", 1))
	second := w.luaScript("route", 2)
	second.Namespace = env.Namespace(t, "other", nil)
	if err := env.Client.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	second = w.stalled(second, "the LuaScript "+w.namespace+"/route")
	if second.Status.Phase != v1alpha1.PhaseError || second.Status.Agents != nil || second.Status.ActiveVersion != 0 {
		t.Errorf("the second shows the first's script as its own: %+v", second.Status)
	}
	w.told(second, "Refused")
	w.answers("route", 1)
	first = w.converged(w.change(first, func(s *spec) { s.Source = source(3) }))
	w.answers("route", 3)

	w.deleted(first)
	second = w.converged(second)
	w.answers("route", 2)
	if r, err := w.release("route"); err != nil || r.Owner != "luascript/"+second.Namespace+"/route" {
		t.Errorf("the registry has %+v, %v", r, err)
	}
}

// TestTheLoserLeaves: deleting the LuaScript that never had the script leaves it to the
// one that has.
func TestTheLoserLeaves(t *testing.T) {
	w := start(t, 1)
	first := w.converged(w.create("route", 1))
	second := w.luaScript("route", 2)
	second.Namespace = env.Namespace(t, "other", nil)
	if err := env.Client.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	w.deleted(w.stalled(second, "the LuaScript "))
	w.answers("route", 1)
	w.converged(w.change(first, func(s *spec) { s.Source = source(4) }))
	w.answers("route", 4)
}

// TestForeignOwner: a script that belongs to somebody else altogether is left alone, and
// taken when they let go of it.
func TestForeignOwner(t *testing.T) {
	w := start(t, 1)
	if _, err := w.publish("route", 1, registryclient.Write{Owner: "pipeline/17"}); err != nil {
		t.Fatal(err)
	}
	ls := w.stalled(w.create("route", 2), "pipeline/17")
	w.answers("route", 1)
	if _, _, err := w.registry.SetOwner(t.Context(), nameOf("route"), "", registryclient.Write{Author: "ann", Owner: "pipeline/17"}); err != nil {
		t.Fatal(err)
	}
	w.converged(ls)
	w.answers("route", 2)
}

// TestTakenOver: a script without an owner is its LuaScript's from then on, with its
// versions.
func TestTakenOver(t *testing.T) {
	w := start(t, 1)
	if _, err := w.publish("route", 1, registryclient.Write{}); err != nil {
		t.Fatal(err)
	}
	ls := w.converged(w.create("route", 2))
	w.answers("route", 2)
	if ls.Status.ActiveVersion != 2 || len(ls.Status.History) != 2 {
		t.Errorf("its versions are not there: %+v", ls.Status)
	}
	if _, err := w.publish("route", 3, registryclient.Write{}); script.KindOf(err) != script.Denied {
		t.Errorf("somebody else publishes: %v", err)
	}
	w.converged(w.change(ls, func(s *spec) { s.Version = new(int64(1)) }))
	w.answers("route", 1)
}

// TestBehindItsBack: the operator undoes what somebody forces upon the registry, emits an
// event, and does not count it as converged meanwhile.
func TestBehindItsBack(t *testing.T) {
	w := start(t, 2)
	ls := w.converged(w.create("route", 1))

	for _, test := range []struct {
		what string
		do   func() error
	}{
		{"published", func() error { _, err := w.publish("route", 99, forced); return err }},
		{"disabled", func() error {
			_, _, err := w.registry.SetEnabled(t.Context(), nameOf("route"), false, forced)
			return err
		}},
		{"configured", func() error {
			e, err := w.registry.Source(t.Context(), script.Ref{Name: nameOf("route")})
			if err != nil {
				return err
			}
			_, err = w.registry.Publish(t.Context(), registryclient.PublishRequest{
				Name: nameOf("route"), Source: e.Source, Entrypoint: &e.Entrypoint, Settings: &script.Settings{Spec: script.Spec{Trigger: script.Trigger{Event: "x"}}}, Write: forced,
			})
			return err
		}},
		{"given away", func() error {
			_, _, err := w.registry.SetOwner(t.Context(), nameOf("route"), "", forced)
			return err
		}},
		{"deleted", func() error { _, err := w.registry.Delete(t.Context(), nameOf("route"), forced); return err }},
	} {
		before := ls.Status.Revision
		if err := test.do(); err != nil {
			t.Fatalf("%s: %v", test.what, err)
		}
		ls = w.await(ls, "put right after it was "+test.what, func(ls *v1alpha1.LuaScript) bool {
			return is(ls, v1alpha1.ConditionConverged, metav1.ConditionTrue) && ls.Status.Revision > before+1
		})
		w.answers("route", 1)
		r, err := w.release("route")
		if err != nil || !r.Enabled || r.Settings.Trigger.Event != "" || r.Owner != "luascript/"+w.namespace+"/route" || int64(r.Revision) != ls.Status.Revision {
			t.Errorf("%s: %+v, %v", test.what, r, err)
		}
	}
	w.told(ls, "Restored")
	if note := w.events(ls)["Restored"]; !strings.Contains(note, "behind the LuaScript's back") {
		t.Errorf("the event says %q", note)
	}
}

// forced is a write of somebody who knows better.
var forced = registryclient.Write{Author: "ann", Force: true}
