package replay

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// State is what a call can use that its record does not hold.
type State string

// What there is of it.
const (
	ReadTime     State = "time" // a moment later than the record's
	ReadRandom   State = "random numbers"
	ReadValues   State = "values"
	ReadCounters State = "counters"
	ReadBuckets  State = "rate limits"
)

// world is what a call uses of its node: it is the engine.Host, the clock and the source of random
// numbers. Each call has a new one, so that no call depends on those before it: counters are 0, and
// buckets full.
type world struct {
	values   map[string][]byte
	now      time.Time
	random   rand.Source
	counters map[string]float64
	buckets  map[string]float64 // their tokens
	read     map[State]bool
}

var _ engine.Host = (*world)(nil)

func newWorld(values map[string][]byte, now time.Time, seed uint64, read map[State]bool) *world {
	return &world{values: values, now: now, random: rand.NewPCG(seed, 0), read: read}
}

func (w *world) clock() time.Time {
	w.read[ReadTime] = true
	return w.now
}

// Uint64 is rand.Source's.
func (w *world) Uint64() uint64 {
	w.read[ReadRandom] = true
	return w.random.Uint64()
}

// Log is engine.Host's.
func (*world) Log(*engine.Invocation, engine.Level, string) {}

// Value is engine.Host's.
func (w *world) Value(_, key string) ([]byte, bool, error) {
	w.read[ReadValues] = true
	content, ok := w.values[key]
	return content, ok, nil
}

// Keys is engine.Host's.
func (w *world) Keys(_, prefix, after string, limit int) []string {
	w.read[ReadValues] = true
	var keys []string
	for key := range w.values {
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
func (w *world) Count(_, counter string, n float64) (float64, error) {
	w.read[ReadCounters] = true
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
func (w *world) Take(_, bucket string, n, rate, burst float64) (ok bool, wait time.Duration) {
	w.read[ReadBuckets] = true
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
