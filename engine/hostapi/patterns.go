package hostapi

import "sync"

// Bounds of what is kept of compiled patterns.
const (
	maxTenantPatterns     = 64
	maxTenantPatternBytes = 1 << 20
	maxPatternsBytes      = 64 << 20 // of all tenants
)

// Patterns keeps compiled patterns, those of each tenant for itself: none can tell from
// the time that a pattern takes what another uses. When there is too much, what was not
// used for longest goes: of the tenant who adds to it, and only when all together have
// too much, all of another one's. The zero value is ready, and safe for concurrent use.
type Patterns struct {
	mu      sync.Mutex
	tenants map[string]*tenantPatterns
	bytes   int
	clock   uint64
}

type tenantPatterns struct {
	byText map[string]*keptPattern
	bytes  int
	used   uint64
}

type keptPattern struct {
	*Pattern
	used uint64
}

// get returns the pattern, or nil if it is not kept.
func (c *Patterns) get(tenant, text string) *Pattern {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[tenant]
	if t == nil {
		return nil
	}
	kept := t.byText[text]
	if kept == nil {
		return nil
	}
	c.clock++
	t.used, kept.used = c.clock, c.clock
	return kept.Pattern
}

// put keeps p, unless it is already there.
func (c *Patterns) put(tenant string, p *Pattern) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tenants == nil {
		c.tenants = map[string]*tenantPatterns{}
	}
	t := c.tenants[tenant]
	if t == nil {
		t = &tenantPatterns{byText: map[string]*keptPattern{}}
		c.tenants[tenant] = t
	}
	if t.byText[p.text] != nil {
		return
	}
	c.clock++
	t.used = c.clock
	t.byText[p.text] = &keptPattern{Pattern: p, used: c.clock}
	t.bytes += p.bytes
	c.bytes += p.bytes
	for len(t.byText) > maxTenantPatterns || t.bytes > maxTenantPatternBytes {
		c.bytes -= t.drop()
	}
	for c.bytes > maxPatternsBytes {
		c.dropTenant()
	}
}

// drop drops what was not used for longest, and returns its bytes.
func (t *tenantPatterns) drop() int {
	var oldest *keptPattern
	for _, kept := range t.byText {
		if oldest == nil || kept.used < oldest.used {
			oldest = kept
		}
	}
	delete(t.byText, oldest.text)
	t.bytes -= oldest.bytes
	return oldest.bytes
}

func (c *Patterns) dropTenant() {
	oldest := ""
	for name, t := range c.tenants {
		if oldest == "" || t.used < c.tenants[oldest].used {
			oldest = name
		}
	}
	c.bytes -= c.tenants[oldest].bytes
	delete(c.tenants, oldest)
}
