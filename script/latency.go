package script

import (
	"math/bits"
	"time"
)

// LatencyBuckets is how many buckets of latencies there are: eight to each power of two, from
// 128 ns to 17 s. The last one holds all that took longer, too.
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
	Step               int // of the plan, from 1
	Calls, FailedCalls uint64
	Latencies
}

// Latencies counts calls by their latency: Counts are those of the buckets from First on.
type Latencies struct {
	First  int
	Counts []uint64
}
