package offline

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// State is what a call can use besides its arguments.
type State string

// What there is of it.
const (
	ReadTime     State = "time"
	ReadRandom   State = "random numbers"
	ReadValues   State = "values"
	ReadCounters State = "counters"
	ReadBuckets  State = "rate limits"
)

// host is what one call uses of its node: it is the engine.Host, the clock and the source of random numbers.
type host struct {
	call     *Call
	random   rand.Source
	counters map[string]float64
	buckets  map[string]float64 // their tokens
	lines    []line             // that the call logged
}

type line struct {
	level   engine.Level
	message string
}

var _ engine.Host = (*host)(nil)

func (h *host) read(s State) {
	if h.call.Read != nil {
		h.call.Read[s] = true
	}
}

func (h *host) clock() time.Time {
	h.read(ReadTime)
	return h.call.Now
}

// Uint64 is rand.Source's.
func (h *host) Uint64() uint64 {
	h.read(ReadRandom)
	return h.random.Uint64()
}

// Log is engine.Host's.
func (h *host) Log(_ *engine.Invocation, level engine.Level, message string) {
	if h.call.Log != nil {
		h.lines = append(h.lines, line{level, message})
	}
}

// Value is engine.Host's.
func (h *host) Value(_, key string) ([]byte, bool, error) {
	h.read(ReadValues)
	content, ok := h.call.Values[key]
	return content, ok, nil
}

// Keys is engine.Host's.
func (h *host) Keys(_, prefix, after string, limit int) []string {
	h.read(ReadValues)
	var keys []string
	for key := range h.call.Values {
		if strings.HasPrefix(key, prefix) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys[:min(len(keys), limit)]
}

// maxCounters is how many an agent has for one tenant.
const maxCounters = 1000

// Count is engine.Host's.
func (h *host) Count(_, counter string, n float64) (float64, error) {
	h.read(ReadCounters)
	value, known := h.counters[counter]
	switch {
	case n == 0:
		return value, nil
	case h.counters == nil:
		h.counters = map[string]float64{}
	case !known && len(h.counters) >= maxCounters:
		return 0, script.Errorf(script.Limit, "counter", "the call has %d counters, and may not have more", maxCounters)
	}
	value = max(-math.MaxFloat64, min(value+n, math.MaxFloat64))
	h.counters[counter] = value
	return value, nil
}

// Take is engine.Host's. The clock stands still, so nothing comes in.
func (h *host) Take(_, bucket string, n, rate, burst float64) (ok bool, wait time.Duration) {
	h.read(ReadBuckets)
	tokens, known := h.buckets[bucket]
	if !known {
		tokens = burst
	}
	if tokens = min(tokens, burst); tokens < n {
		return false, time.Duration(min(math.Ceil((n-tokens)/rate*float64(time.Second)), math.MaxInt64/2))
	}
	if h.buckets == nil {
		h.buckets = map[string]float64{}
	}
	h.buckets[bucket] = tokens - n
	return true, 0
}
