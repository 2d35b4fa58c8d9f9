package fleet

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// processLags is why an agent that activated a release does not count as running it.
const processLags = "the tenant's own process does not have the change yet"

// lagging are the connected agents on which a tenant's process lags. No process lacks a release up to
// lowest, so that most releases need no look at the agents.
type lagging struct {
	agents map[*agent]bool
	lowest script.Revision
}

// lags reports whether the agent activated the release, or is to, and the tenant's process does not
// have it.
func (a *agent) lags(r *script.Release) bool {
	above, ok := a.report.Lags[r.Name.Tenant]
	return ok && r.Revision > above
}

// updateLags replaces the agent's lags, those before, which it had said since then, and reports
// whether they differ.
func (f *Fleet) updateLags(a *agent, before map[string]script.Revision, joined bool, since time.Time) bool {
	next := a.report.Lags
	if len(next) == 0 && len(before) == 0 {
		return false
	}
	for tenant := range before {
		if _, ok := next[tenant]; !ok {
			f.unindexLag(a, tenant)
		}
	}
	for tenant, above := range next {
		l := f.lagging[tenant]
		if l == nil {
			l = &lagging{agents: map[*agent]bool{}, lowest: above}
			f.lagging[tenant] = l
		}
		l.agents[a], l.lowest = true, min(l.lowest, above)
	}
	if !joined && maps.Equal(before, next) {
		return false
	}
	lowest := never
	for _, above := range before {
		lowest = min(lowest, above)
	}
	i, _ := slices.BinarySearchFunc(f.pending, lowest, byRevision)
	for _, p := range f.pending[i:] {
		name := p.release.Name
		if above, ok := before[name.Tenant]; ok && p.release.Revision > above {
			f.recovered(a, name, since)
		}
	}
	return true
}

func (f *Fleet) unindexLag(a *agent, tenant string) {
	l := f.lagging[tenant]
	if l == nil {
		return
	}
	if delete(l.agents, a); len(l.agents) == 0 {
		delete(f.lagging, tenant)
	}
}

// troubled yields the connected agents that failed something of the script, and those on which its
// tenant's process may lack the release.
func (f *Fleet) troubled(p *progress) iter.Seq[*agent] {
	return func(yield func(*agent) bool) {
		failing := f.failing[p.release.Name]
		for a := range failing {
			if !yield(a) {
				return
			}
		}
		l := f.lagging[p.release.Name.Tenant]
		if l == nil || p.release.Revision <= l.lowest {
			return
		}
		for a := range l.agents {
			if !failing[a] && !yield(a) {
				return
			}
		}
	}
}

// without yields the connected agents that follow the release and do not run it: those that could not
// activate it have failed, and on others the tenant's process lags.
func (f *Fleet) without(p *progress) iter.Seq2[*agent, bool] {
	return func(yield func(*agent, bool) bool) {
		for a := range f.troubled(p) {
			failed := a.couldNot(&p.release)
			if (failed || a.lags(&p.release)) && a.group.selector.Matches(p.release.Name.Tenant) && !yield(a, failed) {
				return
			}
		}
	}
}

// lacks are the releases that a tenant's process lacks on connected agents that follow the tenant: of
// each agent, those above a revision and up to what it activated.
type lacks struct {
	agents      []*agent // by their names
	above, upTo []script.Revision
}

// lacksOf returns what processes of the release's tenant lack; nil if all have the release. It is not to be
// changed.
func (s *survey) lacksOf(r *script.Release) *lacks {
	tenant := r.Name.Tenant
	l := s.fleet.lagging[tenant]
	if l == nil || r.Revision <= l.lowest {
		return nil
	}
	if known := s.lacks[tenant]; known != nil {
		return known
	}
	found := &lacks{}
	for a := range l.agents {
		if above := a.report.Lags[tenant]; above < a.report.Activated && a.group.selector.Matches(tenant) {
			found.agents, found.above, found.upTo = append(found.agents, a), append(found.above, above), append(found.upTo, a.report.Activated)
		}
	}
	slices.SortFunc(found.agents, func(a, b *agent) int { return strings.Compare(a.report.Agent, b.report.Agent) })
	slices.Sort(found.above)
	slices.Sort(found.upTo)
	if s.lacks == nil {
		s.lacks = map[string]*lacks{}
	}
	s.lacks[tenant] = found
	return found
}

// count returns on how many agents the process lacks the revision, which they activated.
func (l *lacks) count(revision script.Revision) int {
	if l == nil {
		return 0
	}
	began, _ := slices.BinarySearch(l.above, revision)
	ended, _ := slices.BinarySearch(l.upTo, revision)
	return began - ended
}

// first returns the first agent among them that did not fail the release.
func (l *lacks) first(r *script.Release) string {
	for _, a := range l.agents {
		if a.report.Activated >= r.Revision && a.lags(r) && !a.couldNot(r) {
			return a.report.Agent
		}
	}
	return ""
}
