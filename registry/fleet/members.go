package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// ofAgents are the connected agents that a candidacy selects, and may select next.
type ofAgents struct {
	members slots // that are to run the candidate
	// own are those of the members that the step itself selects, if some are of other steps.
	own   slots
	mixed bool
	step  script.Step // that the candidate is in
	// eligible have the labels of next, the selector of the next step, if it has one. Of them
	// outdated have the labels, and are too old to run a candidate by them, or in this step or the next.
	eligible, outdated slots
	next               script.AgentSelector
	// keyed are the members that run it for a part of the calls alone: those with certain keys, or in
	// the shadow of some.
	keyed slots
	// byKey: the step, or the next one, is by key; inShadow: it is a shadow step.
	byKey, inShadow bool
	// old are too old to run a candidate of a change set, one by key or one in the shadow; nobody if it is neither.
	old slots
}

// choose notes whom the release's candidate selects, and may select next. It reports whether
// all agents have to be enrolled anew.
func (c *candidacy) choose(r *script.Release) bool {
	before, next := c.of, r.Candidate
	c.of = next
	step, _ := r.StepOf()
	selector, byKey := r.NextStep().Selector, step.By == script.ByKey || r.NextStep().By == script.ByKey
	inShadow := step.By == script.ByShadow || r.NextStep().By == script.ByShadow
	if before != nil && before.Threshold == next.Threshold && slices.Equal(before.Selections, next.Selections) && slices.Equal(before.Keys, next.Keys) && slices.Equal(before.Shadows, next.Shadows) &&
		c.step == step && c.next == selector && c.byKey == byKey && c.inShadow == inShadow {
		return false
	}
	c.ofAgents = ofAgents{step: step, mixed: len(next.Selections)+len(next.Keys)+len(next.Shadows) > 0, next: selector, byKey: byKey, inShadow: inShadow}
	return true
}

// selects reports whether the agent, which may be unknown, is to run the candidate, and whether that is
// for a part of the calls alone.
func (c *candidacy) selects(a *agent) (member, keyed bool) {
	if !c.of.SelectsAny() || !a.group.selector.Matches(c.name.Tenant) {
		return false, false
	}
	return c.runsOn(&a.report)
}

// runsOn is selects, for the agent of the report, which follows the script.
func (c *candidacy) runsOn(r *Report) (member, keyed bool) {
	switch who := r.who(); {
	case c.of.Set != nil && !r.Sets:
		return false, false
	case c.of.Selects(c.name, who):
		return true, false
	default:
		keyed = r.Keys && c.of.KeysOn(c.name, who) > 0 || r.Shadows && c.of.ShadowsOn(c.name, who) > 0
		return keyed, keyed
	}
}

// tooOld says what the agent of the report, which follows the script, would have to know to run the
// candidate now, or in its next step; "" if nothing.
func (c *candidacy) tooOld(r *Report) string {
	switch {
	case c.of.Set != nil && !r.Sets:
		return tooOldForSets
	case c.byKey && !r.Keys:
		return tooOldForKeys
	case c.inShadow && !r.Shadows:
		return tooOldForShadows
	}
	return ""
}

// enroll counts the connected agent where it belongs.
func (c *candidacy) enroll(a *agent) {
	if c.next != "" {
		follows, old := a.group.selector.Matches(c.name.Tenant) && c.next.Matches(a.report.Labels), !a.report.Selects || c.tooOld(&a.report) != ""
		c.eligible.set(a.slot, follows && !old)
		c.outdated.set(a.slot, follows && old)
	}
	if c.of.Set != nil || c.byKey || c.inShadow {
		c.old.set(a.slot, c.tooOld(&a.report) != "" && a.group.selector.Matches(c.name.Tenant))
	}
	member, keyed := c.selects(a)
	c.members.set(a.slot, member)
	c.keyed.set(a.slot, keyed)
	if c.mixed {
		c.own.set(a.slot, member && c.of.StepSelects(c.name, c.step, a.report.who()))
	}
}

// enroll counts the agent where its labels have it belong, if it has joined or has others than
// before.
func (f *Fleet) enroll(a *agent, joined, relabeled bool, now time.Time) {
	if joined {
		a.unknown = false
		f.connected++
		f.joined = now
	}
	if joined || relabeled {
		for _, c := range f.candidacies {
			c.enroll(a)
		}
	}
}

