package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/scriptorium-dev/scriptorium/script"
)

// following is next as a release that follows the version e: by way of a candidate if
// its settings ask for one. A candidate of that version stays what it is, also when it
// was given up. The revision is that of the release that next is made of.
func following(next script.Release, e script.Edition, revision script.Revision, now time.Time) script.Release {
	c := next.Candidate
	switch {
	case c != nil && c.Version.Number == e.Number:
		return next
	case next.Active.Number == 0 || next.Untried(): // nothing of it has run yet
		next.Active, next.Settings.Spec = e.Version, e.Spec
		return begun(next, e, revision, now)
	case next.Active.Number == e.Number:
		next.Candidate = nil
		return next
	}
	return begun(next, e, revision, now)
}

// begun is next with the version e on its way from the beginning, or live if there is
// nothing on its way.
func begun(next script.Release, e script.Edition, revision script.Revision, now time.Time) script.Release {
	compares := next.Active.Number != e.Number // steps take a version that runs elsewhere
	plan := &next.Settings.Rollout
	if len(e.Spec.Tests) == 0 && len(plan.After) == 0 && (!compares || len(plan.Steps) == 0) {
		return chosen(next, e)
	}
	// Revisions grow: a version that is a candidate again is not taken for what it was
	// the time before.
	attempt, tries := uint64(revision)+1, 1
	if c := next.Candidate; c != nil && c.Version.Number == e.Number {
		tries = max(1, c.Tries)
		if c.Attempt != attempt && c.Frozen == "" { // else the same change has begun it already, or it has not begun
			tries++
		}
	}
	next.Candidate = &script.Candidate{Version: e.Version, Spec: e.Spec, Attempt: attempt, Tries: tries, Since: now}
	return next
}

// joined is next with the version e on its way as part of a change set.
func joined(next script.Release, e script.Edition, set *script.Membership, revision script.Revision, now time.Time) script.Release {
	if next.Active.Number == 0 || next.Untried() { // nothing of it has run yet
		next.Active, next.Settings.Spec = e.Version, e.Spec
	}
	tries := 1
	if c := next.Candidate; c != nil && c.Version.Number == e.Number {
		tries = max(1, c.Tries) + 1
	}
	next.Candidate = &script.Candidate{Version: e.Version, Spec: e.Spec, Attempt: uint64(revision) + 1, Tries: tries, Since: now, Set: set}
	return next
}

// chosen is next with the version e live everywhere.
func chosen(next script.Release, e script.Edition) script.Release {
	next.Active, next.Settings.Spec, next.Candidate = e.Version, e.Spec, nil
	return next
}

// candidate returns the candidate as a version.
func candidate(r script.Release) script.Edition {
	return script.Edition{Version: r.Candidate.Version, Spec: r.Candidate.Spec}
}

// givenUp is next with its candidate given up; nothing of it runs.
func givenUp(next script.Release, why string, now time.Time) script.Release {
	c := *next.Candidate
	c.Threshold, c.Selections, c.Keys, c.Shadows = 0, nil, nil, nil
	c.Percent, c.Since, c.Frozen, c.Paused, c.Failed = 0, now, "", "", Printable(why, script.MaxFailedBytes)
	next.Candidate = &c
	return next
}

// retested is next with its candidate begun anew if it goes another way now.
func retested(cur, next script.Release, now time.Time) script.Release {
	if next.Candidate == nil || next.Candidate.Set != nil || cur.Settings.Rollout.Equal(next.Settings.Rollout) {
		return next
	}
	return begun(next, candidate(next), cur.Revision, now)
}

// underway reports whether r has a candidate that was not given up.
func underway(r script.Release) bool { return r.Candidate != nil && r.Candidate.Failed == "" }

// candidateOf returns the number of the candidate; 0 if there is none.
func candidateOf(r script.Release) uint64 {
	if r.Candidate == nil {
		return 0
	}
	return r.Candidate.Version.Number
}

