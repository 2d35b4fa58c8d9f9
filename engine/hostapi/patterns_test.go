package hostapi

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func kept(t *testing.T, text string) *Pattern {
	t.Helper()
	p, problem := compilePattern(text, func(int, int) bool { return true })
	if problem != nil {
		t.Fatal(problem)
	}
	return p
}

func TestPatternsAreKept(t *testing.T) {
	var c Patterns
	p := kept(t, "a+")
	if c.get("acme", "a+") != nil {
		t.Error("there is one before it was put")
	}
	c.put("acme", p)
	c.put("acme", kept(t, "a+"))
	if c.get("acme", "a+") != p {
		t.Error("it is not kept")
	}
	if c.get("other", "a+") != nil {
		t.Error("another tenant has it, too")
	}
}

// TestPatternsOfOneTenantGoFirst lets a tenant have more patterns than it may.
func TestPatternsOfOneTenantGoFirst(t *testing.T) {
	var c Patterns
	c.put("quiet", kept(t, "quiet"))
	for i := range 10 * maxTenantPatterns {
		c.put("noisy", kept(t, fmt.Sprint("noisy", i)))
		if c.get("noisy", "noisy0") == nil {
			t.Fatalf("what was just used is gone after %d more", i)
		}
	}
	if n := len(c.tenants["noisy"].byText); n != maxTenantPatterns {
		t.Errorf("%d patterns of one tenant", n)
	}
	if c.get("quiet", "quiet") == nil {
		t.Error("another tenant's pattern is gone")
	}
	checkBytes(t, &c)
	for i := range 10 {
		c.put("large", kept(t, "a{250}"+strings.Repeat("b", 400)+fmt.Sprint(i)))
	}
	if n := c.tenants["large"].bytes; n > maxTenantPatternBytes {
		t.Errorf("%d bytes of one tenant", n)
	}
	checkBytes(t, &c)
}

func TestPatternsOfAllAreBounded(t *testing.T) {
	var c Patterns
	p := kept(t, "a{250}"+strings.Repeat("b", 400))
	for i := range 2 * maxPatternsBytes / p.bytes {
		c.put(fmt.Sprint("tenant", i), p)
		if i%100 == 0 && c.get("tenant0", p.text) == nil {
			t.Fatalf("what was used lately is gone after %d more", i)
		}
	}
	if c.bytes > maxPatternsBytes {
		t.Errorf("%d bytes", c.bytes)
	}
	checkBytes(t, &c)
}

func checkBytes(t *testing.T, c *Patterns) {
	t.Helper()
	all := 0
	for name, tenant := range c.tenants {
		sum := 0
		for _, p := range tenant.byText {
			sum += p.bytes
		}
		if sum != tenant.bytes {
			t.Errorf("%s has %d bytes, and says %d", name, sum, tenant.bytes)
		}
		all += sum
	}
	if all != c.bytes {
		t.Errorf("all have %d bytes, and it says %d", all, c.bytes)
	}
}

func TestPatternsAtOnce(_ *testing.T) {
	var c Patterns
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 200 {
				text := fmt.Sprint("p", i%100)
				tenant := fmt.Sprint("tenant", (i+worker)%3)
				if c.get(tenant, text) == nil {
					p, _ := compilePattern(text, func(int, int) bool { return true })
					c.put(tenant, p)
				}
			}
		})
	}
	wg.Wait()
}
