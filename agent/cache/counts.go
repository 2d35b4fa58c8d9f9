package cache

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Counts counts the calls of a candidate where it runs, from when it went live there. A
// release that follows with the same attempt goes on with it. It is safe for concurrent
// use.
type Counts struct {
	calls, failed atomic.Uint64
	ended         atomic.Bool
}

// note counts a call that has run.
func (c *Counts) note(failed bool) {
	if failed {
		c.failed.Add(1) // first, so that nobody reads a call without its failure
	}
	c.calls.Add(1)
}

// Add counts calls that were counted elsewhere, and those of them that failed.
func (c *Counts) Add(calls, failed uint64) {
	c.failed.Add(failed)
	c.calls.Add(calls)
}

// End notes that the process which runs the candidate ended.
func (c *Counts) End() { c.ended.Store(true) }

// Ended reports whether such a process has.
func (c *Counts) Ended() bool { return c.ended.Load() }

// Read returns how many calls there were, and how many of them failed.
func (c *Counts) Read() (calls, failed uint64) {
	calls = c.calls.Load()
	return calls, min(c.failed.Load(), calls)
}

// Take returns what Read does, and begins anew.
func (c *Counts) Take() (calls, failed uint64) {
	calls = c.calls.Swap(0)
	failed = min(c.failed.Load(), calls)
	c.failed.Add(-failed)
	return calls, failed
}

// StepCounts counts the calls of the version that runs here in one step of a candidate's rollout,
// from when that was activated. It is safe for concurrent use.
type StepCounts struct {
	Step int

	failed atomic.Uint64
	made   atomic.Pointer[buckets] // nil before the first call: most scripts of many are not called
}

type buckets [script.LatencyBuckets]atomic.Uint64

// buckets returns those of c. They are made once.
func (c *StepCounts) buckets() *buckets {
	if b := c.made.Load(); b != nil {
		return b
	}
	c.made.CompareAndSwap(nil, new(buckets))
	return c.made.Load()
}

func (c *StepCounts) note(failed bool, took time.Duration) {
	c.buckets()[script.LatencyBucket(took)].Add(1)
	if failed {
		c.failed.Add(1) // last, so that nobody reads a failure without its call
	}
}

// Add counts calls that were counted elsewhere, if they are of the same step.
func (c *StepCounts) Add(calls script.StepCalls) {
	if calls.Step != c.Step || !calls.Valid() {
		return
	}
	b := c.buckets()
	for i, n := range calls.Buckets {
		b[calls.First+i].Add(n)
	}
	c.failed.Add(calls.FailedCalls)
}

// Read returns the calls; nil if there are none.
func (c *StepCounts) Read() *script.StepCalls {
	failed := c.failed.Load()
	calls := c.read((*atomic.Uint64).Load)
	if calls != nil {
		calls.FailedCalls = min(failed, calls.Calls())
	}
	return calls
}

// Take returns what Read does, and begins anew. A failure that comes between its call and this one
// is among those that are taken next.
func (c *StepCounts) Take() *script.StepCalls {
	calls := c.read(func(n *atomic.Uint64) uint64 { return n.Swap(0) })
	if calls != nil {
		calls.FailedCalls = min(c.failed.Load(), calls.Calls())
		c.failed.Add(-calls.FailedCalls)
	}
	return calls
}

// read returns the calls, without those that failed.
func (c *StepCounts) read(count func(*atomic.Uint64) uint64) *script.StepCalls {
	made := c.made.Load()
	if made == nil {
		return nil
	}
	first, buckets := 0, make([]uint64, 0, script.LatencyBuckets)
	for i := range made {
		n := count(&made[i])
		switch {
		case n == 0 && len(buckets) == 0:
			first = i + 1
		default:
			buckets = append(buckets, n)
		}
	}
	for len(buckets) > 0 && buckets[len(buckets)-1] == 0 {
		buckets = buckets[:len(buckets)-1]
	}
	if len(buckets) == 0 {
		return nil
	}
	return &script.StepCalls{Step: c.Step, First: first, Buckets: slices.Clip(buckets)}
}
