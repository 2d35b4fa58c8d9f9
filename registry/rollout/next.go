package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Decision is what is to become of a candidate.
type Decision struct {
	// Move is the next thing; the zero Move if it has to wait. That of a step has no
	// Threshold yet: the function Threshold computes it.
	Move registry.Move
	// Until is when it has waited for long enough, if nothing changes before; the zero
	// Time if only a change ends the wait.
	Until time.Time
	// Why it has to wait.
	Why string
	// Ask: it waits for nothing but the gate of its step, which is to be asked.
	Ask bool
}

// Next decides what is to become of the candidate by the plan of its release.
func Next(c fleet.Candidacy, now time.Time) Decision {
	candidate, plan := c.Release.Candidate, c.Release.Plan()
	if candidate == nil || candidate.Failed != "" || c.Release.Deleted {
		return Decision{}
	}
	frozen := isFrozen(c, now)
	switch {
	case candidate.Frozen != "" && frozen:
		return thaws(c, Decision{})
	case candidate.Frozen != "":
		return Decision{Move: registry.Move{Begin: true}}
	}
	d := due(c, now)
	if frozen && (d.Move == (registry.Move{}) || d.Move.Step > 0 || d.Move.Promote) {
		d = thaws(c, d)
	}
	if d.Move == (registry.Move{}) && !c.Gathering && c.EndedCalls > candidate.Calls {
		again := c.Release.ChangedAt.Add(countsApart)
		if !now.Before(again) {
			return Decision{Move: registry.Move{Counted: true}}
		}
		d = d.by(again)
	}
	switch {
	case candidate.Paused != "":
		return paused(c, d)
	case plan.ProgressDeadline == 0 || d.Move != (registry.Move{}) || c.Gathering || frozen:
		return d
	}
	return inTime(c, d, now)
}

// isFrozen reports whether the candidate, or a value that goes live with it, is frozen.
func isFrozen(c fleet.Candidacy, now time.Time) bool {
	set := c.Release.Candidate.Set
	return c.Freeze.Covers(c.Release.Name, now) || set != nil && len(set.Values) > 0 && c.Freeze.CoversTenant(c.Release.Name.Tenant, now)
}

// inTime is d, which waits, unless the candidate has waited for longer than its deadline. What it
// could not do while the registry was frozen, or while the rest of its change set went on, does not count.
func inTime(c fleet.Candidacy, d Decision, now time.Time) Decision {
	plan := c.Release.Plan()
	since := c.Release.Candidate.WaitsSince(plan)
	for _, other := range c.Rest {
		if at := other.WaitsSince(plan); since.Before(at) {
			since = at
		}
	}
	if thawed := c.Freeze.Changed(now); since.Before(thawed) {
		since = thawed
	}
	deadline := since.Add(plan.ProgressDeadline)
	if now.Before(deadline) {
		return d.by(deadline)
	}
	why := fmt.Sprintf("no progress in %v: %s", plan.ProgressDeadline, d.Why)
	if plan.OnDeadline == script.PauseOnDeadline {
		return Decision{Move: registry.Move{Paused: why}}
	}
	return fail(why)
}

// paused is the decision to stay in the step, in place of d. What ends the candidate, and what is counted
// against it, still does.
func paused(c fleet.Candidacy, d Decision) Decision {
	if d.Move.Failed != "" || d.Move.Lost != "" || d.Move.Counted {
		return d
	}
	d.Move, d.Ask = registry.Move{}, false
	d.Why = fmt.Sprintf("paused, %s: scriptctl rollout approve %s lets it go on", c.Release.Candidate.Paused, c.Release.Name)
	return d
}

// thaws is the decision to wait for the end of the freeze, in place of d. What would end the
// candidate without a freeze still does.
func thaws(c fleet.Candidacy, d Decision) Decision {
	if d.Move != (registry.Move{}) {
		d = Decision{}
	}
	d.Ask = false
	d.Why = script.WaitsForThaw + c.Freeze.String()
	if until := c.Freeze.Until; !until.IsZero() {
		d = d.by(until)
	}
	return d
}

// countsApart is how long after the last change of its release the calls of ended processes are
// recorded, unless another move does so before.
const countsApart = 30 * time.Second

