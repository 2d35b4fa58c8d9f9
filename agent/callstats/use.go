package callstats

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/meter"
)

// TenantUse is what the calls of a tenant have used.
type TenantUse struct {
	Tenant string
	meter.Use
}

// forgetAfter is how long something is kept of a tenant of which no script is called.
const forgetAfter = time.Hour

// TakeUse returns what the calls of each tenant have used since this was taken last. If that is more than so many
// tenants, those come first that used a processor for longest; the others are left for the next time. One goroutine
// at a time calls it.
func (s *Stats) TakeUse(most int) []TenantUse {
	totals := s.totals()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var uses []TenantUse
	for t, total := range totals {
		if use := total.Less(&t.taken); use != (meter.Use{}) {
			uses = append(uses, TenantUse{t.name, use})
			continue
		}
		if t.places == 0 && now-max(t.moved, t.rest.Last()) >= forgetAfter {
			t.rest.Close()
			t.rest.Read(&s.past)
			delete(s.tenants, t.name)
		}
	}
	slices.SortFunc(uses, func(a, b TenantUse) int {
		return cmp.Or(cmp.Compare(b.Ran, a.Ran), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Tenant, b.Tenant))
	})
	uses = uses[:min(len(uses), most)]
	for _, u := range uses {
		t := s.tenants[u.Tenant]
		t.taken, t.moved = totals[t], now
	}
	return uses
}

// totals returns what the calls of each tenant have used so far.
func (s *Stats) totals() map[*tenant]meter.Use {
	s.mu.Lock()
	totals, places := make(map[*tenant]meter.Use, len(s.tenants)), slices.Collect(maps.Values(s.places))
	for _, t := range s.tenants {
		totals[t] = t.past
	}
	s.mu.Unlock()
	for t, total := range totals {
		t.rest.Use(&total)
		totals[t] = total
	}
	for _, p := range places { // one that loses its place meanwhile keeps its figures
		total := totals[p.tenant]
		p.cell.Use(&total)
		totals[p.tenant] = total
	}
	return totals
}
