package controller

import (
	"context"
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

func (w *world) Pin(_ context.Context, _ script.Name, _ uint64, write registryclient.Write) (script.Release, bool, error) {
	return w.holds(write, &script.Hold{Author: write.Author, Note: write.Note, Owner: write.Owner})
}

func (w *world) LiftHold(_ context.Context, _ script.Name, write registryclient.Write) (script.Release, bool, error) {
	return w.holds(write, nil)
}

// holds does as the registry does.
func (w *world) holds(write registryclient.Write, h *script.Hold) (script.Release, bool, error) {
	if w.setsHold++; w.setsHold > 20 {
		w.t.Fatal("it never comes to an end")
	}
	if f := w.between; f != nil {
		w.between = nil
		f()
	}
	switch e := write.ExpectedRevision; {
	case w.down != nil:
		return script.Release{}, false, w.down
	case w.tooOld:
		return script.Release{}, false, script.Errorf(script.Invalid, "", "the registry is too old to hold a script: upgrade registryd")
	case e != 0 && e != w.release.Revision:
		return script.Release{}, false, script.Errorf(script.Conflict, "expected_revision", "read it again")
	}
	if !w.ignores {
		w.setHold(h)
	}
	return *w.release, true, nil
}

// setHold has the release held, or, of a nil h, not held any more.
func (w *world) setHold(h *script.Hold) {
	w.revision++
	w.release = new(*w.release)
	w.release.Revision, w.release.Pinned, w.release.Hold, w.release.Candidate = w.revision, h != nil, h, nil
	if h == nil {
		w.release.Active, _ = w.release.Newest()
	}
}

// annotate has the LuaScript's annotation be the value, or takes it away if that is nil, and
// changes the spec in the same request if edit is not nil.
func (w *world) annotate(value *string, edit func(*v1alpha1.LuaScriptSpec)) {
	w.t.Helper()
	ls := &v1alpha1.LuaScript{}
	if err := w.client.Get(w.t.Context(), key, ls); err != nil {
		w.t.Fatal(err)
	}
	delete(ls.Annotations, script.HoldAnnotation)
	if value != nil {
		if ls.Annotations == nil {
			ls.Annotations = map[string]string{}
		}
		ls.Annotations[script.HoldAnnotation] = *value
	}
	if edit != nil {
		edit(&ls.Spec)
		ls.Generation++
	}
	w.update(ls)
}

// wantHeld checks who holds the script, and at what; nobody does if owner is nil.
func (w *world) wantHeld(when string, source string, owner *string, note string) {
	w.t.Helper()
	r := w.release
	if h := r.Hold; (h == nil) != (owner == nil) || h != nil && (h.Owner != *owner || h.Note != note) {
		w.t.Errorf("%s: held %v", when, r.Hold)
	}
	if r.Active.Digest != script.DigestOf([]byte(source)) {
		w.t.Errorf("%s: what runs is not %q", when, source)
	}
	ls := w.pass(time.Second)
	if c := meta.FindStatusCondition(ls.Status.Conditions, v1alpha1.ConditionHeld); (c == nil) != (owner == nil) {
		w.t.Errorf("%s: the condition is %v", when, c)
	}
	sets, published := w.setsHold, w.publishes
	if w.pass(time.Minute); w.setsHold != sets || w.publishes != published {
		w.t.Errorf("%s: it does not settle: %d attempts, %d publishes", when, w.setsHold-sets, w.publishes-published)
	}
}

const (
	firstSource  = "function handle() end"
	secondSource = "function handle() return 2 end"
	itself       = "luascript/default/route"
)

func sourced(source string) func(*v1alpha1.LuaScriptSpec) {
	return func(s *v1alpha1.LuaScriptSpec) { s.Source = new(source) }
}

// TestTheAnnotationIsFollowed: what the annotation says last is what the registry says, whatever
// changes with it, and the operator then lets it be.
func TestTheAnnotationIsFollowed(t *testing.T) {
	for name, does := range map[string]func(w *world){
		"its reason changes, and goes": func(w *world) {
			w.annotate(new("incident 12"), nil)
			w.pass(time.Second)
			w.wantHeld("held", firstSource, new(itself), "incident 12")
			w.annotate(new(""), nil)
			w.pass(time.Second)
			w.wantHeld("without a reason", firstSource, new(itself), "")
		},
		"it comes with an edit, and goes with one": func(w *world) {
			w.annotate(new("incident 12"), sourced(secondSource))
			w.pass(time.Second)
			w.wantHeld("held", firstSource, new(itself), "incident 12")
			w.annotate(nil, func(s *v1alpha1.LuaScriptSpec) { s.Source = new("function handle() return 3 end") })
			w.pass(time.Second)
			w.wantHeld("released", "function handle() return 3 end", nil, "")
		},
		"it comes with an edit that is wrong": func(w *world) {
			w.annotate(new("incident 12"), func(s *v1alpha1.LuaScriptSpec) { s.Script = new("both") })
			w.pass(time.Second)
			w.wantHeld("held", firstSource, new(itself), "incident 12")
		},
		"it comes and goes while the registry is down": func(w *world) {
			w.down = errDown
			w.annotate(new("incident 12"), nil)
			w.pass(time.Second)
			w.down = nil
			w.pass(time.Minute)
			w.wantHeld("held", firstSource, new(itself), "incident 12")
			w.down = errDown
			w.annotate(nil, nil)
			w.pass(time.Second)
			w.down = nil
			w.pass(time.Minute)
			w.wantHeld("released", firstSource, nil, "")
		},
		"it goes while the operator is down": func(w *world) {
			w.annotate(new("incident 12"), nil)
			w.pass(time.Second)
			w.annotate(nil, sourced(secondSource))
			w.restart(0)
			w.pass(time.Second)
			w.wantHeld("released", secondSource, nil, "")
		},
		"the registry does not do it at first": func(w *world) {
			w.ignores = true
			w.annotate(new("incident 12"), nil)
			w.pass(time.Second)
			w.ignores = false
			w.pass(time.Minute)
			w.wantHeld("held", firstSource, new(itself), "incident 12")
		},
		"its reason is no note": func(w *world) {
			w.annotate(new("a\x00b\x1b[31m "+strings.Repeat("ä", 400)), nil)
			w.pass(time.Second)
			w.wantHeld("held", firstSource, new(itself), "a b [31m "+strings.Repeat("ä", 251))
		},
		"somebody holds the script just then": func(w *world) {
			w.between = func() { w.setHold(&script.Hold{Author: "ann"}) }
			w.annotate(new("incident 12"), nil)
			w.pass(time.Second)
			w.wantHeld("held", firstSource, new(""), "")
			w.setHold(nil)
			w.pass(time.Second)
			w.wantHeld("released, while the annotation is there", firstSource, new(itself), "incident 12")
			w.between = func() { w.setHold(&script.Hold{Author: "ann"}) }
			w.annotate(nil, nil)
			w.pass(time.Second)
			w.wantHeld("taken over", firstSource, new(""), "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, interceptor.Funcs{})
				w.ready()
				w.pass(time.Second)
				does(w)
			})
		})
	}
}

