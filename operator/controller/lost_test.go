package controller

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// expect checks the events since its last call.
func (w *world) expect(when string, want ...string) {
	w.t.Helper()
	if got := w.told(); !slices.Equal(got, want) {
		w.t.Errorf("%s: the events are %q, want %q", when, got, want)
	}
}

// edit makes the source answer with n, in another generation.
func (w *world) edit(n string) *v1alpha1.LuaScript {
	w.t.Helper()
	ls := &v1alpha1.LuaScript{}
	if err := w.client.Get(w.t.Context(), key, ls); err != nil {
		w.t.Fatal(err)
	}
	ls.Generation++ // as the API server does
	ls.Spec.Source = new("function handle() return " + n + " end")
	w.update(ls)
	return ls
}

// fails reconciles until the API server's answers do not let it come to its end.
func (w *world) fails() {
	w.t.Helper()
	for range 50 {
		if _, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	w.t.Fatal("it did not fail")
}

// apiFault is what becomes of writes.
type apiFault int

const (
	none   apiFault = iota
	denied          // the write is not done
	lost            // it is, and the answer is lost
)

var errAPI = errors.New("the API server does not answer")

// of returns what a write comes to.
func (f *apiFault) of(write func() error) error {
	if *f == denied {
		return errAPI
	}
	err := write()
	if *f == lost {
		return errors.Join(err, errAPI)
	}
	return err
}

// newFaultyWorld returns a world that is ready, and what befalls the writes of its
// LuaScript's metadata, and of its status.
func newFaultyWorld(t *testing.T) (w *world, metadata, status *apiFault) {
	t.Helper()
	metadata, status = new(apiFault), new(apiFault)
	w = newWorld(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return metadata.of(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return status.of(func() error { return c.SubResource(name).Patch(ctx, o, p, opts...) })
		},
	})
	w.ready()
	return w, metadata, status
}

// TestOperatorStartsWithoutTheRegistry: what the status said of the release stays, and has
// no event again, while the operator cannot ask the registry.
func TestOperatorStartsWithoutTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, away := range []bool{false, true} { // the fleet, too
			w, _, _ := newFaultyWorld(t)
			w.pass(time.Second)
			w.candidates = true
			ls := w.edit("2")
			ls.Spec.Rollout = &v1alpha1.Rollout{Steps: []v1alpha1.RolloutStep{{Percent: 10, Pause: new("1h")}}}
			w.update(ls)
			w.pass(2 * time.Second)
			w.advance(func(r *script.Release) { r.Candidate.Step, r.Candidate.Percent = 1, 10 })
			before := w.pass(2 * time.Second).Status
			w.expect("in a step", "Published", "Converged", "Published", "Configured", "RolloutStep")

			w.down, w.away = errDown, away
			for range 2 {
				w.restart(0)
				ls = w.pass(2 * time.Second)
			}
			if c := meta.FindStatusCondition(ls.Status.Conditions, v1alpha1.ConditionPublished); c.Status != metav1.ConditionUnknown || c.Reason != "RegistryUnavailable" {
				t.Errorf("without the registry: %+v", c)
			}
			stays := *before.DeepCopy()
			stays.Conditions, stays.Phase, stays.LastUpdateTime = ls.Status.Conditions, ls.Status.Phase, ls.Status.LastUpdateTime
			if stays.Candidate == nil || stays.ActiveVersion != 1 || !equality.Semantic.DeepEqual(stays, ls.Status) {
				t.Errorf("without the registry\n got %+v\nwant %+v", ls.Status, stays)
			}
			w.down, w.away = nil, false
			w.pass(2 * time.Second)
			w.expect("it is back")
			w.advance(func(r *script.Release) { r.Active, r.Candidate = r.Candidate.Version, nil })
			w.pass(2 * time.Second)
			w.expect("promoted", "Promoted", "Converged")

			w.down, w.away = errDown, away
			for range 2 { // the first says that it is not known whether it has converged
				w.restart(0)
				w.pass(2 * time.Second)
			}
			w.down, w.away = nil, false
			w.pass(2 * time.Second)
			w.expect("it is back again")

			w.down = errDown
			w.restart(0)
			if err := w.client.Delete(t.Context(), ls); err != nil {
				t.Fatal(err)
			}
			if ls = w.pass(2 * time.Second); ls.Status.ActiveVersion != 2 || ls.Status.Agents == nil {
				t.Errorf("deleted without the registry: %+v", ls.Status)
			}
		}
	})
}

