package fleet

import (
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// lostAfter is how long an agent is unknown before its candidates count it as lost: when the
// network fails, all agents are unknown by then, and not the candidate's agents alone.
const lostAfter = 10 * time.Second

// lives is what a candidacy knows of processes of agents that have ended, or may have.
type lives struct {
	// ended are the calls that such processes counted.
	ended calls
	// lost are the agents whose process ended while they were to run the candidate, or to test
	// it; at most script.MaxFailureLimit.
	lost []string
	// away are those that are not heard any more since then, and may come back as they were.
	away map[string]time.Time
}

// takes reports whether the agent is to run the candidate, or to test it: what becomes of it
// then may be the candidate's doing.
func (f *Fleet) takes(c *candidacy, a *agent) bool {
	p := f.scripts[c.name]
	if p.release.Candidate.Failed != "" || a.group == nil || !a.group.selector.Matches(c.name.Tenant) {
		return false
	}
	if script.Bucket(a.report.Agent, c.name) < c.threshold {
		return true
	}
	tests := p.release.Candidate.Step == 0 && len(p.release.Candidate.Spec.Tests) > 0
	return tests && !c.passed.has(a.slot) && a.report.Activated >= p.release.Revision
}

// ended notes that the process of the agent has ended, for each candidate that it took, and
// reports whether there is one.
func (f *Fleet) ended(a *agent) (news bool) {
	for _, c := range f.candidacies {
		if _, away := c.away[a.report.Agent]; away || f.takes(c, a) {
			c.lose(a.report.Agent)
			news = true
		}
		c.conclude(a)
	}
	return news
}

// lose notes that the agent is lost.
func (c *candidacy) lose(agent string) {
	delete(c.away, agent)
	if !slices.Contains(c.lost, agent) && len(c.lost) < script.MaxFailureLimit {
		c.lost = append(c.lost, agent)
	}
}

// conclude counts the calls of a process of the agent that has ended.
func (c *candidacy) conclude(a *agent) {
	n, ok := c.counts[a]
	if !ok {
		return
	}
	delete(c.counts, a)
	c.ended.all += n.all
	c.ended.failed += n.failed
}

// unheard notes that the agent is not heard any more, for each candidate that it takes.
func (f *Fleet) unheard(a *agent, now time.Time) {
	for _, c := range f.candidacies {
		if f.takes(c, a) {
			if c.away == nil {
				c.away = map[string]time.Time{}
			}
			c.away[a.report.Agent] = now
		}
	}
}

// back notes that the agent is heard again, and has not ended.
func (f *Fleet) back(a *agent) {
	for _, c := range f.candidacies {
		delete(c.away, a.report.Agent)
	}
}

// recallLives takes over what the release says of processes that ended before this replica
// knew of the candidate.
func (c *candidacy) recallLives(candidate *script.Candidate) {
	c.ended = calls{all: candidate.Calls, failed: min(candidate.FailedCalls, candidate.Calls)}
	c.calls = c.ended
}

// losses returns the agents that are lost, in the order in which they were, and those that have
// been away for so long that they are.
func (c *candidacy) losses(now time.Time) []string {
	lost := slices.Clone(c.lost)
	before := len(lost)
	for agent, since := range c.away {
		if now.Sub(since) >= lostAfter && !slices.Contains(lost, agent) {
			lost = append(lost, agent)
		}
	}
	slices.Sort(lost[before:])
	return lost
}

// missing returns when the last of the agents that are away is lost, if it does not come back;
// the zero Time if all of them are lost.
func (c *candidacy) missing(now time.Time) (until time.Time) {
	for _, since := range c.away {
		if end := since.Add(lostAfter); end.After(now) && end.After(until) {
			until = end
		}
	}
	return until
}

// confirmed counts the members that were heard after the step's pause was over: they have run
// the candidate for all of it. It is 0 before that.
func (f *Fleet) confirmed(c *candidacy, r *script.Release, now time.Time) (n int) {
	step := r.Candidate.Step
	if step < 1 || step > len(r.Settings.Rollout.Steps) || r.Candidate.Running.IsZero() {
		return 0
	}
	end := r.Candidate.Running.Add(r.Settings.Rollout.Lasts(step))
	if now.Before(end) {
		return 0
	}
	for slot := range c.members.all {
		if a := f.bySlot[slot]; a != nil && !a.heard.Before(end) {
			n++
		}
	}
	return n
}
