package suite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
)

// observe calls seen with each state of a LuaScript, in order, until stop is called.
func (w *world) observe(ls *v1alpha1.LuaScript, seen func(*v1alpha1.LuaScript)) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	events, err := env.Client.Watch(ctx, &v1alpha1.LuaScriptList{}, client.InNamespace(ls.Namespace), client.MatchingFields{"metadata.name": ls.Name})
	if err != nil {
		cancel()
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			if got, ok := event.Object.(*v1alpha1.LuaScript); ok && event.Type != watch.Deleted {
				seen(got)
			}
		}
	}()
	return func() {
		events.Stop()
		cancel()
		<-done
	}
}

// waitWith runs kubectl wait for the condition Converged.
func (w *world) waitWith(ls *v1alpha1.LuaScript, timeout string) (said string, err error) {
	w.t.Helper()
	stdout, stderr, err := env.Kubectl(w.t.Context(), "", "wait", "--for=condition=Converged", "--timeout="+timeout, "-n", ls.Namespace, "luascript/"+ls.Name)
	return stdout + stderr, err
}

// TestConvergedIsTrue: as long as one agent has not activated what the spec says,
// `kubectl wait` does not return; when it has, it does.
func TestConvergedIsTrue(t *testing.T) {
	w := start(t, 2)
	hold := w.addGated("held")
	ls := w.await(w.create("route", 1), "on three agents", func(ls *v1alpha1.LuaScript) bool {
		return is(ls, v1alpha1.ConditionConverged, metav1.ConditionTrue) && ls.Status.Agents.Summary == "3/3"
	})
	for n := 2; n < 5; n++ {
		release := hold()
		lies := make(chan v1alpha1.LuaScriptStatus, 1000)
		stop := w.observe(ls, func(ls *v1alpha1.LuaScript) {
			if ls.Generation == int64(n) && is(ls, v1alpha1.ConditionConverged, metav1.ConditionTrue) {
				lies <- ls.Status
			}
		})
		ls = w.change(ls, func(s *spec) { s.Source = source(n) })
		ls = w.await(ls, "on two agents of three", func(ls *v1alpha1.LuaScript) bool {
			return is(ls, v1alpha1.ConditionConverged, metav1.ConditionFalse) && ls.Status.Agents.Summary == "2/3"
		})
		if ls.Status.Phase != v1alpha1.PhasePending || !strings.Contains(message(ls, v1alpha1.ConditionConverged), "2 of 3 agents") {
			t.Errorf("%+v", ls.Status)
		}
		if said, err := w.waitWith(ls, "1s"); err == nil {
			t.Errorf("kubectl wait came back: %s", said)
		}
		if result, err := w.agents[2].Call(t.Context(), tenant+"/route"); err != nil || string(result.Values[0]) != fmt.Sprint(n-1) {
			t.Errorf("the agent was not held back: %v, %v", result, err)
		}
		if len(lies) > 0 {
			t.Fatalf("told that it had converged: %+v", <-lies)
		}
		release()
		if said, err := w.waitWith(ls, patience.String()); err != nil {
			t.Errorf("kubectl wait: %v %s", err, said)
		}
		w.answers("route", n)
		stop()
	}
}

// TestConvergedAtEachMoment: whenever the status says that a generation has converged,
// each agent answers with that or a later one, however fast the changes come.
func TestConvergedAtEachMoment(t *testing.T) {
	w := start(t, 3)
	ls := w.converged(w.create("route", 1))
	checked := 0
	var last atomic.Int64 // generation that was checked
	stop := w.observe(ls, func(ls *v1alpha1.LuaScript) {
		if !is(ls, v1alpha1.ConditionConverged, metav1.ConditionTrue) {
			return
		}
		checked++
		defer last.Store(ls.Generation)
		for i, agent := range w.agents {
			result, err := agent.Call(t.Context(), tenant+"/route")
			if err != nil {
				t.Errorf("generation %d, agent-%d: %v", ls.Generation, i+1, err)
				continue
			}
			if n, err := strconv.Atoi(string(result.Values[0])); err != nil || int64(n) < ls.Generation {
				t.Errorf("generation %d is said to have converged, and agent-%d answers %s", ls.Generation, i+1, result.Values[0])
			}
		}
	})
	for range 5 {
		for range 6 { // in a row
			ls = w.change(ls, func(s *spec) { s.Source = source(int(ls.Generation) + 1) })
		}
		ls = w.converged(ls)
		w.eventually("it is checked", func() bool { return last.Load() == ls.Generation })
	}
	stop()
	if checked < 5 {
		t.Errorf("checked %d times", checked)
	}
}

