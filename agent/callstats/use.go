package callstats

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/meter"
)

// TenantUse is what the calls of a tenant used.
type TenantUse struct {
	Tenant string
	meter.Use
}

// removeAfter is how long a tenant without calls is kept.
const removeAfter = time.Hour

// TakeUse returns what the calls of each tenant used since it last returned that tenant. It returns at most limit tenants:
// those with the most processor time first. The others remain for the next time. Only one goroutine may call it at a time.
func (s *Stats) TakeUse(limit int) []TenantUse {
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
		if t.places == 0 && now-max(t.moved, t.rest.Last()) >= removeAfter {
			t.rest.Close()
			t.rest.Read(&s.past)
			delete(s.tenants, t.name)
		}
	}
	slices.SortFunc(uses, func(a, b TenantUse) int {
		return cmp.Or(cmp.Compare(b.Ran, a.Ran), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Tenant, b.Tenant))
	})
	uses = uses[:min(len(uses), limit)]
	for _, u := range uses {
		t := s.tenants[u.Tenant]
		t.taken, t.moved = totals[t], now
	}
	return uses
}

// totals returns what the calls of each tenant used so far.
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
	for _, p := range places { // also those that are removed meanwhile
		total := totals[p.tenant]
		p.cell.Use(&total)
		totals[p.tenant] = total
	}
	return totals
}