// TestOperatorStartsWithoutTheScript: where the fleet tells that there is none, nobody has to
// be asked, and nothing is said of it anymore.
func TestOperatorStartsWithoutTheScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := newFaultyWorld(t)
		w.pass(time.Second)
		st := &v1alpha1.ScriptTenant{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
		if err := w.client.Delete(t.Context(), st); err != nil {
			t.Fatal(err)
		}
		w.release, w.down = nil, errDown
		w.revision++
		w.restart(0)
		if s := w.pass(2 * time.Second).Status; s.ActiveVersion != 0 || s.Revision != 0 || s.History != nil || s.Phase != v1alpha1.PhaseError {
			t.Errorf("%+v", s)
		}
	})
}

// TestRegistryGoesAway: the status reports the agents of a known release while the operator
// cannot ask the registry, but can watch the fleet.
func TestRegistryGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := newFaultyWorld(t)
		w.pass(time.Second)
		w.down = errDown
		w.edit("2")
		w.pass(2 * time.Second)
		w.slow = true
		if s := w.pass(2 * time.Second).Status; s.ActiveVersion != 1 || s.Agents == nil || s.Agents.Active != 0 || s.Agents.Desired != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestAnswerToTheStatusIsLost: what a status says has one event, whether or not the API
// server said that it has the status.
func TestAnswerToTheStatusIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fault := range []apiFault{lost, denied} {
			w, _, status := newFaultyWorld(t)
			try := func(when string, want ...string) {
				t.Helper()
				*status = fault
				w.fails()
				w.expect(when + ", and the answer is lost")
				*status = none
				w.pass(2 * time.Second)
				w.expect(when, want...)
			}
			try("created", "Published", "Converged")
			if n, _ := w.samples(); n != 1 {
				t.Errorf("%d samples", n)
			}
			w.failures = []registryclient.AgentFailure{{Agent: "node-1", Err: script.Errorf(script.Internal, "", "the disk is full")}}
			<-time.After(time.Hour)
			try("an agent fails", "FailedOnNode")
			w.failures = nil
			w.pass(2 * time.Second)
			w.expect("it does no more")
			w.answer = func(registryclient.PublishRequest) (registryclient.Published, error) {
				return registryclient.Published{}, script.Errorf(script.Denied, "", "no")
			}
			w.edit("2")
			try("refused", "Refused")
			w.edit("3")
			*status = fault
			w.fails()
			*status, w.slow = none, true // the next status is another one
			w.pass(2 * time.Second)
			w.expect("refused, and an agent is behind", "Refused")
		}
	})
}

// TestOperatorDiesAfterAPublish: the one after it tells of what the status does not say.
func TestOperatorDiesAfterAPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, status := newFaultyWorld(t)
		w.slow = true // so that the status waits for the agents
		if ls := w.reconcile(); w.publishes != 1 || ls.Status.Revision != 0 {
			t.Fatalf("%d publishes, %+v", w.publishes, ls.Status)
		}
		w.restart(0)
		w.slow = false
		w.pass(2 * time.Second)
		w.expect("created", "Published", "Converged")

		w.edit("2")
		*status = denied
		w.fails()
		w.restart(0)
		*status = none
		w.pass(2 * time.Second)
		w.expect("edited, and the status was not written", "Published", "Converged")

		w.restart(0)
		w.pass(2 * time.Second)
		w.expect("started again")
		w.advance(func(*script.Release) {})
		w.pass(2 * time.Second)
		w.expect("somebody else wrote what was there")
		if w.publishes != 2 {
			t.Errorf("%d publishes", w.publishes)
		}
	})
}

// TestAnswerToTheFarewellIsLost: one event says that a script is gone, or stays, also if
// the API server did not say that the LuaScript went.
func TestAnswerToTheFarewellIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reason := range []string{"Deleted", "Abandoned"} {
			for _, next := range []string{"gone", "held", "created anew"} {
				w, metadata, _ := newFaultyWorld(t)
				ls := w.pass(time.Second)
				w.told()
				if reason == "Abandoned" {
					ls.Annotations = map[string]string{v1alpha1.AbandonAnnotation: "true"}
				}
				if next == "held" {
					ls.Finalizers = append(ls.Finalizers, "example.com/theirs")
				}
				w.update(ls)
				if err := w.client.Delete(t.Context(), ls); err != nil {
					t.Fatal(err)
				}
				*metadata = lost
				w.fails()
				*metadata = none
				want := []string{reason}
				if next == "created anew" {
					again := &v1alpha1.LuaScript{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Generation: 1, UID: "2"}, Spec: ls.Spec}
					if err := w.client.Create(t.Context(), again); err != nil {
						t.Fatal(err)
					}
					want = append(want, "Published", "Converged") // also of one that was left there
				}
				w.pass(2 * time.Second)
				w.expect(reason+", "+next, want...)
			}
		}
	})
}

