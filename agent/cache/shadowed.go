package cache

import (
	"math/rand/v2"

	"github.com/scriptorium-dev/scriptorium/agent/shadow"
	"github.com/scriptorium-dev/scriptorium/script"
)

// splitShadow has Split run in the shadow of calls, below the threshold of random numbers.
func (r *Release) splitShadow(of *script.Release, threshold uint32) {
	r.shadowed = threshold
	r.split(of)
	r.Shadow = &shadow.Counts{Step: of.Candidate.Step}
	r.Found = r.Shadow
	r.comparesLatency = !of.Plan().MaxLatencyIncrease.IsZero()
}

// Shadows reports whether a call of r is to be shadowed, at random.
func (r *Release) Shadows() bool { return r.Shadow != nil && rand.Uint32() < r.shadowed }

// ComparesLatency reports whether the plan compares the latencies of the two versions.
func (r *Release) ComparesLatency() bool { return r.comparesLatency }
