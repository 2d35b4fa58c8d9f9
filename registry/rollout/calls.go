package rollout

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/rollout/compare"
	"github.com/scriptorium-dev/scriptorium/script"
)

// falseAlarms is the probability that a candidate which is no worse than the active version is
// given up because of chance, in all its steps together.
const falseAlarms = 0.01

// worse says by what the candidate is worse than the active version in the same step; "" if the
// difference may be chance.
func worse(c fleet.Candidacy, plan *script.Plan) string {
	if c.Compared == nil {
		return ""
	}
	candidate, active := &c.Compared.Candidate, &c.Compared.Active
	tests := 0
	for range plan.MaxLatencyIncrease.Compared() {
		tests++
	}
	if plan.MaxErrorIncrease != nil {
		tests++
	}
	alpha := falseAlarms / float64(tests*len(plan.Steps))
	if most := plan.MaxErrorIncrease; most != nil && compare.MoreOften(failures(candidate), failures(active), *most/100, alpha) {
		return fmt.Sprintf("in step %d %s of its calls failed, and %s of those of version %d; at most %v percentage points more may (maxErrorIncrease)",
			c.Release.Candidate.Step, failed(candidate), failed(active), c.Release.Active.Number, *most)
	}
	for name, percent := range plan.MaxLatencyIncrease.Compared() {
		percentile := percentileOf(name)
		if compare.Slower(latencies(candidate), latencies(active), percentile, float64(percent)/100, alpha) {
			return fmt.Sprintf("in step %d its %s was %v, and that of version %d %v; at most %d %% more is allowed (maxLatencyIncrease)",
				c.Release.Candidate.Step, name, latency(candidate, percentile), c.Release.Active.Number, latency(active, percentile), percent)
		}
	}
	return ""
}

// tooManyDifferences says why the candidate's results in the shadow differ too often; "" if they do not.
func tooManyDifferences(c fleet.Candidacy, plan *script.Plan) string {
	most, found := plan.MaxDiffPercent, c.Shadow
	if most == nil || found == nil || found.Compared() < tellingCalls(plan) {
		return ""
	}
	differ := found.Different + found.Failed
	if float64(differ)*100 <= float64(found.Compared())**most {
		return ""
	}
	return fmt.Sprintf("in step %d %s; at most %v %% may differ (maxDiffPercent): scriptctl rollout diff %s shows where",
		c.Release.Candidate.Step, shadowed(found), *most, c.Release.Name)
}

// shadowed says what agents found in the shadow: "3 of 100 shadowed calls differ (3 %)".
func shadowed(found *script.ShadowCalls) string {
	differ, all := found.Different+found.Failed, found.Compared()
	text := fmt.Sprintf("%d of %d shadowed calls differ", differ, all)
	if all > 0 {
		text += fmt.Sprintf(" (%.3g %%)", 100*float64(differ)/float64(all))
	}
	if found.Failed > 0 {
		text += fmt.Sprintf(", and %d of these failed", found.Failed)
	}
	if found.Dropped > 0 {
		text += fmt.Sprintf("; %d calls were dropped, as the agents had no time for them", found.Dropped)
	}
	return text
}

// tooFewCalls says which calls are missing as evidence of the step; "" if there are enough. If no
// agent is left that could call the active version, heard or not, the steps before have compared
// the two.
func tooFewCalls(c fleet.Candidacy, plan *script.Plan) string {
	step, least := c.Release.Candidate.Step, plan.Calls()
	calls := c.Calls - min(c.Calls, c.Release.Candidate.Before)
	if c.Compared != nil {
		calls = min(calls, c.Compared.Candidate.Calls)
	}
	if c.Shadow != nil && plan.MaxDiffPercent != nil {
		calls = min(calls, c.Shadow.Compared())
	}
	switch {
	case calls < least:
		return fmt.Sprintf("%d of the %d calls that step %d takes as evidence (minCalls)", calls, least, step)
	case c.Compared == nil || c.Compared.Active.Calls >= least || step > 1 && !c.Apart:
		return ""
	case !c.Apart:
		return fmt.Sprintf("step %d takes all agents, so that none is left to compare with version %d: publish a plan that compares nothing, or whose first step takes fewer agents, or promote the candidate",
			step, c.Release.Active.Number)
	}
	return fmt.Sprintf("%d of the %d calls of version %d %s that step %d takes to compare with (minCalls)", c.Compared.Active.Calls, least, c.Release.Active.Number, others(c), step)
}

// others says where calls run the active version in the candidate's step.
func others(c fleet.Candidacy) string {
	switch step, _ := c.Release.StepOf(); step.By {
	case script.ByKey:
		return "with other keys"
	case script.ByShadow:
		return "in the shadow"
	}
	return "on other agents"
}

// compared says what was counted of both versions.
func compared(c fleet.Candidacy) string {
	candidate, active := &c.Compared.Candidate, &c.Compared.Active
	text := fmt.Sprintf("%s of the step's calls failed, and %s of version %d's", failed(candidate), failed(active), c.Release.Active.Number)
	for name := range c.Release.Plan().MaxLatencyIncrease.Compared() {
		percentile := percentileOf(name)
		text += fmt.Sprintf(", %s %v and %v", name, latency(candidate, percentile), latency(active, percentile))
	}
	return text
}

func failures(t *fleet.Tally) compare.Sample {
	return compare.Sample{N: t.Calls, Hits: min(t.FailedCalls, t.Calls)}
}

func latencies(t *fleet.Tally) *compare.Latencies { return (*compare.Latencies)(&t.Latencies) }

// failed is how many calls failed: "2 of 40 (5 %)".
func failed(t *fleet.Tally) string {
	text := fmt.Sprintf("%d of %d", t.FailedCalls, t.Calls)
	if t.Calls > 0 {
		text += fmt.Sprintf(" (%.3g %%)", 100*float64(t.FailedCalls)/float64(t.Calls))
	}
	return text
}

// percentileOf is the number in its name.
func percentileOf(name string) float64 {
	percentile, _ := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
	return percentile
}

// latency returns the percentile, rounded up to the bound of its bucket.
func latency(t *fleet.Tally, percentile float64) time.Duration {
	if t.Calls == 0 {
		return 0
	}
	bound, digits := script.LatencyBound(latencies(t).Percentile(percentile)), time.Duration(1)
	for 1000*digits < bound {
		digits *= 10
	}
	return bound.Round(digits) // to three digits
}
