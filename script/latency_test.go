package script_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestLatencyBuckets: each latency is in one bucket, no bucket is wider than an eighth, and the
// last one has no end.
func TestLatencyBuckets(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	last := script.LatencyBuckets - 1
	for range 100_000 {
		d := time.Duration(random.Int64N(int64(20*time.Second))) >> random.IntN(35)
		b := script.LatencyBucket(d)
		if b < last && d >= script.LatencyBound(b) || b > 0 && d < script.LatencyBound(b-1) {
			t.Fatalf("%v is in bucket %d, from %v to %v", d, b, script.LatencyBound(b-1), script.LatencyBound(b))
		}
	}
	for b := 8; b < last; b++ {
		if low, high := script.LatencyBound(b-1), script.LatencyBound(b); high <= low || high-low > low/8 {
			t.Errorf("bucket %d is from %v to %v", b, low, high)
		}
	}
	for _, d := range []time.Duration{-1, 0} {
		if b := script.LatencyBucket(d); b != 0 {
			t.Errorf("%v is in bucket %d", d, b)
		}
	}
	if b := script.LatencyBucket(1<<63 - 1); b != last {
		t.Errorf("the longest latency is in bucket %d", b)
	}
}

func TestStepCallsThatCannotBe(t *testing.T) {
	last := script.LatencyBuckets - 1
	for name, c := range map[string]script.StepCalls{
		"no step":        {},
		"a later step":   {Step: script.MaxSteps + 1},
		"before all":     {Step: 1, First: -1},
		"after all":      {Step: 1, First: last, Buckets: []uint64{1, 1}},
		"far after all":  {Step: 1, First: 1 << 40},
		"too many":       {Step: 1, Buckets: []uint64{script.MaxStepCalls, 1}},
		"overflow":       {Step: 1, Buckets: []uint64{1 << 63, 1 << 63}},
		"more than fail": {Step: 1, FailedCalls: 2, Buckets: []uint64{1}},
	} {
		if c.Valid() {
			t.Errorf("%s: is valid", name)
		}
	}
	for _, c := range []script.StepCalls{{Step: 1}, {Step: script.MaxSteps, First: last, Buckets: []uint64{script.MaxStepCalls}, FailedCalls: script.MaxStepCalls}} {
		if !c.Valid() {
			t.Errorf("%+v is not valid", c)
		}
	}
}