// due is Next, for a candidate that is on its way, without the deadline.
func due(c fleet.Candidacy, now time.Time) Decision {
	candidate, plan := c.Release.Candidate, c.Release.Plan()
	switch {
	case c.Left != "":
		return fail(c.Left)
	case c.Unread != "":
		return wait("%s, which is part of the %s", c.Unread, candidate.Set)
	}
	if c.Failure != nil {
		return fail(fmt.Sprintf("%s: %v", c.Failure.Agent, c.Failure.Err))
	}
	if c.Gathering || c.Followers == 0 {
		return wait("no agent follows the script, or they have yet to report") // there may be others, that say otherwise
	}
	if why := cmp.Or(tooManyErrors(c, plan), tooManyDifferences(c, plan), worse(c, plan)); why != "" {
		return fail(why)
	}
	if 2*c.Followers < c.Known { // what most agents would say is not known
		return wait("%d of %d agents are not heard", c.Known-c.Followers, c.Known)
	}
	if limit := failureLimit(plan, c.Known); len(c.Lost) >= limit {
		return fail(lost(c, limit))
	}
	for _, agent := range c.Lost {
		if !slices.Contains(candidate.Lost, agent) {
			return Decision{Move: registry.Move{Lost: agent}}
		}
	}
	if !c.Missing.IsZero() {
		return wait("an agent that is to run it is not heard").by(c.Missing)
	}
	if why := behind(c, enough(c.Followers, plan)); why != "" {
		return wait("%s", why)
	}
	steps := plan.Steps
	switch k := candidate.Step; {
	case k < 0 || k > len(steps): // no registry has written that
		return fail(fmt.Sprintf("its record says step %d, and the plan has %d", k, len(steps)))
	case k > 0:
		if d, lasts := inStep(c, plan, now); lasts {
			return d
		}
	}
	return onward(c)
}

// behind says what so many agents have yet to do before the candidate goes on; "" if nothing.
func behind(c fleet.Candidacy, enough int) string {
	switch {
	case c.Followers-c.TooOld < enough:
		return fmt.Sprintf("%d of %d agents do not know %s: upgrade agentd there", c.TooOld, c.Followers, tooOldFor(c))
	case len(c.Release.Candidate.Spec.Tests) > 0 && c.Passed < enough:
		return fmt.Sprintf("%d of %d agents have passed its tests, and %d must", c.Passed, c.Followers, enough)
	case c.Activated < enough:
		return fmt.Sprintf("%d of %d agents have taken the last change, and %d must", c.Activated, c.Followers, enough)
	}
	return after(c, enough)
}

// tooOldFor is what agents do not know that are too old for the candidate. Who knows shadow steps knows
// steps by key, and who knows these knows change sets.
func tooOldFor(c fleet.Candidacy) string {
	step, _ := c.Release.StepOf()
	for _, by := range []script.By{script.ByShadow, script.ByKey} {
		if step.By == by || c.Release.NextStep().By == by {
			return by.Steps()
		}
	}
	return "change sets"
}

// after says which script the candidate waits for that comes before it; "" if none.
func after(c fleet.Candidacy, enough int) string {
	for _, d := range c.After {
		switch {
		case d.Why != "":
			return d.Why + " (rollout.after)"
		case c.Followers-d.Lacking < enough:
			return fmt.Sprintf("%d of %d agents have not activated %s (rollout.after)", d.Lacking, c.Followers, d.Name)
		}
	}
	return ""
}

// onward is what follows the step that the candidate has passed, or its tests.
func onward(c fleet.Candidacy) Decision {
	candidate, steps := c.Release.Candidate, c.Release.Plan().Steps
	if candidate.Step == len(steps) || c.Release.Untried() { // steps take a version that runs elsewhere
		return Decision{Move: registry.Move{Promote: true}}
	}
	switch step := steps[candidate.Step]; {
	case step.Percent < 0 || step.Percent == 0 && step.Selector == "":
		return fail(fmt.Sprintf("step %d of its plan takes no agents, as if a registry had written it that does not know selectors, steps by key or shadow steps: upgrade all registries, and publish it again", candidate.Step+1))
	case step.Selector != "" && c.Eligible == 0:
		return wait("%s", fleet.NobodyHas(step.Selector, c.Outdated))
	}
	return Decision{Move: registry.Move{Step: candidate.Step + 1}}
}

// tolerated is the percentage of the agents that need not have come as far as the others.
const tolerated = 1

// enough is how many of the agents are evidence: one at least, if there is one.
func enough(agents int, plan *script.Plan) int {
	return min(agents, max(1, agents-plan.Tolerate.Of(agents, tolerated)))
}

// inStep says what becomes of a candidate in its step; lasts is false if that is over.
func inStep(c fleet.Candidacy, plan *script.Plan, now time.Time) (_ Decision, lasts bool) {
	candidate := c.Release.Candidate
	ofAll := fleet.Members{Members: c.Members, Running: c.Running, Confirmed: c.Confirmed}
	own := ofAll
	if len(candidate.Selections)+len(candidate.Keys)+len(candidate.Shadows) > 0 { // the members are of several steps
		own = c.Own
	}
	if step, _ := c.Release.StepOf(); own.Members == 0 && (step.Selector != "" || candidate.Threshold < math.MaxUint32) {
		return fail(nobodyLeft(candidate.Step, step.Selector)), true
	}
	for _, m := range []fleet.Members{own, ofAll} {
		if enough := enough(m.Members, plan); m.Running < enough {
			return wait("%d of the %d agents of step %d run it, and %d must", m.Running, m.Members, candidate.Step, enough), true
		}
	}
	if lasts := plan.Lasts(candidate.Step); lasts > 0 {
		if candidate.Running.IsZero() {
			return Decision{Move: registry.Move{Running: true}}, true
		}
		if until := candidate.Running.Add(lasts); now.Before(until) {
			return wait("the pause of step %d goes on", candidate.Step).by(until), true
		}
		for _, m := range []fleet.Members{own, ofAll} {
			if enough := enough(m.Members, plan); m.Confirmed < enough {
				return wait("%d of the %d agents of step %d were heard after its pause, and %d must", m.Confirmed, m.Members, candidate.Step, enough).by(now.Add(again)), true
			}
		}
	}
	if why := tooFewCalls(c, plan); why != "" {
		return wait("%s", why), true
	}
	step := plan.Steps[candidate.Step-1]
	if step.Approval && candidate.Approved < candidate.Step {
		return wait("step %d needs an approval: scriptctl rollout approve %s", candidate.Step, c.Release.Name), true
	}
	return atGate(c, step.Gate, now)
}