// dismiss takes the agent from among all.
func (c *candidacy) dismiss(a *agent) {
	for _, s := range []*slots{&c.members, &c.own, &c.keyed, &c.eligible, &c.outdated, &c.old} {
		s.remove(a.slot)
	}
}

// ofStep returns the members that the step itself selects.
func (c *candidacy) ofStep() slots {
	if c.mixed {
		return c.own
	}
	return c.members
}

// relabeled reports whether the report has an agent be another for selectors than before.
func (a *agent) relabeled(r *Report) bool {
	return a.report.Selects != r.Selects || a.report.Sets != r.Sets || a.report.Keys != r.Keys || a.report.Shadows != r.Shadows || !maps.Equal(a.report.Labels, r.Labels)
}

// keepLabels has the report name the labels that the process of the agent named before: others would
// take it from the agents of a step, or add it to them, and take time by the number of candidates.
func (f *Fleet) keepLabels(a *agent, r *Report) {
	if a.report.Incarnation == "" || a.report.Incarnation != r.Incarnation || a.remembered || !a.relabeled(r) {
		return // what is remembered may be of a registry that knew no selectors
	}
	f.ignored.Impossible++
	r.Labels, r.Selects, r.Sets, r.Keys, r.Shadows = a.report.Labels, a.report.Selects, a.report.Sets, a.report.Keys, a.report.Shadows
}

// NobodyHas says that a selector selects no connected agent, of which so many have its labels and
// are too old to run a candidate in the step.
func NobodyHas(selector script.AgentSelector, outdated int) string {
	if outdated > 0 {
		return fmt.Sprintf("%d of the connected agents have the labels %s, and none of these is new enough for the step: upgrade agentd there", outdated, selector)
	}
	return fmt.Sprintf("no connected agent has the labels %s", selector)
}

// Unmet says which scripts the plan of the script waits for, of which steps the selectors select
// no connected agent that follows the tenant, and how many agents do not know steps by key or in the shadow. Of the
// steps it says nothing while the agents have yet to report.
func (f *Fleet) Unmet(ctx context.Context, caller string, of script.Name, plan script.Plan) (unmet []string, err error) {
	selects := slices.ContainsFunc(plan.Steps, func(s script.Step) bool { return s.Selector != "" || s.By != script.ByAgent })
	if !selects && len(plan.After) == 0 {
		return nil, nil
	}
	err = f.read(ctx, caller, func() {
		circles := f.circles(&plan, of)
		for _, name := range plan.After {
			switch why := f.notLive(name); {
			case slices.Contains(circles, name):
				unmet = append(unmet, fmt.Sprintf("rollout.after: %s comes after %s itself: if both have a candidate, neither becomes live", name, of))
			case why != "":
				unmet = append(unmet, "rollout.after: "+why)
			}
		}
		if !f.gathered(f.now()) {
			return
		}
		for i, step := range plan.Steps {
			if outdated, none := f.unmet(of.Tenant, step.Selector); none {
				unmet = append(unmet, fmt.Sprintf("step %d: %s", i+1, NobodyHas(step.Selector, outdated)))
			}
		}
		for _, by := range []script.By{script.ByShadow, script.ByKey} {
			first := slices.IndexFunc(plan.Steps, func(s script.Step) bool { return s.By == by })
			if first < 0 {
				continue
			}
			if old := f.knowNot(of.Tenant, by); old > 0 {
				unmet = append(unmet, fmt.Sprintf("step %d: %d of the connected agents do not know %s: upgrade agentd there", first+1, old, by.Steps()))
			}
		}
	})
	return unmet, err
}

// knowNot counts the connected agents that follow the tenant and do not know such steps.
func (f *Fleet) knowNot(tenant string, by script.By) (n int) {
	for _, g := range f.followers(tenant) {
		for slot := range g.slots.all {
			if r := &f.bySlot[slot].report; by == script.ByKey && !r.Keys || by == script.ByShadow && !r.Shadows {
				n++
			}
		}
	}
	return n
}

func (f *Fleet) unmet(tenant string, selector script.AgentSelector) (outdated int, none bool) {
	if selector == "" {
		return 0, false
	}
	for _, g := range f.followers(tenant) {
		for slot := range g.slots.all {
			a := f.bySlot[slot]
			switch {
			case !selector.Matches(a.report.Labels):
			case a.report.Selects:
				return 0, false
			default:
				outdated++
			}
		}
	}
	return outdated, true
}
