package hostapi

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// maxHostName is the length of the longest counter name. A digest replaces a bucket name that is longer.
	maxHostName = 128
	// maxRate bounds what a bucket is given.
	maxRate = 1e9
)

// Add adds n to the tenant's counter on this agent and returns what it is then.
func (c *Call) Add(counter string, n float64) (float64, *script.Error) {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fault("n", "want a finite number")
	}
	return c.count("counter.add", counter, n)
}

// Count returns what the tenant's counter on this agent is.
func (c *Call) Count(counter string) (float64, *script.Error) {
	return c.count("counter.get", counter, 0)
}

func (c *Call) count(function, counter string, n float64) (float64, *script.Error) {
	if !isCounterName(counter) {
		return 0, fault("name", "want 1 to 128 of A-Z, a-z, 0-9, '.', '_', '-', ':' and '/'")
	}
	host, err := c.host(function)
	if err != nil {
		return 0, err
	}
	value, problem := host.Count(c.Tenant, counter, n)
	if problem != nil {
		return 0, script.Errorf(script.KindOf(problem), "", "%s", Clip(problem.Error()))
	}
	return value, nil
}

func isCounterName(name string) bool {
	if name == "" || len(name) > maxHostName {
		return false
	}
	for i := range len(name) {
		switch c := lowerByte(name[i]); {
		case 'a' <= c && c <= 'z', '-' <= c && c <= ':', c == '_': // "-./", digits and ":"
		default:
			return false
		}
	}
	return true
}

// Rate is what a bucket of tokens is like, and what is taken from it.
type Rate struct {
	Rate  float64 // tokens that come a second
	Burst float64 // tokens that it holds
	Cost  float64 // tokens that are taken
}

// DefaultBurst is what a bucket holds that does not say it.
func DefaultBurst(rate float64) float64 { return math.Max(rate, 1) }

// Take takes tokens from the tenant's bucket on this agent. If there are too few it takes none: ok is false, and
// after wait there are enough.
func (c *Call) Take(bucket string, r Rate) (ok bool, wait time.Duration, err *script.Error) {
	switch {
	case math.IsNaN(r.Rate) || r.Rate <= 0 || r.Rate > maxRate:
		return false, 0, fault("options", "rate must be above 0 and at most 1e9")
	case math.IsNaN(r.Burst) || r.Burst <= 0 || r.Burst > maxRate:
		return false, 0, fault("options", "burst must be above 0 and at most 1e9")
	case math.IsNaN(r.Cost) || r.Cost < 0 || r.Cost > r.Burst:
		return false, 0, fault("options", "cost must be between 0 and burst")
	}
	if len(bucket) > maxHostName { // it may be what a stranger sent
		h := sha256.New()
		if !c.digest(h, bucket) {
			return false, 0, stopped()
		}
		bucket = hex.EncodeToString(h.Sum(nil))
	}
	host, err := c.host("ratelimit.allow")
	if err != nil {
		return false, 0, err
	}
	ok, wait = host.Take(c.Tenant, bucket, r.Cost, r.Rate, r.Burst)
	return ok, wait, nil
}
