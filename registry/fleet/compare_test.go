package fleet_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// count is a report on the calls of a step of route's candidate, which take a millisecond.
func (b *bench) count(agent string, activated script.Revision, step int, calls, failed uint64) {
	r := b.report(agent, activated)
	r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 1, StepCalls: &script.StepCalls{
		Step: step, FailedCalls: failed, First: script.LatencyBucket(time.Millisecond), Buckets: []uint64{calls},
	}}}
	b.Heard(r)
}

// compared is "failed/calls failed/calls" of route's candidate and of the active version.
func (b *bench) compared(want string) {
	b.t.Helper()
	got := "none"
	if list := b.Candidacies(); len(list) == 1 && list[0].Compared != nil {
		c := list[0].Compared
		got = fmt.Sprintf("%d/%d %d/%d", c.Candidate.FailedCalls, c.Candidate.Calls, c.Active.FailedCalls, c.Active.Calls)
		for _, t := range []fleet.Tally{c.Candidate, c.Active} {
			if n := t.Latencies[script.LatencyBucket(time.Millisecond)]; n != t.Calls {
				b.t.Errorf("%d of %d calls took a millisecond", n, t.Calls)
			}
		}
	}
	if got != want {
		b.t.Errorf("compared %s, want %s", got, want)
	}
}

// TestCompared: each agent counts for the version that it runs, from each step anew. What ended
// processes counted stays.
func TestCompared(t *testing.T) {
	b := newBench(t)
	above, below := aboveAndBelow(2)
	stable, canary := above[0], below[0]
	for _, agent := range []string{stable, canary} {
		b.Heard(b.report(agent, 10))
	}
	r := b.candidate(route, 12, 1, half)
	r.Settings.Rollout = script.Plan{Steps: []script.Step{{Percent: 50}, {Percent: 60}}}
	b.apply(r)
	b.count(canary, 12, 1, 10, 1)
	b.compared("none") // the plan does not compare

	r.Revision, r.Settings.Rollout.MaxErrorIncrease = 13, new(1.0)
	b.apply(r)
	b.compared("0/0 0/0")
	b.count(canary, 13, 1, 10, 1)
	b.count(stable, 13, 1, 100, 2)
	b.compared("1/10 2/100")
	b.count(canary, 13, 1, 30, 3)
	b.compared("3/30 2/100")
	b.count(canary, 13, 1, 20, 3) // there cannot be fewer
	b.count(canary, 13, 2, 50, 5) // another step
	b.compared("3/30 2/100")
	b.Heard(b.report(canary, 13)) // it says nothing of it
	b.compared("3/30 2/100")

	for _, agent := range []string{stable, canary} { // another process of the agent
		next := b.report(agent, 13)
		next.Incarnation = "later"
		next.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 1, StepCalls: &script.StepCalls{
			Step: 1, First: script.LatencyBucket(time.Millisecond), Buckets: []uint64{5},
		}}}
		b.Heard(next)
	}
	b.compared("3/35 2/105")

	next := r
	candidate := *r.Candidate
	next.Revision, next.Candidate = 14, &candidate
	next.Candidate.Step = 2
	b.apply(next)
	b.compared("0/0 0/0")
}

// TestWhoIsApart: an agent that is not heard, and is not to run the candidate, still runs the
// active version.
func TestWhoIsApart(t *testing.T) {
	b := newBench(t)
	above, below := aboveAndBelow(2)
	all := append(above, below...)
	hear := func(agents ...string) {
		for _, agent := range agents {
			b.Heard(b.report(agent, 12))
		}
	}
	hear(all...)
	r := b.candidate(route, 12, 1, half)
	r.Settings.Rollout = script.Plan{Steps: []script.Step{{Percent: 50}}, MaxErrorIncrease: new(1.0)}
	b.apply(r)
	apart := func(when string, want bool) {
		t.Helper()
		if c := b.Candidacies()[0]; c.Apart != want {
			t.Errorf("%s: apart %v, of %d agents %d are heard and %d are to run it", when, c.Apart, c.Known, c.Followers, c.Members)
		}
	}
	apart("at first", true)
	b.pass(20 * time.Second)
	hear(below...)
	b.Sweep()
	apart("when others are not heard", true)
	b.pass(20 * time.Second)
	hear(above[0], below[0])
	b.Sweep()
	apart("when one of each is not", true)
	for range 250 { // until who is not heard is forgotten
		b.pass(15 * time.Second)
		hear(below[0])
		b.Sweep()
	}
	apart("when nobody else is left", false)
}

// TestCountsAreBounded: an agent that counts calls of other candidates in each report takes no more
// memory than its identity has. Others count meanwhile, and what it took is free again in the end.
func TestCountsAreBounded(t *testing.T) {
	const bound, agents, scripts = 1 << 20, 20, 200
	b, revision := newBenchOf(t, fleet.Config{MaxReported: bound}), script.Revision(10)
	report := func(agent, identity string, trials ...fleet.Trial) {
		r := b.report(agent, revision)
		r.Identity, r.Trials = identity, trials
		b.Heard(r)
	}
	counted := func(i int, first int) fleet.Trial {
		name := script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}
		calls := &script.StepCalls{Step: 1, First: first, Buckets: make([]uint64, script.LatencyBuckets-first)}
		calls.Buckets[0] = 7
		return fleet.Trial{Name: name, Version: 2, Attempt: 1, Calls: 7, StepCalls: calls}
	}
	all := func(change func(*script.Release)) {
		for i := range scripts {
			revision++
			r := b.candidate(script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, revision, 1, math.MaxUint32)
			r.Settings.Rollout = script.Plan{Steps: []script.Step{{Percent: 99}, {Percent: 99}}, MaxErrorIncrease: new(1.0)}
			change(&r)
			b.apply(r)
		}
	}
	all(func(*script.Release) {})
	report("honest", "honest")
	for i := range agents {
		report(fmt.Sprint("liar-", i), "liar")
	}
	reported, heap := b.Counts().Reported, memtest.Heap()
	for s := range scripts {
		for i := range agents {
			report(fmt.Sprint("liar-", i), "liar", counted(s, 0))
		}
	}
	grown := memtest.Heap() - heap
	if kept := b.Counts().Reported; kept > bound/2+reported || kept < bound/4 {
		t.Errorf("%d bytes are kept of one identity, of %d for all", kept, bound)
	}
	if grown > bound {
		t.Errorf("the heap has grown by %d bytes, the bound is %d", grown, bound)
	}
	report("honest", "honest", counted(scripts-1, 100))
	found := false
	for _, c := range b.Candidacies() {
		if c.Release.Name.Script == fmt.Sprint("s", scripts-1) {
			found = c.Compared.Candidate.Calls == 7 && c.Running == 1
		}
	}
	if !found {
		t.Error("an honest agent's calls do not count beside those of an identity that has no memory left")
	}

	report("honest", "honest")
	all(func(r *script.Release) { r.Candidate.Step = 2 })
	for i := range agents {
		report(fmt.Sprint("liar-", i), "liar")
	}
	if kept := b.Counts().Reported; kept > reported+(agents+1)*scripts*64 {
		t.Errorf("in the next step %d bytes are kept, at first %d", kept, reported)
	}
	all(func(r *script.Release) { r.Candidate = nil })
	if kept := b.Counts().Reported; kept != reported {
		t.Errorf("without candidates %d bytes are kept, at first %d", kept, reported)
	}
}