// TestPace: however often something changes on the fleet, a LuaScript's status is
// written once a second on average.
func TestPace(t *testing.T) {
	w := start(t, 2)
	ls := w.converged(w.create("route", 1))
	writes, generation := -1, ls.Generation // the first is what there is
	var last string
	stop := w.observe(ls, func(ls *v1alpha1.LuaScript) {
		if ls.Generation != generation {
			generation = ls.Generation
			return // the spec, which is not the operator's
		}
		if ls.ResourceVersion != last {
			writes++
		}
		last = ls.ResourceVersion
	})
	began := time.Now()
	for n := range 12 {
		if err := w.StopAgent(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		w.eventually("the registry knows", func() bool { return w.desired() == 1 })
		ls = w.change(ls, func(s *spec) { s.Source = source(n + 2) })
		if err := w.StartAgent(2); err != nil {
			t.Fatal(err)
		}
		w.eventually("the registry knows", func() bool { return w.desired() == 2 })
	}
	took := time.Since(began)
	w.await(ls, "on both agents", func(ls *v1alpha1.LuaScript) bool {
		return is(ls, v1alpha1.ConditionConverged, metav1.ConditionTrue) && ls.Status.Agents.Summary == "2/2"
	})
	took = max(took, time.Since(began))
	stop()
	t.Logf("%d writes of the status in %v", writes, took)
	if most := int(took.Seconds()) + 3; writes > most {
		t.Errorf("the status was written %d times in %v, at most %d times was promised", writes, took, most)
	}
}

// desired returns how many agents should run the script, as the registry says.
func (w *world) desired() int {
	w.t.Helper()
	status, err := w.registry.Status(w.t.Context(), nameOf("route"))
	if err != nil {
		w.t.Fatal(err)
	}
	if len(status.Scripts) == 0 {
		return 0
	}
	return status.Scripts[0].Desired
}

// TestFailsOnNode: an agent that cannot activate a release goes on with what it had; the
// LuaScript names it, with the reason, until it can.
func TestFailsOnNode(t *testing.T) {
	w := start(t, 2)
	ls := w.converged(w.create("route", 1))
	temporary := filepath.Join(w.AgentDir(2), "state", "tmp") // where each write begins
	if err := os.Rename(temporary, temporary+".away"); err != nil {
		t.Fatal(err)
	}
	large := func(s *spec) { // which an agent does not keep anywhere else first
		s.Source = new(*source(2) + strings.Repeat("-- a word or two about it\n", 3000))
		s.Limits = &v1alpha1.Limits{SourceBytes: new(int64(1 << 20))}
	}
	ls = w.await(w.change(ls, large), "failed on an agent", func(ls *v1alpha1.LuaScript) bool {
		return is(ls, v1alpha1.ConditionConverged, metav1.ConditionFalse) && ls.Status.Agents.Failed == 1 && ls.Status.Agents.Active == 1
	})
	if f := ls.Status.Agents.Failing; len(f) != 1 || f[0].Agent != "agent-2" || !strings.Contains(f[0].Reason, "tmp") {
		t.Errorf("failing: %+v", f)
	}
	if ls.Status.Phase != v1alpha1.PhaseError || ls.Status.Agents.Summary != "1/2" || !strings.Contains(message(ls, v1alpha1.ConditionReady), "agent-2") {
		t.Errorf("%+v", ls.Status)
	}
	if said := message(ls, v1alpha1.ConditionReconciling); !strings.Contains(said, "the agents retry it") || message(ls, v1alpha1.ConditionStalled) != "" {
		t.Errorf("the status does not say that the agents retry: %+v", ls.Status.Conditions)
	}
	w.told(ls, "FailedOnNode")
	for i, want := range []string{"2", "1"} {
		if result, err := w.agents[i].Call(t.Context(), tenant+"/route"); err != nil || string(result.Values[0]) != want {
			t.Errorf("agent-%d answers %v, %v, want %s", i+1, result, err, want)
		}
	}
	if err := os.Rename(temporary+".away", temporary); err != nil {
		t.Fatal(err)
	}
	ls = w.converged(ls)
	w.answers("route", 2)
	if len(ls.Status.Agents.Failing) != 0 || ls.Status.Phase != v1alpha1.PhaseActive {
		t.Errorf("%+v", ls.Status)
	}
}