// nobodyLeft says that the step has no agents any more.
func nobodyLeft(step int, selector script.AgentSelector) string {
	text := fmt.Sprintf("no agent of step %d is left: they have left the fleet, ", step)
	if selector != "" {
		return text + fmt.Sprintf("do not follow the script any more, or do not have the labels %s any more", selector)
	}
	return text + "or do not follow the script any more"
}

// Evidence says what speaks for the candidate's next step.
func Evidence(c fleet.Candidacy) string {
	candidate, plan := c.Release.Candidate, c.Release.Plan()
	var said []string
	if tests := len(candidate.Spec.Tests); tests > 0 && candidate.Step == 0 {
		said = append(said, fmt.Sprintf("its tests passed on %d of %d agents", c.Passed, c.Followers))
	}
	if candidate.Step == 0 && after(c, enough(c.Followers, plan)) == "" {
		for _, name := range plan.After {
			said = append(said, name.String()+" is live")
		}
	}
	if candidate.Step > 0 {
		said = append(said, fmt.Sprintf("step %d: it ran on %d of %d agents", candidate.Step, c.Running, c.Members))
		if c.Shadow != nil {
			said = append(said, shadowed(c.Shadow))
		}
		if plan.Calls() > 0 || c.Calls > 0 {
			calls := fmt.Sprintf("%d calls in the step", c.Calls-min(c.Calls, candidate.Before))
			if c.Calls > 0 {
				calls += fmt.Sprintf(", and %d of all %d failed", c.FailedCalls, c.Calls)
			}
			said = append(said, calls)
		}
		if c.Compared != nil {
			said = append(said, compared(c))
		}
		if candidate.Approved == candidate.Step {
			said = append(said, "approved")
		}
		if text := passed(c); text != "" {
			said = append(said, text)
		}
	}
	if n := len(c.Lost); n > 0 {
		said = append(said, fmt.Sprintf("%d agents lost", n))
	}
	return strings.Join(said, ", ")
}

// again is how soon it is looked whether agents report that have nothing new to say.
const again = time.Second

// failureLimit is of how many lost agents the candidate is given up.
func failureLimit(plan *script.Plan, agents int) int {
	return min(max(1, plan.FailureLimit.Of(agents, 1)), script.MaxFailureLimit)
}

// lost says which agents are lost.
func lost(c fleet.Candidacy, limit int) string {
	const most = 5
	names := strings.Join(c.Lost[:min(len(c.Lost), most)], ", ")
	if more := len(c.Lost) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	did := "it tested"
	if c.Release.Candidate.Step > 0 {
		did = "it was to run"
	}
	return fmt.Sprintf("%s: ended, lost the tenant's process, or not heard any more, while %s version %d (failureLimit %d)", names, did, c.Release.Candidate.Version.Number, limit)
}

// tooManyErrors says why the candidate's calls fail too often; "" if they do not.
func tooManyErrors(c fleet.Candidacy, plan *script.Plan) string {
	most := plan.MaxErrorPercent
	if most == nil || c.Calls < tellingCalls(plan) || float64(c.FailedCalls)*100 <= float64(c.Calls)**most {
		return ""
	}
	return fmt.Sprintf("%d of %d calls failed (%.3g %%), at most %v %% may", c.FailedCalls, c.Calls, 100*float64(c.FailedCalls)/float64(c.Calls), *most)
}

// tellingCalls is from how many calls on it is looked at how many of them fail: no fewer than a
// step takes as evidence, and 20 at most, so that a candidate that always fails ends soon.
func tellingCalls(plan *script.Plan) uint64 {
	if n := plan.Calls(); n > 0 {
		return min(n, script.DefaultMinCalls)
	}
	return script.DefaultMinCalls
}

// wait is the decision to wait, and why.
func wait(format string, args ...any) Decision { return Decision{Why: fmt.Sprintf(format, args...)} }

// by is d, which ends then at the latest.
func (d Decision) by(until time.Time) Decision {
	if d.Until.IsZero() || until.Before(d.Until) {
		d.Until = until
	}
	return d
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
	k := min(n, max(1, (n*percent+99)/100))
	least, most := uint64(buckets[k-1])+1, uint64(math.MaxUint32)
	if k < n {
		most = uint64(buckets[k])
	}
	fair := uint64(percent) << 32 / 100
	threshold := max(least, min(fair, most), uint64(before))
	return uint32(min(threshold, math.MaxUint32))
}
