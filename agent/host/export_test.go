package host

import "github.com/scriptorium-dev/scriptorium/engine"

// Cost returns how many bytes a line counts.
func (h *Host) Cost(inv *engine.Invocation, message string) int { return h.cost(inv, message) }

// Kept returns of how many tenants something is kept, and how many buckets they have.
func (h *Host) Kept() (tenants, buckets int) {
	for _, t := range h.all() {
		t.mu.Lock()
		tenants, buckets = tenants+1, buckets+len(t.buckets.byName)
		t.mu.Unlock()
	}
	return tenants, buckets
}
