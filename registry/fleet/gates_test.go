package fleet_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// try makes every replica know of a candidate of the script in the attempt and step; of none in
// attempt 0.
func (rs *replicas) try(name script.Name, attempt uint64, step int) {
	rs.state.Head++
	r := script.Release{
		Name: name, Revision: rs.state.Head, Latest: 2, Enabled: true, ChangedAt: time.Now(),
		Active: script.Version{Number: 1}, Retained: []script.Version{{Number: 1}, {Number: 2}},
		Settings: script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 1}, {Percent: 2}}}},
	}
	if attempt > 0 {
		r.Candidate = &script.Candidate{Version: r.Retained[1], Attempt: attempt, Step: step}
	}
	rs.state.Releases = []script.Release{r}
	for _, f := range rs.all {
		f.Apply(registry.Transaction{Revision: r.Revision, Releases: []script.Release{r}})
	}
}

// gateSays is what the replica knows of the gate of the only candidate.
func (r *replica) gateSays(t *testing.T) string {
	t.Helper()
	list := r.Candidacies()
	if len(list) != 1 {
		t.Fatalf("there are %d candidacies", len(list))
	}
	a := list[0].Gate
	switch {
	case a == nil:
		return "nothing"
	case a.Remembered:
		return "remembered " + a.Text
	}
	return a.Text
}

func (rs *replicas) wantGate(when string, want ...string) {
	rs.t.Helper()
	pass(time.Second)
	for i, r := range rs.all {
		if got := r.gateSays(rs.t); got != want[i] {
			rs.t.Errorf("%s: replica %d has %q, want %q", when, i, got, want[i])
		}
	}
}

// writes is how often the memory was written to.
func (rs *replicas) writes() (n int) {
	rs.memory.set(func() { n = rs.memory.writes })
	return n
}

// TestReplicasShareWhatGatesSay: what the leader hears, the others can show; it goes with the attempt.
func TestReplicasShareWhatGatesSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newReplicas(t)
		route := script.Name{Tenant: "acme", Script: "route"}
		rs.try(route, 5, 1)
		rs.wantGate("at first", "nothing", "nothing", "nothing")
		says := func(i int, attempt uint64, step int, text string) {
			rs.all[i].GateAnswered(route, fleet.GateAnswer{Attempt: attempt, Step: step, At: time.Now(), Result: fleet.GatePasses, Text: text})
		}
		says(0, 4, 1, "of another attempt")
		says(0, 5, 2, "of another step")
		rs.wantGate("what does not count", "nothing", "nothing", "nothing")
		says(0, 5, 1, "no")
		rs.wantGate("an answer", "no", "remembered no", "remembered no")
		rs.restart(1)
		rs.wantGate("after a restart", "no", "remembered no", "remembered no")
		rs.restart(0)
		rs.wantGate("after a restart of the leader", "remembered no", "remembered no", "remembered no")

		pass(20 * time.Second)
		rs.leader.Store(2)
		says(2, 5, 1, "not yet")
		rs.wantGate("of the next leader", "remembered not yet", "remembered not yet", "not yet")

		before := rs.writes()
		for i := range 60 {
			says(2, 5, 1, fmt.Sprint("the value is ", i))
			pass(time.Second)
		}
		if n := rs.writes() - before; n < 4 || n > 8 {
			t.Errorf("%d writes in a minute", n)
		}
		pass(20 * time.Second)
		rs.wantGate("in the end", "remembered the value is 59", "remembered the value is 59", "the value is 59")
		before = rs.writes()
		for range 60 {
			says(2, 5, 1, "the value is 59")
			pass(time.Second)
		}
		if n := rs.writes() - before; n > 0 {
			t.Errorf("%d writes of nothing new", n)
		}

		rs.try(route, 9, 1)
		rs.wantGate("in another attempt", "nothing", "nothing", "nothing")
		pass(time.Minute)
		rs.memory.set(func() {
			if n := len(rs.memory.gates); n > 0 {
				t.Errorf("%d gates are remembered of an attempt that is over", n)
			}
		})
		says(2, 9, 1, "again")
		pass(time.Minute)
		rs.try(route, 0, 0)
		pass(time.Minute)
		rs.memory.set(func() {
			if n := len(rs.memory.gates); n > 0 {
				t.Errorf("%d gates are remembered without a candidate", n)
			}
		})
	})
}

// TestAGateThatNobodyHas: what is remembered of a candidate that ended while no registry ran goes.
func TestAGateThatNobodyHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newReplicas(t)
		route := script.Name{Tenant: "acme", Script: "route"}
		rs.memory.set(func() {
			rs.memory.gates[route] = fleet.Memo{Script: route, Gate: &fleet.GateAnswer{Attempt: 3, Step: 1, Text: "old"}}
		})
		for i := range rs.all {
			rs.restart(i)
		}
		pass(time.Minute)
		rs.memory.set(func() {
			if n := len(rs.memory.gates); n > 0 {
				t.Errorf("%d gates are remembered", n)
			}
		})
	})
}
