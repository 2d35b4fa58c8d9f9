package rollout

import (
	"fmt"
	"math"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// minCalls is the least number of calls from which the share of failed ones can make the
// controller give a candidate up.
const minCalls = 20

// Decision is what is to become of a candidate.
type Decision struct {
	// Move is the next thing; the zero Move if it has to wait. That of a step has no
	// Threshold yet: the function Threshold computes it.
	Move registry.Move
	// Until is when it has waited for long enough, if nothing changes before; the zero
	// Time if only a change ends the wait.
	Until time.Time
}

// Next decides what is to become of the candidate by the plan of its release.
func Next(c fleet.Candidacy, now time.Time) Decision {
	candidate, settings := c.Release.Candidate, &c.Release.Settings
	if candidate == nil || candidate.Failed != "" || c.Release.Deleted {
		return Decision{}
	}
	if c.Failure != nil {
		return fail(fmt.Sprintf("%s: %v", c.Failure.Agent, c.Failure.Err))
	}
	if c.Gathering || c.Followers == 0 {
		return Decision{} // there may be others, that say otherwise
	}
	if why := tooManyErrors(c, settings.Rollout.MaxErrorPercent); why != "" {
		return fail(why)
	}
	if 2*c.Followers < c.Known {
		return Decision{} // it is not the fleet that says so
	}
	if len(candidate.Spec.Tests) > 0 && c.Passed < c.Followers || c.Activated < c.Followers {
		return Decision{}
	}
	steps := settings.Rollout.Steps
	if k := candidate.Step; k >= 1 && k <= len(steps) {
		if d, lasts := inStep(c, settings.Rollout, now); lasts {
			return d
		}
	}
	if candidate.Step < len(steps) && !c.Release.Untried() { // steps take a version that runs elsewhere
		return Decision{Move: registry.Move{Step: candidate.Step + 1}}
	}
	return Decision{Move: registry.Move{Promote: true}}
}

// inStep says what becomes of a candidate in its step; lasts is false if that is over.
func inStep(c fleet.Candidacy, plan script.Plan, now time.Time) (_ Decision, lasts bool) {
	candidate := c.Release.Candidate
	switch {
	case c.Members == 0 && candidate.Threshold < math.MaxUint32: // those that ran it are gone: others have to
		return Decision{Move: registry.Move{Step: candidate.Step}}, true
	case c.Running < c.Members:
		return Decision{}, true
	}
	if until := candidate.Since.Add(plan.Lasts(candidate.Step)); now.Before(until) {
		return Decision{Until: until}, true
	}
	return Decision{}, false
}

// tooManyErrors says why the candidate's calls fail too often; "" if they do not.
func tooManyErrors(c fleet.Candidacy, most *int) string {
	if most == nil || c.Calls < minCalls || c.FailedCalls*100 <= c.Calls*uint64(*most) {
		return ""
	}
	return fmt.Sprintf("%d of %d calls failed (%.3g %%), at most %d %% may", c.FailedCalls, c.Calls, 100*float64(c.FailedCalls)/float64(c.Calls), *most)
}

// fail is the decision to give the candidate up. The registry cuts what is too long.
func fail(why string) Decision { return Decision{Move: registry.Move{Failed: why}} }

// Threshold returns the threshold of a step that takes so many percent of the agents with these
// buckets, which are in order and of one agent at least: a hundredth of them for each
// percent, rounded up. Among the thresholds that do so it is the one that is nearest to the
// percentage of all buckets, so that agents that come later are taken in proportion. It is
// never less than that of the step before, whose agents stay.
//
// Agents of one bucket are taken together. No threshold is above the highest bucket there can be:
// an agent that has that, one in four billion, runs a candidate only when all do.
func Threshold(buckets []uint32, percent int, before uint32) uint32 {
	n := len(buckets)
	k := max(1, (n*percent+99)/100)
	least, most := uint64(buckets[k-1])+1, uint64(math.MaxUint32)
	if k < n {
		most = uint64(buckets[k])
	}
	fair := uint64(percent) << 32 / 100
	threshold := max(least, min(fair, most), uint64(before))
	return uint32(min(threshold, math.MaxUint32))
}
