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
	// away are those that are not heard any more since agent.missed, and may come back as they were.
	away slots
	// outage is when most of the agents that follow the script were late last.
	outage time.Time
}

// takes reports whether the agent is to run the candidate, or to test it: what becomes of it
// then may be the candidate's doing.
func (f *Fleet) takes(c *candidacy, a *agent) bool {
	switch {
	case !c.of.SelectsAny() && !c.testing || !a.group.selector.Matches(c.name.Tenant):
		return false
	case c.members.has(a.slot):
		return true
	case a.unknown:
		if member, _ := c.selects(a); member {
			return true
		}
	}
	return f.tests(c, a)
}

// tests reports whether the agent, which follows the script, is to test the candidate, and has yet
// to say what comes of it.
func (f *Fleet) tests(c *candidacy, a *agent) bool {
	return c.testing && !c.passed.has(a.slot) && a.report.Activated >= f.scripts[c.name].release.Revision
}

// ended notes that the process of the agent has ended, for each candidate that it took until
// then, and reports whether there is one. An agent that was unknown before a candidate began took
// nothing of it.
func (f *Fleet) ended(a *agent) (news bool) {
	for _, c := range f.candidacies {
		if c.away.has(a.slot) || !a.unknown && f.takes(c, a) {
			c.away.remove(a.slot)
			c.lose(a.report.Agent)
			news = true
		}
		c.conclude(a)
	}
	return news
}

// endedBefore notes what the memory says of the process that an agent had before the one that is
// heard here: that one may have run a candidate until it ended. It may have had other labels, and
// have followed other tenants. Its calls are not known; those that are, the next one counts.
func (f *Fleet) endedBefore(a *agent, memo *Memo) {
	life := memo.Report.Incarnation
	if memo.Report.Fleet != f.id || !memo.Heard.IsZero() || life == a.report.Incarnation || slices.Contains(a.before, life) {
		return
	}
	a.before = append(a.before, life)
	news := false
	for _, c := range f.candidacies {
		took, _ := c.runsOn(&memo.Report)
		if took = took || f.tests(c, a); took && memo.Report.Tenants.Matches(c.name.Tenant) {
			news = c.lose(a.report.Agent) || news
		}
	}
	if news {
		f.touch()
	}
}

// lose notes that the agent is lost, and reports whether that is news.
func (c *candidacy) lose(agent string) (news bool) {
	if slices.Contains(c.lost, agent) || len(c.lost) >= script.MaxFailureLimit {
		return false
	}
	c.lost = append(c.lost, agent)
	return true
}

// conclude counts the calls of a process of the agent that has ended.
func (c *candidacy) conclude(a *agent) {
	if c.compared != nil {
		for _, of := range c.compared.counted {
			if last, ok := of[a]; ok {
				c.keep(a, -sizeOf(&last.calls))
				delete(of, a)
			}
		}
	}
	if c.shadow != nil {
		if _, ok := c.shadow.by[a]; ok {
			c.keep(a, -sizeOfShadow)
			delete(c.shadow.by, a)
		}
	}
	n, ok := c.counts[a]
	if !ok {
		return
	}
	c.keep(a, -sizeOfCalls)
	delete(c.counts, a)
	c.ended.all += n.all
	c.ended.failed += n.failed
}

// unheard notes that the agent is not heard any more, for each candidate that it takes.
func (f *Fleet) unheard(a *agent, now time.Time) {
	a.missed = now
	for _, c := range f.candidacies {
		if f.takes(c, a) {
			c.away.add(a.slot)
		}
	}
}

// expect has candidates wait for an agent that this replica has not heard itself: it may have
// ended since others heard it. If nobody has for too long, they miss it from then on, unless they
// chose their agents later.
func (f *Fleet) expect(a *agent, connected bool) {
	a.missed = a.heard.Add(f.cfg.UnknownAfter)
	for _, c := range f.candidacies {
		if f.takes(c, a) && (connected || a.missed.After(choseAt(f.scripts[c.name].release.Candidate))) {
			c.away.add(a.slot)
		}
	}
}

// choseAt returns when the candidate chose its agents, at the latest. The end of a pause is no such time.
func choseAt(candidate *script.Candidate) time.Time {
	if run := candidate.Running; !run.IsZero() && run.Before(candidate.Since) {
		return run
	}
	return candidate.Since
}

