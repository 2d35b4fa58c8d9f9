package shadow

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// maxNames bounds the counters of a State, and its buckets.
const maxNames = 1000

// State is the counters and buckets of a version in the shadow. The zero State is empty. It is safe
// for concurrent use.
type State struct {
	mu       sync.Mutex
	counters map[string]float64
	buckets  map[string]bucket
}

type bucket struct {
	tokens float64
	at     time.Time
}

// Fork returns a copy.
func (s *State) Fork() *State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &State{counters: maps.Clone(s.counters), buckets: maps.Clone(s.buckets)}
}

// reset empties s.
func (s *State) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counters, s.buckets = nil, nil
}

// Count adds n to the counter, and returns what it is then. An error is one of kind Limit.
func (s *State) Count(counter string, n float64) (float64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.counters[counter]; !known && len(s.counters) >= maxNames {
		return 0, script.Errorf(script.Limit, "counter", "the shadow has %d counters, the most there are", maxNames)
	}
	if s.counters == nil {
		s.counters = map[string]float64{}
	}
	s.counters[counter] += n
	return s.counters[counter], nil
}

// Take takes n tokens from the bucket as of now: see engine.Host.
func (s *State) Take(now time.Time, name string, n, rate, burst float64) (ok bool, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, known := s.buckets[name]
	switch {
	case !known && len(s.buckets) >= maxNames:
		clear(s.buckets) // each is full at its first use
		fallthrough
	case !known:
		b = bucket{tokens: burst, at: now}
	case now.After(b.at):
		b.tokens, b.at = min(burst, b.tokens+rate*now.Sub(b.at).Seconds()), now
	}
	if ok = b.tokens >= n; ok {
		b.tokens -= n
	} else {
		const most = math.MaxInt64 / 2
		wait = time.Duration(min(math.Ceil((n-b.tokens)/rate*float64(time.Second)), most))
	}
	if s.buckets == nil {
		s.buckets = map[string]bucket{}
	}
	s.buckets[name] = b
	return ok, wait
}