// decideSteer decides on what a person wants of the candidate.
func decideSteer(cur script.Release, req SteerRequest, at moment) (decision, error) {
	if err := mustHaveCandidate(cur); err != nil {
		return decision{}, err
	}
	c, w := cur.Candidate, req.Write
	if req.Version != 0 && req.Version != c.Version.Number {
		return decision{}, script.Errorf(script.Conflict, "version",
			"the candidate of %s is version %d, not %d: run scriptctl rollout status, and decide again", cur.Name, c.Version.Number, req.Version)
	}
	switch req.Steering {
	case Promote:
		return decide(cur, chosen(cur, candidate(cur)), script.ChangePromote, w, at), nil
	case Retry:
		return decide(cur, begun(cur, candidate(cur), cur.Revision, at.now), script.ChangeRetry, w, at), nil
	case Approve:
		return decideApproval(cur, req.Step, w, at)
	case Abort:
		if !underway(cur) {
			return unchanged(cur), nil
		}
		why := "aborted by " + w.attribution()
		if w.Note != "" {
			why += ": " + w.Note
		}
		return decide(cur, givenUp(cur, why, at.now), script.ChangeAbort, w, at), nil
	}
	return decision{}, script.Errorf(script.Invalid, "steering", "%.80q is none: want %s, %s, %s or %s", string(req.Steering), Promote, Abort, Retry, Approve)
}

// decideApproval decides on the step that the candidate is in: it may go on after it. It ends a pause,
// from when on the deadline counts anew.
func decideApproval(cur script.Release, step int, w Write, at moment) (decision, error) {
	c, steps := *cur.Candidate, cur.Plan().Steps
	needed := needsApproval(cur)
	switch {
	case step != 0 && step != c.Step:
		return decision{}, script.Errorf(script.Conflict, "step",
			"version %d of %s is in step %d, not in step %d: look at it with scriptctl rollout status %s, and decide again", c.Version.Number, cur.Name, c.Step, step, cur.Name)
	case c.Failed != "":
		return decision{}, script.Errorf(script.Invalid, "candidate", "version %d of %s was given up: %s", c.Version.Number, cur.Name, c.Failed)
	case c.Paused != "":
		c.Paused, c.Since = "", at.now
	case c.Step >= 1 && c.Step <= len(steps) && !needed && !steps[c.Step-1].Gate.IsZero():
		return decision{}, script.Errorf(script.Invalid, "candidate", "version %d of %s is in step %d, which needs no approval but its gate %s: to go on without the gate, promote the candidate",
			c.Version.Number, cur.Name, c.Step, steps[c.Step-1].Gate)
	case !needed:
		return decision{}, script.Errorf(script.Invalid, "candidate", "version %d of %s is in step %d, which needs no approval", c.Version.Number, cur.Name, c.Step)
	case c.Approved == c.Step:
		return unchanged(cur), nil
	}
	next := cur
	if needed {
		c.Approved = c.Step
	}
	next.Candidate = &c
	return decide(cur, next, script.ChangeApprove, w, at), nil
}

// needsApproval reports whether the candidate is in a step that needs an approval.
func needsApproval(cur script.Release) bool {
	k, steps := cur.Candidate.Step, cur.Plan().Steps
	return k >= 1 && k <= len(steps) && steps[k-1].Approval
}

func mustHaveCandidate(cur script.Release) error {
	if err := mustLive(cur); err != nil {
		return err
	}
	if cur.Candidate == nil {
		return cur.NoCandidate()
	}
	return nil
}

// decideMove decides on what becomes of the candidate by its plan.
func decideMove(cur script.Release, req AdvanceRequest, w Write, at moment) (decision, error) {
	if err := mustHaveCandidate(cur); err != nil {
		return decision{}, err
	}
	m := req.Move
	if err := mayMove(cur, m); err != nil {
		return decision{}, err
	}
	c := *cur.Candidate
	if m.Counted && req.Calls <= c.Calls {
		return decision{}, script.Errorf(script.Invalid, "move.counted", "%d calls of %s are recorded already", c.Calls, cur.Name)
	}
	c.Calls, c.FailedCalls = max(c.Calls, req.Calls), max(c.FailedCalls, req.FailedCalls)
	switch {
	case m.Promote:
		w.Note = Printable(req.Evidence, MaxNoteBytes)
		return decide(cur, chosen(cur, candidate(cur)), script.ChangePromote, w, at), nil
	case m.Begin:
		return decideBegin(cur, w, at)
	case m.Failed != "":
		w.Note = Printable(m.Failed, MaxNoteBytes)
		return decide(cur, givenUp(cur, m.Failed, at.now), script.ChangeAbort, w, at), nil
	}
	next := cur
	next.Candidate = &c
	switch steps := cur.Plan().Steps; {
	case m.Running:
		c.Running = at.now
		w.Note = fmt.Sprintf("the agents of step %d of %d run version %d", c.Step, len(steps), c.Version.Number)
	case m.Counted: // an agent that restarts all the time fills neither the history nor the audit trail
		d := decide(cur, next, script.ChangeAdvance, w, at)
		d.commit.Entry = script.HistoryEntry{}
		return d, nil
	case m.Paused != "":
		c.Paused = Printable(m.Paused, script.MaxFailedBytes)
		w.Note = Printable("paused: "+m.Paused, MaxNoteBytes)
	case m.Lost != "":
		c.Lost = append(slices.Clone(c.Lost), m.Lost)
		w.Note = Printable(m.Lost+" was lost while it was to run version "+fmt.Sprint(c.Version.Number), MaxNoteBytes)
	default:
		step := steps[m.Step-1]
		c.Step, c.Percent, c.Since, c.Running, c.Before = m.Step, step.Percent, at.now, time.Time{}, req.AllCalls
		c.Select(step, m.Threshold)
		w.Note = fmt.Sprintf("step %d of %d: version %d on %s", c.Step, len(steps), c.Version.Number, Printable(step.Agents(), MaxNoteBytes/2))
		if req.Evidence != "" {
			w.Note = Printable(w.Note+"; "+req.Evidence, MaxNoteBytes)
		}
	}
	return decide(cur, next, script.ChangeAdvance, w, at), nil
}

