package fleet

import (
	"maps"
	"math"
	"slices"

	"github.com/scriptorium-dev/scriptorium/script"
)

// group is the agents that follow the same tenants.
type group struct {
	selector script.Selector
	known    int    // agents, those that are unknown included
	late     int    // of these, at the last sweep
	levels   levels // of those that are connected
	slots    slots  // the same agents
}

// never is a revision that nobody reaches.
const never = script.Revision(math.MaxInt64)

// lowest is the revision that all connected agents of the group have; never if
// there are none.
func (g *group) lowest() script.Revision {
	if r, ok := g.levels.lowest(); ok {
		return r
	}
	return never
}

// join puts the agent into the group of the selector, and takes it out of the one
// that it was in.
func (f *Fleet) join(a *agent, tenants script.Selector) {
	key := tenants.String()
	g := f.groups[key]
	if g != nil && g == a.group {
		return
	}
	if a.group != nil {
		f.leave(a)
	}
	if g == nil {
		g = &group{selector: tenants}
		f.groups[key] = g
		clear(f.following)
	}
	a.group = g
	g.known++
}

// leave takes the agent out of its group.
func (f *Fleet) leave(a *agent) {
	f.disconnect(a)
	if a.group.known--; a.group.known == 0 {
		delete(f.groups, a.group.selector.String())
		clear(f.following)
	}
	a.group = nil
}

// followers returns the groups that follow the tenant.
func (f *Fleet) followers(tenant string) []*group {
	if groups, ok := f.following[tenant]; ok {
		return groups
	}
	var groups []*group
	for _, g := range f.groups {
		if g.selector.Matches(tenant) {
			groups = append(groups, g)
		}
	}
	f.following[tenant] = groups
	return groups
}

// Following returns how many agents that follow just these tenants are connected.
func (f *Fleet) Following(tenants script.Selector) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.groups[tenants.String()]; g != nil {
		return g.levels.count
	}
	return 0
}

// Connected returns the names of the connected agents that follow the tenant.
func (f *Fleet) Connected(tenant string) (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.followers(tenant) {
		for slot := range g.slots.all {
			names = append(names, f.bySlot[slot].report.Agent)
		}
	}
	return names
}

// Answerer is a connected agent that a query may ask.
type Answerer struct {
	Agent, Identity string
	Incarnation     string
	Queries         bool // it answers queries
}

// Answerers returns the connected agents that follow the tenant; all connected ones if it is empty.
func (f *Fleet) Answerers(tenant string) (all []Answerer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	groups := slices.Collect(maps.Values(f.groups))
	if tenant != "" {
		groups = f.followers(tenant)
	}
	for _, g := range groups {
		for slot := range g.slots.all {
			r := &f.bySlot[slot].report
			all = append(all, Answerer{Agent: r.Agent, Identity: r.Identity, Incarnation: r.Incarnation, Queries: r.Queries})
		}
	}
	return all
}

// Groups returns what the agents of the fleet follow, those included that are
// unknown: each selector once.
func (f *Fleet) Groups() []script.Selector {
	f.mu.Lock()
	defer f.mu.Unlock()
	selectors := make([]script.Selector, 0, len(f.groups))
	for _, g := range f.groups {
		selectors = append(selectors, g.selector)
	}
	return selectors
}
