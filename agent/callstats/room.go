package callstats

import (
	"cmp"
	"slices"
	"time"
)

// idleAfter is how long a script keeps its place without a call: longer than the time between two scrapes.
const idleAfter = time.Minute

// makeRoom removes places, and reports whether one is free for a script of the tenant. s.mu is held.
func (s *Stats) makeRoom(t *tenant, at time.Duration) bool {
	var idle, called []*place
	most := t
	for _, p := range s.places {
		switch {
		case s.cfg.Table.Get(p.text) == nil:
			s.remove(p)
		case at-p.cell.Last() >= idleAfter:
			idle = append(idle, p)
		default:
			called = append(called, p)
		}
		if p.tenant.places > most.places {
			most = p.tenant
		}
	}
	if len(s.places) < s.cfg.Scripts {
		return true
	}
	byLastCall := func(a, b *place) int { return cmp.Compare(a.cell.Last(), b.cell.Last()) }
	if len(idle) > 0 { // remove several, for the next scripts that look for a place
		slices.SortFunc(idle, byLastCall)
		for _, p := range idle[:min(len(idle), s.cfg.Scripts/16+1)] {
			s.remove(p)
		}
		return true
	}
	if most.places <= t.places+1 {
		return false
	}
	called = slices.DeleteFunc(called, func(p *place) bool { return p.tenant != most })
	s.remove(slices.MinFunc(called, byLastCall))
	return true
}

// remove removes a place. s.mu is held.
func (s *Stats) remove(p *place) {
	p.cell.Close()
	p.cell.Use(&p.tenant.past)
	p.tenant.places--
	delete(s.places, p.name)
}
