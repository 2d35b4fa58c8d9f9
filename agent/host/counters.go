package host

import (
	"math"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// maxCounters of a tenant.
const maxCounters = 1000

// count adds n to a counter and returns what it is then. One that nothing was added to
// does not come to be. t.mu is held.
func (t *tenant) count(name string, n float64) (float64, error) {
	value, known := t.counters[name]
	if n == 0 {
		return value, nil
	}
	if !known {
		if len(t.counters) >= maxCounters {
			return 0, script.Errorf(script.Limit, "counter", "tenant %s has %d counters on this agent, and may not have more: name fewer things", t.name, maxCounters)
		}
		name = strings.Clone(name) // what it was cut out of may be large
	}
	value = max(-math.MaxFloat64, min(value+n, math.MaxFloat64))
	t.counters[name] = value
	return value, nil
}
