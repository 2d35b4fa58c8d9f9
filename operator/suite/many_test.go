package suite_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
)

// TestConflictStorm: while many others write the same object all the time, its metadata
// and its status, what its author changes comes through, and in the end the status is
// true. Nothing of what the others wrote to the metadata is lost.
func TestConflictStorm(t *testing.T) {
	w := start(t, 2)
	ls := w.create("route", 1)
	key := client.ObjectKeyFromObject(ls)
	const writers, each = 8, 25
	var storm sync.WaitGroup
	for n := range writers {
		storm.Go(func() {
			for i := range each {
				update(t, key, func(ls *v1alpha1.LuaScript) {
					metav1.SetMetaDataAnnotation(&ls.ObjectMeta, fmt.Sprintf("storm/w%d-%d", n, i), "x")
				})
			}
		})
	}
	storm.Go(func() {
		for range each {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Error","activeVersion":77}}`))
			target := &v1alpha1.LuaScript{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			if err := env.Client.Status().Patch(t.Context(), target, patch); err != nil {
				t.Error(err)
			}
		}
	})
	storm.Go(func() {
		for n := range each {
			update(t, key, func(ls *v1alpha1.LuaScript) { ls.Spec.Source = source(n + 2) })
		}
	})
	storm.Wait()
	var last v1alpha1.LuaScript
	if err := env.Client.Get(t.Context(), key, &last); err != nil {
		t.Fatal(err)
	}
	ls = w.await(&last, "told the truth again", func(ls *v1alpha1.LuaScript) bool {
		return is(ls, v1alpha1.ConditionConverged, metav1.ConditionTrue) && ls.Status.Phase == v1alpha1.PhaseActive && ls.Status.ActiveVersion != 77
	})
	w.answers("route", each+1)
	if got := len(ls.Annotations); got != writers*each {
		t.Errorf("%d annotations are there of %d", got, writers*each)
	}
	if len(ls.Finalizers) != 1 {
		t.Errorf("finalizers %v", ls.Finalizers)
	}
}

// update reads, changes and writes until nobody was in between.
func update(t *testing.T, key client.ObjectKey, f func(*v1alpha1.LuaScript)) {
	t.Helper()
	for {
		var ls v1alpha1.LuaScript
		if err := env.Client.Get(t.Context(), key, &ls); err != nil {
			t.Error(err)
			return
		}
		f(&ls)
		err := env.Client.Update(t.Context(), &ls)
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			t.Error(err)
		}
		return
	}
}

// manyPatience is how long a test waits for a thousand LuaScripts.
const manyPatience = 5 * time.Minute

// thousandWithin is how long a thousand LuaScripts may take to converge. The time is absolute, as
// the operator promises it on two cores. `make test` runs nothing beside this test.
const thousandWithin = time.Minute

// TestThousand: a thousand LuaScripts that come at once converge, and they all go.
func TestThousand(t *testing.T) {
	needs.Time(t, "needs a minute")
	needs.NoRace(t)
	const count = 1000
	w := start(t, 3)
	each := func(f func(i int) error) {
		t.Helper()
		var all sync.WaitGroup
		const workers = 10
		for worker := range workers {
			all.Go(func() {
				for i := worker; i < count; i += workers {
					if err := f(i); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	name := func(i int) string { return fmt.Sprintf("s-%d", i) }

	began := time.Now()
	each(func(i int) error { return env.Client.Create(t.Context(), w.luaScript(name(i), i)) })
	created := time.Since(began)
	w.all(count, "converged", func(ls *v1alpha1.LuaScript) bool { return is(ls, v1alpha1.ConditionConverged, metav1.ConditionTrue) })
	took := time.Since(began)
	t.Logf("%d LuaScripts: created in %v, converged on 3 agents %v after the first was created", count, created, took)
	if took > thousandWithin {
		t.Errorf("%d LuaScripts converged in %v, and %v was promised", count, took, thousandWithin)
	}
	for _, i := range []int{0, 1, count / 2, count - 1} {
		w.answers(name(i), i)
	}

	began = time.Now()
	each(func(i int) error { return env.Client.Delete(t.Context(), w.luaScript(name(i), 0)) })
	w.all(0, "gone", func(*v1alpha1.LuaScript) bool { return true })
	t.Logf("%d LuaScripts: deleted in %v", count, time.Since(began))
	for r, err := range w.registry.List(t.Context(), tenant) {
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s is still in the registry", r.Name)
	}
}

// all waits until so many LuaScripts of the namespace are as wanted, and no others are
// there.
func (w *world) all(count int, what string, ok func(*v1alpha1.LuaScript) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), manyPatience)
	defer cancel()
	// The API server ends a watch that does not keep up; the list is then read anew.
	for {
		right, there := w.count(ctx, count, ok)
		if right == count && there == count {
			return
		}
		if ctx.Err() != nil {
			w.t.Fatalf("%d of %d LuaScripts are %s, of %d that are there", right, count, what, there)
		}
	}
}

// count follows the LuaScripts until so many are there and all are as wanted, or the watch
// of them ends, and returns how many were.
func (w *world) count(ctx context.Context, want int, ok func(*v1alpha1.LuaScript) bool) (right, there int) {
	w.t.Helper()
	var list v1alpha1.LuaScriptList
	if err := env.Client.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	known := map[string]bool{}
	note := func(ls *v1alpha1.LuaScript) {
		if known[ls.Name] {
			right--
		}
		if known[ls.Name] = ok(ls); known[ls.Name] {
			right++
		}
	}
	for i := range list.Items {
		note(&list.Items[i])
	}
	events, err := env.Client.Watch(ctx, &v1alpha1.LuaScriptList{}, client.InNamespace(w.namespace), &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	defer events.Stop()
	for len(known) != want || right != want {
		event := <-events.ResultChan()
		ls, isOne := event.Object.(*v1alpha1.LuaScript)
		switch {
		case !isOne: // the watch has ended
			return right, len(known)
		case event.Type == watch.Deleted:
			if known[ls.Name] {
				right--
			}
			delete(known, ls.Name)
		default:
			note(ls)
		}
	}
	return right, len(known)
}
