// Package shadow keeps what an agent finds when it runs a candidate in the shadow of calls: how often
// its results are equal to the live ones, where they differ, and a few samples.
package shadow

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Outcome of one shadowed call.
type Outcome int

// The outcomes: see script.ShadowCalls.
const (
	Equal Outcome = iota
	Different
	Failed
	outcomes // is their number
)

// Counts is what one agent found in one step of a candidate. It is safe for concurrent use.
type Counts struct {
	Step int
	// State is what the candidate counts in the shadow, apart from live calls.
	State State

	counts          [outcomes]atomic.Uint64
	slower, dropped atomic.Uint64

	mu       sync.Mutex
	findings script.ShadowFindings
}

// Note counts a call.
func (c *Counts) Note(o Outcome, slower bool) {
	c.counts[o].Add(1)
	if slower {
		c.slower.Add(1)
	}
}

// Drop counts a call that was not run.
func (c *Counts) Drop() { c.dropped.Add(1) }

// Differ notes where a call's results differ. It keeps the first samples, and then those of paths that
// no sample has.
func (c *Counts) Differ(s script.ShadowSample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range s.Paths {
		c.findings.AddPath(path, 1)
	}
	c.findings.AddSample(s)
}

// Read returns the counts; nil if there are none.
func (c *Counts) Read() *script.ShadowCalls {
	return c.read((*atomic.Uint64).Load)
}

// Take returns what Read does, and begins anew.
func (c *Counts) Take() *script.ShadowCalls {
	return c.read(func(n *atomic.Uint64) uint64 { return n.Swap(0) })
}

func (c *Counts) read(count func(*atomic.Uint64) uint64) *script.ShadowCalls {
	slower := count(&c.slower) // first: each of these is counted below, too
	calls := &script.ShadowCalls{
		Step: c.Step, Equal: count(&c.counts[Equal]), Different: count(&c.counts[Different]),
		Failed: count(&c.counts[Failed]), Dropped: count(&c.dropped),
	}
	calls.Slower = min(slower, calls.Compared())
	if calls.Compared() == 0 && calls.Dropped == 0 {
		return nil
	}
	return calls
}

// Add adds what was counted elsewhere, if it is of the same step.
func (c *Counts) Add(calls script.ShadowCalls) {
	if calls.Step != c.Step {
		return
	}
	c.counts[Equal].Add(calls.Equal)
	c.counts[Different].Add(calls.Different)
	c.counts[Failed].Add(calls.Failed)
	c.slower.Add(calls.Slower)
	c.dropped.Add(calls.Dropped)
}

// Findings returns where results differ.
func (c *Counts) Findings() script.ShadowFindings {
	c.mu.Lock()
	defer c.mu.Unlock()
	return script.ShadowFindings{Paths: maps.Clone(c.findings.Paths), OtherPaths: c.findings.OtherPaths, Samples: slices.Clone(c.findings.Samples)}
}

// TakeFindings returns what Findings does, and begins anew.
func (c *Counts) TakeFindings() script.ShadowFindings {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.findings
	c.findings = script.ShadowFindings{}
	return f
}

// AddFindings adds what was found elsewhere.
func (c *Counts) AddFindings(f *script.ShadowFindings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findings.Add(f)
}