// TestAnswerToADeleteIsLost: one event says that the script is gone, also if the registry
// did not say that it deleted it.
func TestAnswerToADeleteIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := newFaultyWorld(t)
		ls := w.pass(time.Second)
		w.told()
		w.losesDelete = true
		if err := w.client.Delete(t.Context(), ls); err != nil {
			t.Fatal(err)
		}
		if w.pass(5*time.Second) != nil {
			t.Fatal("it is still there")
		}
		w.expect("deleted", "Deleted")
	})
}

// TestDeletedBeforeItIsHeld: nothing is wrong, and nothing is published, if the LuaScript goes
// before it has its finalizer.
func TestDeletedBeforeItIsHeld(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := c.Delete(ctx, o); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	w.ready()
	if ls := w.reconcile(); ls != nil || w.publishes != 0 {
		t.Errorf("%d publishes, %v", w.publishes, ls)
	}
}

// TestAnswerToAPublishIsLost: a publish has one event, whenever it reaches the registry, and
// none if it never does.
func TestAnswerToAPublishIsLost(t *testing.T) {
	timeout := script.Errorf(script.Timeout, "", "the registry took too long")
	var late registryclient.PublishRequest
	lose := func(w *world, lands bool) {
		w.answer = func(p registryclient.PublishRequest) (registryclient.Published, error) {
			if late = p; lands {
				w.apply(p)
			}
			w.answer = nil
			return registryclient.Published{}, timeout
		}
	}
	tests := []struct {
		name string
		next func(*world)
		want []string
	}{
		{"it was done", func(w *world) { lose(w, true); w.reconcile() }, []string{"Published", "Converged"}},
		{"it was not", func(w *world) { lose(w, false); w.reconcile() }, []string{"Published", "Converged"}},
		{
			"it is done while it is asked for again",
			func(w *world) {
				lose(w, false)
				w.reconcile()
				w.answer = func(registryclient.PublishRequest) (registryclient.Published, error) {
					w.apply(late)
					return registryclient.Published{Release: *w.release}, nil
				}
			},
			[]string{"Published", "Converged"},
		},
		{
			"it is done after it was asked for again in vain",
			func(w *world) {
				lose(w, false)
				w.reconcile()
				w.answer = func(registryclient.PublishRequest) (registryclient.Published, error) {
					w.answer = nil
					return registryclient.Published{}, script.Errorf(script.Overloaded, "", "not now")
				}
				<-time.After(time.Second)
				w.reconcile()
				w.apply(late)
			},
			[]string{"Published", "Converged"},
		},
		{"it was done, and there is an edit", func(w *world) { lose(w, true); w.reconcile(); w.edit("3") }, []string{"Published", "Published", "Converged"}},
		{"it was not, and there is an edit", func(w *world) { lose(w, false); w.reconcile(); w.edit("3") }, []string{"Published", "Converged"}},
		{
			"it was not, and there is an edit, but what was there before has moved on",
			func(w *world) { lose(w, false); w.reconcile(); w.edit("3"); w.advance(func(*script.Release) {}) },
			[]string{"Published", "Converged"},
		},
		{
			"it was not, and the edit is taken back",
			func(w *world) { lose(w, false); w.reconcile(); w.edit("1") }, nil,
		},
		{
			"it was not, as somebody else asked for the same",
			func(w *world) {
				w.answer = func(p registryclient.PublishRequest) (registryclient.Published, error) {
					w.apply(p)
					return registryclient.Published{Release: *w.release}, nil
				}
			},
			nil,
		},
		{
			"it was not, as somebody else was faster, and there is an edit",
			func(w *world) {
				lose(w, false)
				w.reconcile()
				w.force()
				w.release.Enabled, w.release.Owner = true, "mia"
				w.edit("3")
			},
			[]string{"Published", "TakenOver", "Converged"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _, _ := newFaultyWorld(t)
				w.pass(time.Second)
				w.edit("1")
				w.pass(2 * time.Second)
				w.told()
				w.edit("2")
				tt.next(w)
				w.pass(5 * time.Second)
				w.expect(tt.name, tt.want...)
			})
		})
	}
	// The first there is: there is nothing to compare it with.
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := newFaultyWorld(t)
		lose(w, true)
		ls := w.reconcile()
		ls.Generation, ls.Spec.Enabled = 2, new(true) // which changes nothing
		w.update(ls)
		w.pass(2 * time.Second)
		w.expect("the first, edited", "Published", "Converged")
	})
}
