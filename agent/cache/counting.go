package cache

import (
	"cmp"
	"math"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// goOn makes the counts of the release before go on, if the same attempt of the same
// candidate ran there. Another fleet gives the same numbers to other candidates.
func (r *Release) goOn(before *Release) {
	if before == nil || r.Candidate == nil || before.Candidate == nil {
		return
	}
	now, was := r.Candidate, before.Candidate
	if now.Attempt != was.Attempt || now.Version.Number != was.Version.Number || !now.Version.SameVersion(was.Version) || !now.Set.Same(was.Set) {
		return
	}
	if counts := cmp.Or(before.OfCandidate().Calls, before.idle); counts != nil {
		if of := r.OfCandidate(); of.Calls != nil {
			of.Calls = counts
		} else {
			r.idle = counts
		}
	}
	r.countOn(before.running(r.Runs.Number))
	switch {
	case r.Shadow == nil:
		r.Found = before.Found
	case before.Shadow != nil && r.Shadow.Step == before.Shadow.Step:
		r.Shadow, r.Found = before.Shadow, before.Shadow
	}
	if k := r.Split; k != nil {
		k.countOn(before.running(k.Runs.Number))
	}
}

// countOn makes the counts of the step of what ran the same version before go on; of nil none.
func (r *Release) countOn(before *Release) {
	if before == nil {
		return
	}
	if r.StepCalls != nil && before.StepCalls != nil && r.StepCalls.Step == before.StepCalls.Step {
		r.StepCalls = before.StepCalls
	}
}

// Note counts a call of what Runs here by the kind of its error, if calls are counted. One that
// ended for a reason that is not the script's does not count.
func (r *Release) Note(kind script.Kind, took time.Duration) {
	switch kind {
	case "", script.Script, script.Limit, script.Timeout:
	default:
		return
	}
	if r.Calls != nil {
		r.Calls.note(kind != "")
	}
	if r.StepCalls != nil {
		r.StepCalls.note(kind != "", took)
	}
}

// NoteDeath counts a call that the process which ran it has not lived to count. If the candidate runs
// for a part of the calls, nobody knows which version it was: the candidate is taken to have failed.
func (r *Release) NoteDeath() {
	r = r.OfCandidate()
	if r.Calls != nil {
		r.Calls.Add(1, 1)
	}
	if r.StepCalls != nil {
		r.StepCalls.note(true, math.MaxInt64)
	}
}
