package meter

import (
	"math"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/histogram"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Outcomes is how many outcomes of calls there are: see OutcomeOf.
const Outcomes = 12

var outcomes = [Outcomes]script.Kind{
	"OK", script.NotFound, script.Disabled, script.Script, script.Timeout, script.Limit,
	script.Overloaded, script.Denied, script.Invalid, script.Conflict, script.Unavailable, script.Internal,
}

// OutcomeOf returns the number of the outcome of a call that ended with an error of the kind; 0 if there was
// none.
func OutcomeOf(kind script.Kind) int {
	if kind == "" {
		return 0
	}
	for i := range outcomes {
		if outcomes[i] == kind {
			return i
		}
	}
	return Outcomes - 1
}

// OutcomeName returns the name of an outcome: "OK", or the kind of the error.
func OutcomeName(outcome int) string { return string(outcomes[outcome]) }

// Use is the number of calls, and what they used.
type Use struct {
	Calls  uint64
	Errors uint64 // calls that ended with an error
	// Ran is the time during which they had a processor.
	Ran          time.Duration
	Instructions uint64
	// Allocated is an estimate, in bytes.
	Allocated uint64
	In, Out   uint64 // bytes of arguments and of results
}

// Add adds v to u. Sums do not overflow.
func (u *Use) Add(v *Use) {
	u.Calls, u.Errors = sum(u.Calls, v.Calls), sum(u.Errors, v.Errors)
	u.Ran = sumOfTimes(u.Ran, v.Ran)
	u.Instructions, u.Allocated = sum(u.Instructions, v.Instructions), sum(u.Allocated, v.Allocated)
	u.In, u.Out = sum(u.In, v.In), sum(u.Out, v.Out)
}

// Less returns u minus an earlier Use.
func (u *Use) Less(before *Use) Use {
	return Use{
		Calls: u.Calls - before.Calls, Errors: u.Errors - before.Errors, Ran: u.Ran - before.Ran,
		Instructions: u.Instructions - before.Instructions, Allocated: u.Allocated - before.Allocated,
		In: u.In - before.In, Out: u.Out - before.Out,
	}
}

// Figures are all counts of a Cell. They only grow.
type Figures struct {
	Use
	Outcomes [Outcomes]uint64
	Buckets  histogram.Buckets // calls by their latency, which includes the wait for a processor
	Took     time.Duration     // the sum of the latencies
	Dropped  uint64            // dropped log lines
}

// Add adds g to f. Sums do not overflow.
func (f *Figures) Add(g *Figures) {
	f.Use.Add(&g.Use)
	for i, n := range g.Outcomes {
		f.Outcomes[i] = sum(f.Outcomes[i], n)
	}
	for i, n := range g.Buckets {
		f.Buckets[i] = sum(f.Buckets[i], n)
	}
	f.Took = sumOfTimes(f.Took, g.Took)
	f.Dropped = sum(f.Dropped, g.Dropped)
}

// Less returns f minus earlier Figures.
func (f *Figures) Less(before *Figures) Figures {
	d := Figures{Use: f.Use.Less(&before.Use), Took: f.Took - before.Took, Dropped: f.Dropped - before.Dropped}
	for i := range f.Outcomes {
		d.Outcomes[i] = f.Outcomes[i] - before.Outcomes[i]
	}
	for i := range f.Buckets {
		d.Buckets[i] = f.Buckets[i] - before.Buckets[i]
	}
	return d
}

func sum(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

func sumOfTimes(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
