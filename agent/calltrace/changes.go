package calltrace

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// firstWithin is the time after a change in which a call counts as its first.
	firstWithin = time.Minute
	// maxChanges is the maximum number of traced changes in memory. Above it, any old one is dropped.
	maxChanges = 1024
)

// changes has the traced activations by script, to link calls with them.
type changes struct {
	// These are a fast path: most of the time no change waits for its first call.
	waiting atomic.Int64 // number of changes without a call
	until   atomic.Int64 // Unix nanoseconds until which the last change waits

	mu    sync.RWMutex
	known map[script.Name]*change
}

// change is immutable, but for called.
type change struct {
	span     trace.SpanContext
	versions [2]uint64 // the active version, and the candidate
	at       time.Time
	called   atomic.Bool
}

// Activated records the activation of an object, and its span.
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

// first marks the change as called, and reports whether this is its first call.
func (s *changes) first(c *change) bool {
	if c.called.Swap(true) {
		return false
	}
	s.waiting.Add(-1)
	return true
}

// find returns the change that activated the version; nil if there is none in memory.
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

// of returns the span of the change that activated the version, and whether this is its first call. The span is zero
// if there is none in memory.
func (s *changes) of(name script.Name, version uint64, at time.Time) (span trace.SpanContext, first bool) {
	c := s.find(name, version)
	if c == nil {
		return span, false
	}
	return c.span, s.first(c) && at.Sub(c.at) < firstWithin
}
