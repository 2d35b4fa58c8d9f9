package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// survey is what the statuses of many releases at one moment need to know of the agents. The
// fleet works each part out once, and only if a status needs it.
type survey struct {
	fleet     *Fleet
	last      map[*group]*agent
	behind    []*agent // the connected agents that are behind the head, by what they have
	looked    bool     // for those
	lateOf    map[int]slots
	following map[string]slots
	wanted    slots // the memory of waiting
	lacks     map[string]*lacks

	dependencies map[script.Name]Dependency
}

// lastOf returns of each group the connected agent that is furthest behind.
func (s *survey) lastOf() map[*group]*agent {
	if s.last != nil {
		return s.last
	}
	s.last = make(map[*group]*agent, len(s.fleet.groups))
	for _, a := range s.fleet.agents {
		if last := s.last[a.group]; !a.unknown && (last == nil || a.behind(last)) {
			s.last[a.group] = a
		}
	}
	return s.last
}

// late returns the connected agents that have yet to activate the release, among them some
// that do not follow it. It is not to be changed.
func (s *survey) late(p *progress) slots {
	for _, g := range s.fleet.followers(p.release.Name.Tenant) {
		if g.lowest() < p.release.Revision {
			return s.below(p.release.Revision)
		}
	}
	return nil
}

// below returns the connected agents that have yet to activate the revision.
func (s *survey) below(revision script.Revision) slots {
	if !s.looked {
		s.looked, s.lateOf = true, map[int]slots{}
		for _, a := range s.fleet.agents {
			if !a.unknown && a.report.Activated < s.fleet.head {
				s.behind = append(s.behind, a)
			}
		}
		slices.SortFunc(s.behind, func(a, b *agent) int { return cmp.Compare(a.report.Activated, b.report.Activated) })
	}
	n, _ := slices.BinarySearchFunc(s.behind, revision, func(a *agent, r script.Revision) int { return cmp.Compare(a.report.Activated, r) })
	late, ok := s.lateOf[n]
	if !ok {
		late = make(slots, len(s.fleet.bySlot)/64+1)
		for _, a := range s.behind[:n] {
			late.add(a.slot)
		}
		s.lateOf[n] = late
	}
	return late
}

// followers returns the connected agents that follow the tenant. It is not to be changed.
func (s *survey) followers(tenant string) slots {
	groups := s.fleet.followers(tenant)
	if len(groups) == 1 {
		return groups[0].slots
	}
	all, ok := s.following[tenant]
	if !ok {
		all = make(slots, len(s.fleet.bySlot)/64+1)
		for _, g := range groups {
			for i, word := range g.slots {
				all[i] |= word
			}
		}
		if s.following == nil {
			s.following = map[string]slots{}
		}
		s.following[tenant] = all
	}
	return all
}

// MaxWaitingFor is how many agents Trials names that are waited for.
const MaxWaitingFor = 5

// waiting counts the agents that the candidate, if it is on its way, waits for, and names
// the first of them.
func (f *Fleet) waiting(p *progress, c *candidacy, s *survey) (n int, first []string) {
	if p.release.Candidate.Failed != "" || p.release.Frozen() {
		return 0, nil
	}
	followers, late, tests := s.followers(c.name.Tenant), s.late(p), len(p.release.Candidate.Spec.Tests) > 0
	s.wanted = s.wanted[:0]
	for i, word := range followers {
		wanted := late.word(i) | c.members.word(i)&^c.heard.word(i) | c.old.word(i)
		if tests {
			wanted |= ^c.passed.word(i)
		}
		s.wanted = append(s.wanted, wanted&word)
	}
	for a, failed := range f.without(p) {
		s.wanted.set(a.slot, !failed || !c.lasts(a))
	}
	for a := range c.failed {
		s.wanted.remove(a.slot)
	}
	n = s.wanted.size()
	return n, f.firstOf(s.wanted, n)
}

// maxWhy bounds the bytes of the reason that holds a candidate up.
const maxWhy = 200

// waitingWhy says what holds the candidate up on the first of the agents, if that is known.
func (f *Fleet) waitingWhy(p *progress, c *candidacy, agents []string) string {
	if len(agents) == 0 {
		return ""
	}
	a := f.agents[agents[0]]
	why := c.held[a]
	switch {
	case c.old.has(a.slot): // it says nothing of the candidate
		why = c.tooOld(&a.report)
	case a.couldNot(&p.release):
		why = a.failures[c.name].Err.Error()
	case a.lags(&p.release) && a.report.Activated >= p.release.Revision:
		why = processLags
	}
	if len(why) > maxWhy {
		why = strings.ToValidUTF8(why[:maxWhy], "") + "…"
	}
	return why
}

// fewAgents are sorted rather than looked for among all.
const fewAgents = 64

// firstOf names the first of n agents, at most MaxWaitingFor.
func (f *Fleet) firstOf(agents slots, n int) (names []string) {
	switch {
	case n == 0:
		return nil
	case n <= fewAgents:
		names = make([]string, 0, n)
		for slot := range agents.all {
			names = append(names, f.bySlot[slot].report.Agent)
		}
		slices.Sort(names)
		return names[:min(n, MaxWaitingFor)]
	}
	for _, slot := range f.byName {
		if agents.has(slot) {
			names = append(names, f.bySlot[slot].report.Agent)
		}
		if len(names) == MaxWaitingFor {
			break
		}
	}
	return names
}
