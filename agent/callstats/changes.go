package callstats

import (
	"iter"

	"github.com/scriptorium-dev/scriptorium/agent/meter"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Change is what was counted of a script since that was brought to another Stats last.
type Change struct {
	Script  script.Name // without a name of a script: of all of the tenant that have no place
	Figures meter.Figures

	of      *meter.Figures // what was brought so far
	brought meter.Figures  // what will have been brought
}

// Changes yields what was counted since it was brought last. Brought says that another Stats have some of it. One
// goroutine at a time calls both.
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

// changeOf returns what has changed, or nil.
func changeOf(name script.Name, cell *meter.Cell, brought *meter.Figures) *Change {
	c := &Change{Script: name, of: brought}
	cell.Read(&c.brought)
	if c.brought.Calls == brought.Calls && c.brought.Dropped == brought.Dropped {
		return nil
	}
	c.Figures = c.brought.Less(brought)
	return c
}

// Brought says that another Stats have the changes.
func (s *Stats) Brought(changes []*Change) {
	for _, c := range changes {
		*c.of = c.brought
	}
}

// Bring counts what other Stats have counted of a script, or of a tenant's scripts that have no place there. A script
// that there is not here counts nothing.
func (s *Stats) Bring(name script.Name, f *meter.Figures) {
	if name.Script != "" && s.cfg.Table.Get(name.String()) == nil {
		return
	}
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
