package callstats

import (
	"cmp"
	"slices"
	"time"
)

// idleAfter is how long a script keeps its place without a call. Between two scrapes its metrics do not vanish.
const idleAfter = time.Minute

// makeRoom takes places from scripts, and reports whether there is one for a script of the tenant. s.mu is held.
func (s *Stats) makeRoom(t *tenant, at time.Duration) bool {
	var idle, called []*place
	most := t
	for _, p := range s.places {
		switch {
		case s.cfg.Table.Get(p.text) == nil:
			s.take(p)
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
	longest := func(a, b *place) int { return cmp.Compare(a.cell.Last(), b.cell.Last()) }
	if len(idle) > 0 { // several: others look for one, too
		slices.SortFunc(idle, longest)
		for _, p := range idle[:min(len(idle), s.cfg.Scripts/16+1)] {
			s.take(p)
		}
		return true
	}
	if most.places <= t.places+1 {
		return false
	}
	called = slices.DeleteFunc(called, func(p *place) bool { return p.tenant != most })
	s.take(slices.MinFunc(called, longest))
	return true
}

// take takes the place of a script. s.mu is held.
func (s *Stats) take(p *place) {
	p.cell.Close()
	p.cell.Use(&p.tenant.past)
	p.tenant.places--
	delete(s.places, p.name)
}
