package cache

import (
	"sync/atomic"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Counts counts the calls of a candidate where it runs, from when it went live there. A
// release that follows with the same attempt goes on with it. It is safe for concurrent
// use.
type Counts struct {
	calls, failed atomic.Uint64
	ended         atomic.Bool
}

// Note counts a call that has run, by the kind of its error. One that ended for a reason
// that is not the script's does not count.
func (c *Counts) Note(kind script.Kind) {
	switch kind {
	case "":
		c.calls.Add(1)
	case script.Script, script.Limit, script.Timeout:
		c.failed.Add(1) // first, so that nobody reads a call without its failure
		c.calls.Add(1)
	}
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
