package rollout_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/rollout"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestRecordsThatNobodyWrote: of a record that is not as a registry writes it, whatever its numbers
// are, nothing goes live that was not seen to run in a step of the plan, and nothing panics.
func TestRecordsThatNobodyWrote(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	number := func() int {
		odd := []int{math.MinInt32, -2, -1, 0, 1, 2, 3, 50, 150, math.MaxInt32}
		return odd[random.IntN(len(odd))]
	}
	moment := func() time.Time {
		odd := []time.Time{{}, time.Unix(math.MinInt64, 0), time.Unix(math.MaxInt64, 999), noon, noon.Add(-time.Hour), time.Unix(1<<40, 0)}
		return odd[random.IntN(len(odd))]
	}
	span := func() time.Duration {
		odd := []time.Duration{math.MinInt64, -1, 0, 1, time.Hour, math.MaxInt64}
		return odd[random.IntN(len(odd))]
	}
	selector := func() script.AgentSelector {
		return []script.AgentSelector{"", "zone=a", "zone=b", "=", ","}[random.IntN(5)]
	}
	gates := []script.Gate{{}, {}, {}, {Kind: script.Webhook, Source: "ci"}, {Kind: "x"}, {Query: "up"}}
	for range 20_000 {
		c := candidacy()
		candidate, plan := c.Release.Candidate, &c.Release.Settings.Rollout
		candidate.Step, candidate.Approved, candidate.Percent = number(), number(), number()
		candidate.Since, candidate.Running, c.Release.ChangedAt, c.Missing = moment(), moment(), moment(), moment()
		candidate.Calls, candidate.FailedCalls, candidate.Before = uint64(number()), uint64(number()), uint64(number())
		c.Calls, c.FailedCalls, c.EndedCalls, c.EndedFailedCalls = uint64(number()), uint64(number()), uint64(number()), uint64(number())
		candidate.Lost = make([]string, max(0, number())%1000)
		plan.MaxErrorPercent, plan.MinCalls = []*float64{nil, new(math.NaN()), new(math.Inf(1)), new(-1.0), new(0.0)}[random.IntN(5)], []*int{nil, new(number())}[random.IntN(2)]
		plan.FailureLimit, plan.Tolerate = script.Amount{Count: number(), Percent: number()}, script.Amount{Count: number(), Percent: number(), None: random.IntN(2) == 0}
		plan.ProgressDeadline = span()
		for i := range plan.Steps {
			plan.Steps[i] = script.Step{Percent: number(), Pause: span(), Approval: random.IntN(2) == 0, Selector: selector(), Gate: gates[random.IntN(len(gates))]}
		}
		if random.IntN(2) == 0 {
			candidate.Selections = []script.Selection{{Selector: selector(), Threshold: random.Uint32()}}
		}
		c.Eligible, c.Own.Members, c.Own.Running, c.Own.Confirmed = random.IntN(3), random.IntN(3), random.IntN(3), random.IntN(3)
		c.Gate = []*fleet.GateAnswer{nil, {Attempt: uint64(number()), Step: number(), At: moment(), Result: fleet.GatePasses}, {Attempt: candidate.Attempt, Step: candidate.Step, At: noon, Result: "x"}}[random.IntN(3)]
		in, inPlan := c.Release.StepOf()
		next := c.Release.NextStep()
		switch m := rollout.Next(c, noon).Move; {
		case inPlan != (candidate.Step > 0 && candidate.Step <= len(plan.Steps)):
			t.Fatalf("step %d of %d is in the plan: %t", candidate.Step, len(plan.Steps), inPlan)
		case m.Step > 0 && (plan.Steps[m.Step-1] != next || next.Percent < 0 || next.Percent == 0 && next.Selector == ""):
			t.Fatalf("step %d of the plan %+v begins", m.Step, plan.Steps)
		case (m.Promote || m.Step > 0) && !in.Gate.IsZero() && (c.Gate == nil || c.Gate.Result != fleet.GatePasses || c.Gate.Step != candidate.Step || c.Gate.Attempt != candidate.Attempt):
			t.Fatalf("it passes the gate %s, which says %+v", in.Gate, c.Gate)
		case m.Promote && candidate.Step != len(plan.Steps):
			t.Fatalf("it goes live from step %d of %d: %+v", candidate.Step, len(plan.Steps), c)
		case m.Step < 0 || m.Step > len(plan.Steps):
			t.Fatalf("step %d of %d: %+v", m.Step, len(plan.Steps), c)
		case m.Step > 0:
			rollout.Threshold([]uint32{1, 1 << 20, 1 << 31}, plan.Steps[m.Step-1].Percent, candidate.Threshold)
		}
	}
}

// TestARegistryThatDropsSelectors: one of an earlier edition writes a plan without them. Then such
// a step would take one agent, or all, and takes none.
func TestARegistryThatDropsSelectors(t *testing.T) {
	for _, step := range []int{0, 1} {
		c := candidacy()
		c.Release.Candidate.Step, c.Release.Candidate.Running = step, noon.Add(-time.Hour)
		c.Release.Settings.Rollout.Steps[step] = script.Step{}
		if m := rollout.Next(c, noon).Move; m.Failed == "" {
			t.Errorf("the move is %+v", m)
		}
	}
	c := candidacy() // it dropped what the step selected
	c.Release.Settings.Rollout.Steps[0].Selector = "zone=a"
	c.Release.Candidate.Threshold, c.Members, c.Running, c.Confirmed = 0, 0, 0, 0
	if m := rollout.Next(c, noon).Move; m.Failed == "" {
		t.Errorf("the move is %+v", m)
	}
}
