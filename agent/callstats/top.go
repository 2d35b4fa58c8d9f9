package callstats

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/meter"
	"github.com/scriptorium-dev/scriptorium/script"
)

// IsOther reports whether calls of the script count for its tenant only.
func (s *Stats) IsOther(name script.Name) bool {
	r := s.cfg.Table.Get(name.String())
	if r == nil {
		return false
	}
	cell := r.Meter.Load()
	return cell != nil && cell.Shared
}

// Sample is the counts of some scripts at one time.
type Sample struct {
	of     script.Name
	at     time.Time
	places map[*place]meter.Figures
	rests  map[*tenant]meter.Figures
}

// Sample returns the counts of the script; of all scripts of the tenant if Script is empty; of all scripts if both are.
func (s *Stats) Sample(of script.Name) *Sample {
	sample := &Sample{of: of, at: time.Now(), places: map[*place]meter.Figures{}, rests: map[*tenant]meter.Figures{}}
	places, tenants := s.all()
	for _, p := range places {
		if sample.has(p.name) {
			sample.places[p] = read(&p.cell)
		}
	}
	for _, t := range tenants {
		if of.Script == "" && sample.has(script.Name{Tenant: t.name}) {
			sample.rests[t] = read(&t.rest)
		}
	}
	return sample
}

func (s *Sample) has(name script.Name) bool {
	return (s.of.Tenant == "" || s.of.Tenant == name.Tenant) && (s.of.Script == "" || s.of.Script == name.Script)
}

func read(cell *meter.Cell) (f meter.Figures) {
	cell.Read(&f)
	return f
}

// Counted is the calls of a script between two samples; without Script, those of the tenant's scripts without a place.
type Counted struct {
	Script script.Name
	meter.Figures
}

// Since returns the calls since an earlier sample of the same scripts, and the time between the two. Scripts without calls
// are left out.
func (s *Sample) Since(before *Sample) (counted []Counted, took time.Duration) {
	add := func(name script.Name, now, then meter.Figures) {
		if f := now.Less(&then); f.Calls > 0 {
			counted = append(counted, Counted{name, f})
		}
	}
	for p, now := range s.places {
		add(p.name, now, before.places[p])
	}
	for t, now := range s.rests {
		add(script.Name{Tenant: t.name}, now, before.rests[t])
	}
	return counted, s.at.Sub(before.at)
}
