package callstats

import (
	"iter"

	"github.com/scriptorium-dev/scriptorium/agent/meter"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Change is the new counts of a script, for another Stats.
type Change struct {
	Script  script.Name // without Script: the scripts of the tenant that have no place
	Figures meter.Figures

	of      *meter.Figures // the counts that the other Stats has
	brought meter.Figures  // those that it has after this Change
}

// Changes yields the counts that the other Stats does not have. Call Brought when it has them. Only one goroutine may call
// both at a time.
func (s *Stats) Changes() iter.Seq[*Change] {
	return func(yield func(*Change) bool) {
		places, tenants := s.all()
		for _, p := range places {
			if c := changeOf(p.name, &p.cell, &p.brought); c != nil && !yield(c) {
				return
			}
		}
		for _, t := range tenants {
			if c := changeOf(script.Name{Tenant: t.name}, &t.rest, &t.brought); c != nil && !yield(c) {
				return
			}
		}
	}
}

// changeOf returns the Change, or nil if there is none.
func changeOf(name script.Name, cell *meter.Cell, brought *meter.Figures) *Change {
	c := &Change{Script: name, of: brought}
	cell.Read(&c.brought)
	if c.brought.Calls == brought.Calls && c.brought.Dropped == brought.Dropped {
		return nil
	}
	c.Figures = c.brought.Less(brought)
	return c
}

// Brought records that the other Stats has the changes.
func (s *Stats) Brought(changes []*Change) {
	for _, c := range changes {
		*c.of = c.brought
	}
}

// Bring adds a Change of another Stats. The calls of a script that does not exist here any more count for its tenant.
func (s *Stats) Bring(name script.Name, f *meter.Figures) {
	at := s.now()
	try := s.mayTry(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if name.Script == "" {
		s.tenant(name.Tenant, at).rest.Add(f, at)
		return
	}
	s.cellOf(name, at, try).Add(f, at)
}
