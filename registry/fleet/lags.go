package fleet

import (
	"iter"
	"maps"
	"slices"
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