// decideBegin decides on a candidate that has waited for the end of a freeze: it goes the way
// of one that is published now.
func decideBegin(cur script.Release, w Write, at moment) (decision, error) {
	next := begun(cur, candidate(cur), cur.Revision, at.now)
	change := script.ChangeAdvance
	if next.Candidate == nil {
		change = script.ChangePromote
	}
	w.Note = Printable(fmt.Sprintf("version %d waited: the registry was frozen %s", cur.Candidate.Version.Number, cur.Candidate.Frozen), MaxNoteBytes)
	return decide(cur, next, change, w, at), nil
}

// kinds is how many of the kinds of a move are set.
func (m Move) kinds() (n int) {
	for _, set := range []bool{m.Step != 0, m.Running, m.Lost != "", m.Counted, m.Paused != "", m.Begin, m.Promote, m.Failed != ""} {
		if set {
			n++
		}
	}
	return n
}

// mayMove refuses a move that the candidate's plan does not have.
func mayMove(cur script.Release, m Move) error {
	c, steps := cur.Candidate, len(cur.Plan().Steps)
	switch kinds := m.kinds(); {
	case kinds != 1:
		return script.Errorf(script.Invalid, "move", "of %s: want one of a beginning, a step, its start, a loss, calls, a pause, a promotion and a failure, not %d", cur.Name, kinds)
	case c.Failed != "":
		return script.Errorf(script.Invalid, "move", "version %d of %s was given up: %s", c.Version.Number, cur.Name, c.Failed)
	case m.Begin != (c.Frozen != ""):
		return script.Errorf(script.Invalid, "move.begin", "version %d of %s waits for the end of a freeze, or it has begun", c.Version.Number, cur.Name)
	case c.Paused != "" && (m.Step != 0 || m.Running || m.Paused != "" || m.Promote):
		return script.Errorf(script.Invalid, "move", "version %d of %s is paused: %s", c.Version.Number, cur.Name, c.Paused)
	case m.Running && (c.Step == 0 || !c.Running.IsZero()):
		return script.Errorf(script.Invalid, "move.running", "step %d of %s runs already, or has not begun", c.Step, cur.Name)
	case m.Lost != "" && (slices.Contains(c.Lost, m.Lost) || len(c.Lost) >= script.MaxFailureLimit):
		return script.Errorf(script.Invalid, "move.lost", "%.80q is among the lost agents of %s already, or these are too many", m.Lost, cur.Name)
	case m.Step == 0:
		return nil
	case cur.Untried():
		return script.Errorf(script.Invalid, "move.step", "version %d of %s is the first: there is nothing to roll it out against", c.Version.Number, cur.Name)
	case m.Step <= c.Step || m.Step > steps:
		return script.Errorf(script.Invalid, "move.step", "%d does not follow %d among the %d steps of %s", m.Step, c.Step, steps, cur.Name)
	case m.Threshold == 0:
		return script.Errorf(script.Invalid, "move.threshold", "of %s is 0: a step has some agents", cur.Name)
	}
	return nil
}

// Printable is s, which an agent may have written, as people can be shown it: of at
// most so many bytes, on one line.
func Printable(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
	const more = "…"
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len(more)], "") + more
}
