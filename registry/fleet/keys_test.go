package fleet_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// byKey is a release whose candidate takes one percent of the keys in the first of two steps, and then
// half of the agents.
func (b *bench) byKey(revision script.Revision, step int) script.Release {
	r := b.candidate(route, revision, 1, 0)
	r.Settings.Rollout = script.Plan{Steps: []script.Step{{By: script.ByKey, Percent: 1}, {Percent: 50}}, MaxErrorIncrease: new(1.0)}
	r.Candidate.Step = step
	if step > 0 {
		r.Candidate.Select(r.Settings.Rollout.Steps[0], script.KeyThreshold(1))
	}
	if step > 1 {
		r.Candidate.Threshold = half
	}
	return r
}

// both is a report of an agent on the calls of both versions in a step.
func (b *bench) both(agent string, keys bool, step int, candidate, active uint64) {
	of := func(n uint64) *script.StepCalls {
		if n == 0 {
			return nil
		}
		return &script.StepCalls{Step: step, First: script.LatencyBucket(time.Millisecond), Buckets: []uint64{n}}
	}
	r := b.report(agent, 12)
	r.Keys = keys
	r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 1, Calls: candidate, StepCalls: of(candidate), ActiveCalls: of(active)}}
	b.Heard(r)
}

// TestComparedByKey: in a step by key each agent of it counts both versions. What agents count that
// are not of it, or in another step, counts for nothing.
func TestComparedByKey(t *testing.T) {
	b := newBench(t)
	above, below := aboveAndBelow(2)
	stable, canary := above[0], below[0]
	for _, agent := range []string{stable, canary} {
		b.both(agent, true, 0, 0, 0)
	}
	b.both("old", false, 0, 0, 0)
	b.apply(b.byKey(12, 1))
	b.both(stable, true, 1, 2, 198)
	b.both(canary, true, 1, 1, 99)
	b.both("old", false, 1, 0, 0)
	b.compared("0/3 0/297")
	if c := b.candidacy(); !c.Apart || c.Members != 2 || c.TooOld != 1 {
		t.Errorf("apart: %v, %d members, %d too old", c.Apart, c.Members, c.TooOld)
	}
	if got := b.route().Trials; fmt.Sprint(got.WaitingFor) != "[old]" || got.WaitingWhy != "its software does not know steps by key: upgrade agentd" {
		t.Errorf("it waits for %v: %s", got.WaitingFor, got.WaitingWhy)
	}
	r := b.report("old", 12) // which runs the active version for all calls, with keys and without
	r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 1, StepCalls: &script.StepCalls{Step: 1, First: script.LatencyBucket(time.Millisecond), Buckets: []uint64{7}}}}
	b.Heard(r)
	b.both(stable, true, 2, 9, 9)
	b.both(canary, true, 1, 1, 98) // there cannot be fewer
	b.compared("0/3 0/297")
	before := b.Counts().Reported
	next := b.both2(canary) // another process of the agent
	b.Heard(next)
	b.compared("0/4 0/302")
	if got := b.Counts().Reported; got > before+8 { // the name of the process is longer
		t.Errorf("%d bytes are kept of what agents said, before %d", got, before)
	}

	b.apply(b.byKey(13, 2))
	b.both(stable, true, 2, 10, 90)
	b.compared("0/10 0/90")
	if c := b.candidacy(); !c.Apart {
		t.Error("an agent that runs the candidate for some keys is left to compare with, and nobody knows")
	}
}

// both2 is the first report of another process of the agent.
func (b *bench) both2(agent string) fleet.Report {
	r := b.report(agent, 12)
	r.Keys, r.Incarnation = true, "later"
	calls := func(n uint64) *script.StepCalls {
		return &script.StepCalls{Step: 1, First: script.LatencyBucket(time.Millisecond), Buckets: []uint64{n}}
	}
	r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 1, Calls: 1, StepCalls: calls(1), ActiveCalls: calls(5)}}
	return r
}

// TestAgentsThatEndInAStepByKey are lost: they ran the candidate, if for some keys alone.
func TestAgentsThatEndInAStepByKey(t *testing.T) {
	b := newBench(t)
	b.both("a", true, 0, 0, 0)
	b.both("old", false, 0, 0, 0)
	b.apply(b.byKey(12, 1))
	b.both("a", true, 1, 1, 9)
	b.both("old", false, 1, 0, 0)
	for _, agent := range []string{"a", "old"} {
		r := b.report(agent, 12)
		r.Keys, r.Incarnation = agent == "a", "later"
		b.Heard(r)
	}
	if got := b.candidacy().Lost; !slices.Equal(got, []string{"a"}) {
		t.Errorf("lost are %v, want a, which ran it", got)
	}
}

// TestKnowingKeysDoesNotChange while a process runs: it would leave the agents of a step, or join them.
func TestKnowingKeysDoesNotChange(t *testing.T) {
	b := newBench(t)
	b.both("a", true, 0, 0, 0)
	b.apply(b.byKey(12, 1))
	b.both("a", false, 1, 1, 9)
	if c := b.candidacy(); c.Members != 1 || c.TooOld != 0 {
		t.Errorf("%d members, %d too old", c.Members, c.TooOld)
	}
}

func TestUnmetKeys(t *testing.T) {
	b := newBench(t)
	b.both("new", true, 0, 0, 0)
	b.both("old", false, 0, 0, 0)
	b.apply(b.byKey(12, 0))
	b.RollCalled()
	b.pass(20 * time.Second)
	b.both("new", true, 0, 0, 0)
	b.both("old", false, 0, 0, 0)
	b.Sweep()
	got, err := b.Unmet(t.Context(), "ann", route, script.Plan{Steps: []script.Step{{Percent: 1, Selector: "zone=a"}, {By: script.ByKey, Percent: 1}, {By: script.ByKey, Percent: 2}}})
	want := []string{"step 1: no connected agent has the labels zone=a", "step 2: 1 of the connected agents do not know steps by key: upgrade agentd there"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// TestCallsThatDoNotCountTakeNoMemory: agents tell them in each report, as long as the step lasts.
func TestCallsThatDoNotCountTakeNoMemory(t *testing.T) {
	b := newBench(t)
	b.both("old", false, 0, 0, 0)
	b.both("new", true, 0, 0, 0)
	b.apply(b.byKey(12, 1))
	report := func(n uint64) int {
		r := b.report("old", 12) // the active version, for calls with keys and without
		calls := &script.StepCalls{Step: 1, First: script.LatencyBucket(time.Millisecond), Buckets: []uint64{n}}
		r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 1, StepCalls: calls, ActiveCalls: calls}}
		b.Heard(r)
		return b.Counts().Reported
	}
	first := report(1)
	for n := uint64(2); n < 100; n++ {
		if got := report(n); got > first {
			t.Fatalf("%d bytes are kept after %d reports, and %d after one", got, n, first)
		}
	}
}
