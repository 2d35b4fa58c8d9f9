package script

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// Candidate is a version on its way to being active: it has to pass the script's tests,
// and to go through the steps of its plan. Until then Active is what it was before. Of a
// script whose first version is the candidate, Active is that version as well, and
// nothing runs: see Release.Untried.
type Candidate struct {
	Version Version // among Release.Retained
	Spec    Spec    // of the version
	// Attempt is another, greater number each time that a candidate of the script has to
	// be tested anew. It is a Revision: the first that the change which began the attempt
	// could have had.
	Attempt uint64
	// Tries is how many attempts the version has had since it is the candidate, from 1; 0 if it
	// began before registries counted.
	Tries int
	// Step is the number of the plan's step that it is in, from 1; 0 is before the
	// first, while it is tested.
	Step int
	// Threshold selects agents that run it: those whose Bucket is below. Percent is that of the
	// step, from which the registry computed Threshold, or the Selection of the step.
	Threshold uint32
	Percent   int
	// Selections are of the steps with selectors so far: what they select runs it, too. There is
	// one for each selector.
	Selections []Selection
	// Keys are of the steps by key so far: agents that they select run it for calls whose key has a
	// bucket below the threshold. There is one for each selector, which may be zero.
	Keys []Selection
	// Shadows are of the shadow steps so far, until a step of another kind begins: agents that they
	// select run it in the shadow of calls, below the threshold of a random number. There is one for
	// each selector, which may be zero.
	Shadows []Selection
	// Since is when the step began, a pause ended or it was given up, by the registry's clock.
	Since time.Time
	// Running is since when the agents of the step run it: the step's pause counts from then.
	// It is zero until they do.
	Running time.Time
	// Lost are the agents that ended, or were not heard any more, while they were to run it or to
	// test it; at most MaxFailureLimit.
	Lost []string
	// Calls and FailedCalls were counted by processes of agents that have ended since.
	Calls, FailedCalls uint64
	// Approved is the number of the last step that somebody has approved.
	Approved int
	// Before is the number of all its calls when the step began.
	Before uint64
	// Failed says why it was given up; "" while it is on its way. It selects no agents then.
	Failed string
	// Frozen says who had frozen the registry when it was published, since when and why, as
	// Freeze.String has it; "" if it has begun. Until then nothing tests or runs it.
	Frozen string
	// Paused says why it stays in its step until a person decides; "" if it goes on by itself.
	Paused string
	// Set is the change set that it is part of, or nil. Its scripts move together.
	Set *Membership
}

// MaxFailedBytes is the length of the longest Candidate.Failed.
const MaxFailedBytes = 1024

// CandidateState is where a candidate is on its way.
type CandidateState string

// The states of a candidate.
const (
	CandidateTesting    CandidateState = "Testing"    // its tests are run, it runs nowhere
	CandidateRollingOut CandidateState = "RollingOut" // it goes through the steps, or is about to
	CandidateFailed     CandidateState = "Failed"     // it was given up, and runs nowhere
	CandidateFrozen     CandidateState = "Frozen"     // it waits for the end of a freeze, and runs nowhere
)

// CandidateState returns where the release's candidate is on its way; "" if it has none.
// Of the tests it looks at the number alone.
func (r *Release) CandidateState() CandidateState {
	switch c := r.Candidate; {
	case c == nil:
		return ""
	case c.Failed != "":
		return CandidateFailed
	case c.Frozen != "":
		return CandidateFrozen
	case c.Step == 0 && (len(c.Spec.Tests) > 0 || len(r.Plan().Steps) == 0 && len(r.Plan().After) == 0):
		return CandidateTesting
	}
	return CandidateRollingOut
}

// WaitsSince is when the candidate's pause is over, or would be if its agents ran it now; or when a person let
// it go on.
func (c *Candidate) WaitsSince(plan *Plan) time.Time {
	if k := c.Step; k >= 1 && k <= len(plan.Steps) && !c.Running.IsZero() {
		if over := c.Running.Add(plan.Lasts(k)); over.After(c.Since) {
			return over
		}
	}
	return c.Since
}

// Untried reports whether the script's first version has yet to pass its tests: then
// nothing of it runs.
func (r *Release) Untried() bool {
	return r.Candidate != nil && r.Candidate.Version.Number == r.Active.Number
}

// Frozen reports whether the release has a candidate that waits for the end of a freeze.
func (r *Release) Frozen() bool { return r.Candidate != nil && r.Candidate.Frozen != "" }