// gone notes that the agent has left in good order, unless it is lost by now.
func (f *Fleet) gone(a *agent, now time.Time) {
	for _, c := range f.candidacies {
		if now.Before(c.lostAt(a)) {
			c.away.remove(a.slot)
		}
	}
}

// forgotten notes that the agent will not come back: who was away until then is lost.
func (f *Fleet) forgotten(a *agent) {
	for _, c := range f.candidacies {
		if c.away.has(a.slot) {
			c.away.remove(a.slot)
			c.lose(a.report.Agent)
		}
		c.conclude(a)
	}
}

// awaitedFor bounds for how long the name of an agent is kept for candidates: of a fleet that
// starts anew under other identities, no agent would be heard.
const awaitedFor = time.Minute

// awaited reports whether a candidate may find the agent lost soon: nobody else has its name until
// then, which would decide that.
func (f *Fleet) awaited(a *agent, now time.Time) bool {
	for _, c := range f.candidacies {
		if !a.unknown && f.takes(c, a) || c.away.has(a.slot) && now.Before(c.lostAt(a)) && now.Sub(a.missed) < awaitedFor {
			return true
		}
	}
	return false
}

// back notes that the agent is heard again, and has not ended.
func (f *Fleet) back(a *agent) {
	for _, c := range f.candidacies {
		c.away.remove(a.slot)
	}
}

// recallLives takes over what the release says of processes that ended before this replica
// knew of the candidate.
func (c *candidacy) recallLives(candidate *script.Candidate) {
	c.ended = calls{all: candidate.Calls, failed: min(candidate.FailedCalls, candidate.Calls)}
	c.calls = c.ended
}

// lostAt returns when the agent, which is away, is lost. After an outage agents come back one after
// the other.
func (c *candidacy) lostAt(a *agent) time.Time {
	since := a.missed
	if c.outage.After(since) {
		since = c.outage
	}
	return since.Add(lostAfter)
}

// late reports whether the agent has missed two reports at least. An outage that ends before its agents are
// unknown shows in nothing else.
func (f *Fleet) late(a *agent, now time.Time) bool {
	return a.unknown || now.Sub(a.heard) >= f.cfg.UnknownAfter*2/3
}

// noteOutages notes the candidates whose agents are late for the most part.
func (f *Fleet) noteOutages(now time.Time) {
	for _, c := range f.candidacies {
		known, late := 0, 0
		for _, g := range f.followers(c.name.Tenant) {
			known += g.known
			late += g.late
		}
		if 2*late > known {
			c.outage = now
		}
	}
}

// losses returns the agents that are lost, in the order in which they were, and those that have
// been away for so long that they are.
func (f *Fleet) losses(c *candidacy, now time.Time) []string {
	lost := slices.Clone(c.lost)
	before := len(lost)
	for slot := range c.away.all {
		if a := f.bySlot[slot]; !now.Before(c.lostAt(a)) && !slices.Contains(c.lost, a.report.Agent) {
			lost = append(lost, a.report.Agent)
		}
	}
	slices.Sort(lost[before:])
	return lost
}

// missing returns when the last of the agents that are away is lost, if it does not come back;
// the zero Time if all of them are lost.
func (f *Fleet) missing(c *candidacy, now time.Time) (until time.Time) {
	for slot := range c.away.all {
		if end := c.lostAt(f.bySlot[slot]); end.After(now) && end.After(until) {
			until = end
		}
	}
	return until
}

// confirmed counts the members that were heard after the step's pause was over: they have run
// the candidate for all of it; and those of them that the step itself selects. Both are 0 before that.
func (f *Fleet) confirmed(c *candidacy, r *script.Release, now time.Time) (n, own int) {
	if _, ok := r.StepOf(); !ok || r.Candidate.Running.IsZero() {
		return 0, 0
	}
	end := r.Candidate.Running.Add(r.Plan().Lasts(r.Candidate.Step))
	if now.Before(end) {
		return 0, 0
	}
	ofStep := c.ofStep()
	if c.confirmed.Equal(end) { // who joins later is heard then
		return c.members.size(), ofStep.size()
	}
	for slot := range c.members.all {
		if a := f.bySlot[slot]; a != nil && !a.heard.Before(end) {
			n++
			if ofStep.has(slot) {
				own++
			}
		}
	}
	if n == c.members.size() {
		c.confirmed = end
	}
	return n, own
}
