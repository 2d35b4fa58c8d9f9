package usage

import (
	"cmp"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// hour is the usage in one hour, by part and tenant.
type hour [Parts]map[string]script.Usage

func (h *hour) put(p Part) {
	h[p.Number] = make(map[string]script.Usage, len(p.Tenants))
	for _, u := range p.Tenants {
		h[p.Number][u.Tenant] = u.Usage
	}
}

// part returns the usage of the tenants of a part, sorted by name.
func (h *hour) part(number int) []script.TenantUsage {
	all := make([]script.TenantUsage, 0, len(h[number]))
	for tenant, u := range h[number] {
		all = append(all, script.TenantUsage{Tenant: tenant, Usage: u})
	}
	slices.SortFunc(all, func(a, b script.TenantUsage) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return all
}

// add adds usage, and returns the changed parts. It drops new tenants above maxTenants.
func (h *hour) add(at time.Time, tenants map[string]*script.Usage) (parts []Part, dropped uint64) {
	room := maxTenants
	for _, part := range h {
		room -= len(part)
	}
	var changed [Parts]bool
	for tenant, u := range tenants {
		n := partOf(tenant)
		sum, known := h[n][tenant]
		switch {
		case known:
		case room <= 0:
			dropped++
			continue
		case h[n] == nil:
			h[n] = map[string]script.Usage{}
			fallthrough
		default:
			room--
		}
		h[n][tenant], changed[n] = sum.Add(*u), true
	}
	for n := range changed {
		if changed[n] {
			parts = append(parts, Part{Hour: at, Number: n, Tenants: h.part(n)})
		}
	}
	return parts, dropped
}
