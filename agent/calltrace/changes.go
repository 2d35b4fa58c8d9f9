package calltrace

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// firstWithin is how long after a change a call counts as its first.
	firstWithin = time.Minute
	// maxChanges that were traced are known; of more, some are forgotten.
	maxChanges = 1024
)

// changes are the activations that were traced, by script, so that calls are linked with them.
type changes struct {
	// Most of the time nobody waits for a first call, and calls look no further than here.
	waiting atomic.Int64 // changes without a call
	until   atomic.Int64 // Unix nanoseconds, when the last of them ends to wait

	mu    sync.RWMutex
	known map[script.Name]*change
}

// change is immutable, but for called.
type change struct {
	span     trace.SpanContext
	versions [2]uint64 // that it is about: the active one, and the candidate
	at       time.Time
	called   atomic.Bool
}

// Activated takes note of what went live in a span.
func (t *Tracer) Activated(o script.Object, span trace.SpanContext) {
	r := o.Release
	if r == nil {
		return
	}
	c := &change{span: span, versions: [2]uint64{r.Active.Number}, at: time.Now()}
	if r.Candidate != nil {
		c.versions[1] = r.Candidate.Version.Number
	}
	t.changes.add(r.Name, c)
}

func (s *changes) add(name script.Name, c *change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[script.Name]*change{}
	}
	old, again := s.known[name]
	if again {
		s.first(old)
	} else if len(s.known) >= maxChanges {
		for other, old := range s.known { // any
			s.first(old)
			delete(s.known, other)
			break
		}
	}
	s.known[name] = c
	s.waiting.Add(1)
	s.until.Store(c.at.Add(firstWithin).UnixNano())
}

// first reports whether nobody has called the change, and notes that it is called now.
func (s *changes) first(c *change) bool {
	if c.called.Swap(true) {
		return false
	}
	s.waiting.Add(-1)
	return true
}

// find returns the change that made the version live; nil if that is not known.
func (s *changes) find(name script.Name, version uint64) *change {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.known[name]; c != nil && version != 0 && (version == c.versions[0] || version == c.versions[1]) {
		return c
	}
	return nil
}

// awaits reports whether a call of the version may be the first after a change.
func (s *changes) awaits(name script.Name, version uint64, at time.Time) bool {
	if s.waiting.Load() == 0 || at.UnixNano() >= s.until.Load() {
		return false
	}
	c := s.find(name, version)
	return c != nil && !c.called.Load() && at.Sub(c.at) < firstWithin
}

// of returns the span of the activation that made the version live, and whether this is its first call
// since; the zero one if that is not known.
func (s *changes) of(name script.Name, version uint64, at time.Time) (span trace.SpanContext, first bool) {
	c := s.find(name, version)
	if c == nil {
		return span, false
	}
	return c.span, s.first(c) && at.Sub(c.at) < firstWithin
}
