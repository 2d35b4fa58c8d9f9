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
}

var _ engine.Host = (*host)(nil)

func (w *host) read(s State) {
	if w.call.Read != nil {
		w.call.Read[s] = true
	}
}

func (w *host) clock() time.Time {
	w.read(ReadTime)
	return w.call.Now
}

// Uint64 is rand.Source's.
func (w *host) Uint64() uint64 {
	w.read(ReadRandom)
	return w.random.Uint64()
}

// Log is engine.Host's.
func (w *host) Log(_ *engine.Invocation, level engine.Level, message string) {
	if w.call.Log != nil {
		w.call.Log(level, message)
	}
}

// Value is engine.Host's.
func (w *host) Value(_, key string) ([]byte, bool, error) {
	w.read(ReadValues)
	content, ok := w.call.Values[key]
	return content, ok, nil
}

// Keys is engine.Host's.
func (w *host) Keys(_, prefix, after string, limit int) []string {
	w.read(ReadValues)
	var keys []string
	for key := range w.call.Values {
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
func (w *host) Count(_, counter string, n float64) (float64, error) {
	w.read(ReadCounters)
	value, known := w.counters[counter]
	switch {
	case n == 0:
		return value, nil
	case w.counters == nil:
		w.counters = map[string]float64{}
	case !known && len(w.counters) >= maxCounters:
		return 0, script.Errorf(script.Limit, "counter", "the call has %d counters, and may not have more", maxCounters)
	}
	value = max(-math.MaxFloat64, min(value+n, math.MaxFloat64))
	w.counters[counter] = value
	return value, nil
}

// Take is engine.Host's. The clock stands still, so nothing comes in.
func (w *host) Take(_, bucket string, n, rate, burst float64) (ok bool, wait time.Duration) {
	w.read(ReadBuckets)
	tokens, known := w.buckets[bucket]
	if !known {
		tokens = burst
	}
	if tokens = min(tokens, burst); tokens < n {
		return false, time.Duration(min(math.Ceil((n-tokens)/rate*float64(time.Second)), math.MaxInt64/2))
	}
	if w.buckets == nil {
		w.buckets = map[string]float64{}
	}
	w.buckets[bucket] = tokens - n
	return true, 0
}