// NoCandidate is the error for who wants something of a candidate that the release does not
// have.
func (r *Release) NoCandidate() error {
	switch {
	case r.Hold != nil:
		return Errorf(NotFound, "candidate", "%s has no candidate: it is held at v%d %s: %s", r.Name, r.Active.Number, r.Hold, r.HowToLift())
	case r.Pinned && r.Active.Number != r.Latest:
		return Errorf(NotFound, "candidate", "%s has no candidate: its manifest pins it to version %d: to follow the latest, version %d, publish it without spec.version",
			r.Name, r.Active.Number, r.Latest)
	}
	return Errorf(NotFound, "candidate", "%s has no candidate: version %d is live everywhere, and none is tested or rolled out", r.Name, r.Active.Number)
}

// RunsOn returns the version that the agent runs: the candidate if that selects the agent,
// else the active one, also if KeysOn has calls run the candidate. Of a release that is Untried
// nothing runs.
func (r *Release) RunsOn(agent Agent) Version {
	if c := r.Candidate; c != nil && c.Selects(r.Name, agent) {
		return c.Version
	}
	return r.Active
}

// SelectsAny reports whether the candidate, of a script's release, selects agents at all.
func (c *Candidate) SelectsAny() bool {
	return c.Threshold > 0 || len(c.Selections) > 0 || len(c.Keys) > 0 || len(c.Shadows) > 0
}

// Selects reports whether the agent is to run the candidate, which is of the script, for all calls:
// see KeysOn.
func (c *Candidate) Selects(name Name, agent Agent) bool {
	if c.Threshold == 0 && len(c.Selections) == 0 {
		return false
	}
	bucket := Bucket(agent.Name, c.BucketName(name))
	return bucket < c.Threshold || slices.ContainsFunc(c.Selections, func(s Selection) bool { return s.selects(bucket, agent.Labels) })
}

// StepSelects is Selects by the step alone that the candidate is in. An agent that it does not
// select runs the candidate since an earlier step, if it does.
func (c *Candidate) StepSelects(name Name, step Step, agent Agent) bool {
	if step.By != ByAgent {
		return step.Selector.Matches(agent.Labels)
	}
	bucket := Bucket(agent.Name, c.BucketName(name))
	if step.Selector == "" {
		return bucket < c.Threshold
	}
	return c.Selection(step.Selector).selects(bucket, agent.Labels)
}

// Selection returns that of the selector; one that selects nobody if there is none.
func (c *Candidate) Selection(selector AgentSelector) Selection {
	for _, s := range c.Selections {
		if s.Selector == selector {
			return s
		}
	}
	return Selection{Selector: selector}
}

// Select has the candidate select what the step does, with the threshold, besides what it
// selects already.
func (c *Candidate) Select(step Step, threshold uint32) {
	if step.By == ByShadow {
		c.Shadows = selecting(c.Shadows, step.Selector, threshold)
		return
	}
	c.Shadows = nil
	switch {
	case step.By == ByKey:
		c.Keys = selecting(c.Keys, step.Selector, threshold)
	case step.Selector == "":
		c.Threshold = threshold
	default:
		c.Selections = selecting(c.Selections, step.Selector, threshold)
	}
}

// selecting returns the list with the selector's threshold.
func selecting(list []Selection, selector AgentSelector, threshold uint32) []Selection {
	of := func(s Selection) bool { return s.Selector == selector }
	return append(slices.DeleteFunc(slices.Clone(list), of), Selection{Selector: selector, Threshold: threshold})
}

// StepOf returns the step of the release's plan that its candidate is in; ok is false if there
// is none.
func (r *Release) StepOf() (s Step, ok bool) {
	if c := r.Candidate; c != nil && c.Step >= 1 && c.Step <= len(r.Plan().Steps) {
		return r.Plan().Steps[c.Step-1], true
	}
	return Step{}, false
}

// NextStep returns the step of the release's plan that follows the one of its candidate; the
// zero Step if there is none. A first version takes no steps.
func (r *Release) NextStep() Step {
	if c := r.Candidate; c != nil && c.Failed == "" && !r.Untried() && c.Step >= 0 && c.Step < len(r.Plan().Steps) {
		return r.Plan().Steps[c.Step]
	}
	return Step{}
}

// SpecOn returns the Spec of the version that RunsOn returns.
func (r *Release) SpecOn(agent Agent) Spec {
	if r.RunsOn(agent).Number == r.Active.Number {
		return r.Settings.Spec
	}
	return r.Candidate.Spec
}

// Bucket places the agent among all, at random but always the same for the script: the
// first four bytes, big endian, of the SHA-256 of "agent\ntenant/name".
func Bucket(agent string, name Name) uint32 {
	sum := sha256.Sum256([]byte(agent + "\n" + name.String()))
	return binary.BigEndian.Uint32(sum[:])
}