// TestHeldFromTheBeginning: a LuaScript that comes with the annotation is held, and what ran
// before it came is what it holds.
func TestHeldFromTheBeginning(t *testing.T) {
	for name, before := range map[string]func(w *world){
		firstSource: func(*world) {},
		"return 0": func(w *world) {
			w.apply(registryclient.PublishRequest{
				Name: script.Name{Tenant: "acme", Script: "route"}, Source: []byte("return 0"), Entrypoint: new("handle"), Enabled: new(true), Settings: new(script.Settings{}),
			})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, interceptor.Funcs{})
			w.annotate(new("incident 12"), nil)
			before(w)
			w.ready()
			w.pass(time.Second)
			w.wantHeld("held", name, new(itself), "incident 12")
		})
	}
}

// TestTheRegistryKnowsNoHolds: the status says what to do, and nothing is published past the
// annotation.
func TestTheRegistryKnowsNoHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{})
		w.ready()
		w.pass(time.Second)
		w.tooOld = true
		w.annotate(new("incident 12"), sourced(secondSource))
		w.pass(time.Second)
		ls := &v1alpha1.LuaScript{}
		if err := w.client.Get(t.Context(), key, ls); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(ls.Status.Conditions, v1alpha1.ConditionReady)
		if w.publishes != 1 || c == nil || !strings.Contains(c.Message, "upgrade registryd") {
			t.Errorf("%d publishes, %+v", w.publishes, c)
		}
	})
}
