// Package meter counts calls and what they use. It costs a few nanoseconds per call, and calls that end at the same time
// do not wait for each other.
package meter

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/histogram"
)

// Call is one call to count.
type Call struct {
	At           time.Duration // the end of the call, on a monotonic clock
	Took         time.Duration
	Ran          time.Duration // the part of Took during which it had a processor
	Outcome      int           // see OutcomeOf
	Instructions uint64
	Allocated    uint64
	In, Out      int // bytes of arguments and of results
}

// Cell counts calls. The zero Cell is ready for use. It is safe for concurrent use.
//
// It has several lanes, and each call locks a free one. The number of lanes grows, up to maxLanes, when none is free.
type Cell struct {
	// Shared means that the cell counts calls of several scripts. Set it before the first use.
	Shared bool

	lanes   atomic.Pointer[[]*lane] // their number is a power of two; nil before the first call
	last    atomic.Int64            // the end of the last call, up to a second early
	growing sync.Mutex              // guards the number of lanes, and closed
	closed  bool
}

type lane struct {
	mu      sync.Mutex
	closed  bool
	figures Figures
	_       [64]byte // no two lanes share a cache line
}

// maxLanes is enough for many processors: a call holds its lane for nanoseconds.
const maxLanes = 8

// Note counts a call. It reports false, and counts nothing, if the cell is closed.
func (c *Cell) Note(call *Call) bool {
	l := c.take()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	f := &l.figures
	f.Calls++
	if call.Outcome != 0 {
		f.Errors++
	}
	f.Outcomes[call.Outcome]++
	f.Buckets[histogram.Of(call.Took)]++
	f.Took += call.Took
	f.Ran += call.Ran
	f.Instructions += call.Instructions
	f.Allocated += call.Allocated
	f.In += uint64(call.In)   //nolint:gosec // the size of what was there
	f.Out += uint64(call.Out) //nolint:gosec // likewise
	l.mu.Unlock()
	if call.At-time.Duration(c.last.Load()) > time.Second {
		c.last.Store(int64(call.At))
	}
	return true
}

// Add counts figures that were counted elsewhere. It reports false, and counts nothing, if the cell is closed.
func (c *Cell) Add(f *Figures, at time.Duration) bool {
	l := c.take()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.figures.Add(f)
	if f.Calls > 0 {
		c.last.Store(int64(at))
	}
	return true
}

// take returns a lane with its mutex locked.
func (c *Cell) take() *lane {
	lanes := c.all()
	first := 0
	if len(lanes) > 1 {
		first = int(rand.Uint32()) & (len(lanes) - 1) //nolint:gosec // it need not be secret
	}
	if l := lanes[first]; l.mu.TryLock() {
		return l
	}
	return c.takeOther(lanes, first)
}

// takeOther returns a locked lane after lanes[first] was not free. It first doubles the lanes.
func (c *Cell) takeOther(lanes []*lane, first int) *lane {
	if len(lanes) < min(maxLanes, runtime.GOMAXPROCS(0)) {
		c.grow(len(lanes))
		lanes = c.all()
	}
	for i := range lanes {
		if l := lanes[(first+i)&(len(lanes)-1)]; l.mu.TryLock() {
			return l
		}
	}
	l := lanes[first] // free in some nanoseconds
	l.mu.Lock()
	return l
}

// all returns the lanes, at least one.
func (c *Cell) all() []*lane {
	if lanes := c.lanes.Load(); lanes != nil {
		return *lanes
	}
	c.grow(0)
	return *c.lanes.Load()
}

// grow doubles the lanes, unless their number is no longer from.
func (c *Cell) grow(from int) {
	c.growing.Lock()
	defer c.growing.Unlock()
	var lanes []*lane
	if had := c.lanes.Load(); had != nil {
		lanes = *had
	}
	if len(lanes) != from {
		return
	}
	more := append(make([]*lane, 0, max(1, 2*from)), lanes...)
	for len(more) < cap(more) {
		more = append(more, &lane{closed: c.closed})
	}
	c.lanes.Store(&more)
}

// Last returns the end of the last call, up to a second early; 0 if there was none.
func (c *Cell) Last() time.Duration { return time.Duration(c.last.Load()) }

// Read adds the counts to f.
func (c *Cell) Read(f *Figures) {
	c.each(func(l *lane) { f.Add(&l.figures) })
}

// Use adds what the calls used to u.
func (c *Cell) Use(u *Use) {
	c.each(func(l *lane) { u.Add(&l.figures.Use) })
}

func (c *Cell) each(do func(*lane)) {
	lanes := c.lanes.Load()
	if lanes == nil {
		return
	}
	for _, l := range *lanes {
		l.mu.Lock()
		do(l)
		l.mu.Unlock()
	}
}

// Close stops counting. The counts remain.
func (c *Cell) Close() {
	c.growing.Lock()
	defer c.growing.Unlock()
	c.closed = true
	c.each(func(l *lane) { l.closed = true })
}
