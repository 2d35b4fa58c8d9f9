package script

import (
	"iter"
	"math/bits"
	"time"
)

// LatencyBuckets is how many buckets of latencies there are: eight to each power of two, from
// 128 ns to 34 s. The last one holds all that took longer, too.
const LatencyBuckets = 8 * 26

// latencyUnit is the width of the first buckets, as a power of two of nanoseconds.
const latencyUnit = 7

// LatencyBucket returns the bucket of the latency, from 0.
func LatencyBucket(d time.Duration) int {
	v := uint64(max(0, d)) >> latencyUnit
	if v < 8 {
		return int(v) //nolint:gosec // less than 8
	}
	power := bits.Len64(v) - 1
	return min(8*(power-2)+int(v>>(power-3)&7), LatencyBuckets-1) //nolint:gosec // less than 8
}

// LatencyBound returns what all latencies of the bucket are less than, but for those of the last.
func LatencyBound(bucket int) time.Duration {
	next := bucket + 1
	if next < 8 {
		return time.Duration(next) << latencyUnit
	}
	return time.Duration(8+next%8) << (next/8 - 1 + latencyUnit)
}

// StepCalls are calls of the version that an agent runs in a step of a candidate's rollout.
type StepCalls struct {
	Step        int // of the plan, from 1
	FailedCalls uint64
	// First is the number of a bucket, and Buckets has the number of calls in it and in those
	// that follow.
	First   int
	Buckets []uint64
}

// MaxStepCalls bounds StepCalls.Calls.
const MaxStepCalls = 1 << 40

// Calls returns how many there are.
func (c *StepCalls) Calls() (n uint64) {
	for _, calls := range c.Buckets {
		n += calls
	}
	return n
}

// Valid reports whether there can be such calls.
func (c *StepCalls) Valid() bool {
	if c.Step < 1 || c.Step > MaxSteps || c.First < 0 || c.First > LatencyBuckets || len(c.Buckets) > LatencyBuckets-c.First {
		return false
	}
	rest := uint64(MaxStepCalls)
	for _, n := range c.Buckets {
		if n > rest {
			return false
		}
		rest -= n
	}
	return c.FailedCalls <= MaxStepCalls-rest
}

// LatencyIncrease is how much slower one version may be than another, in percent for each of these
// percentiles; 0 means that one is not compared.
type LatencyIncrease struct{ P50, P95, P99 int }

// IsZero reports whether no percentile is compared.
func (l LatencyIncrease) IsZero() bool { return l == LatencyIncrease{} }

// Compared yields the name of each percentile that is compared, and by how many percent the
// latency may be more.
func (l LatencyIncrease) Compared() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for _, p := range []struct {
			name    string
			percent int
		}{{"p50", l.P50}, {"p95", l.P95}, {"p99", l.P99}} {
			if p.percent != 0 && !yield(p.name, p.percent) {
				return
			}
		}
	}
}
