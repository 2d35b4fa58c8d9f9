// Package compare tells whether calls of one version do worse than calls of another.
//
// Its tests are sequential: one may look at them after each call, and stop at the first look that
// says "worse". If the version is not worse, the probability that any look ever says so is alpha at
// most. Each test divides the probability of what was seen, averaged over all error rates
// (Krichevsky and Trofimov's mixture), by its largest probability under the hypothesis that the
// version is not worse. This quotient is at most a nonnegative martingale of mean 1 there, and
// Ville's inequality bounds how often it ever reaches 1/alpha.
package compare

import (
	"math"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Sample counts trials, such as calls, and how many of them had a property, such as failing.
type Sample struct{ N, Hits uint64 }

// rate is the most likely one.
func (s Sample) rate() float64 {
	if s.N == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.N)
}

// log returns the logarithm of the probability of the sample, in its order, at the rate.
func (s Sample) log(rate float64) float64 {
	sum := 0.0
	if s.Hits > 0 {
		sum += float64(s.Hits) * math.Log(rate)
	}
	if misses := s.N - s.Hits; misses > 0 {
		sum += float64(misses) * math.Log1p(-rate)
	}
	return sum
}

// mixed returns the logarithm of that probability, averaged over all rates.
func (s Sample) mixed() float64 {
	hits, misses := float64(s.Hits)+0.5, float64(s.N-s.Hits)+0.5
	return lgamma(hits) + lgamma(misses) - lgamma(hits+misses) - math.Log(math.Pi)
}

func lgamma(x float64) float64 {
	y, _ := math.Lgamma(x)
	return y
}

// MoreOften reports whether candidate has the property more often than active does, by more than
// increase, a rate.
func MoreOften(candidate, active Sample, increase, alpha float64) bool {
	if candidate.rate() <= active.rate()+increase {
		return false
	}
	likely := candidate.mixed() + active.mixed()
	// The likeliest rates that differ by no more than increase differ by just that, and are between
	// those that were seen.
	low, high := active.rate(), candidate.rate()-increase
	for range 50 {
		middle := (low + high) / 2
		if candidate.slope(middle+increase)+active.slope(middle) > 0 {
			low = middle
		} else {
			high = middle
		}
	}
	return likely-candidate.log(low+increase)-active.log(low) >= -math.Log(alpha)
}

// slope is the derivative of Sample.log.
func (s Sample) slope(rate float64) float64 {
	up, down := 0.0, 0.0
	if s.Hits > 0 {
		up = float64(s.Hits) / rate
	}
	if misses := s.N - s.Hits; misses > 0 {
		down = float64(misses) / (1 - rate)
	}
	return up - down
}

// above returns the logarithm of the evidence that the rate is above the bound.
func (s Sample) above(bound float64) float64 { return s.mixed() - s.log(min(s.rate(), bound)) }

// below returns the logarithm of the evidence that the rate is below the bound.
func (s Sample) below(bound float64) float64 { return s.mixed() - s.log(max(s.rate(), bound)) }

// Latencies counts calls by script.LatencyBucket.
type Latencies [script.LatencyBuckets]uint64

// Percentile returns the bucket that the percentile is in.
func (l *Latencies) Percentile(percentile float64) int {
	var all, seen uint64
	for _, n := range l {
		all += n
	}
	for bucket, n := range l {
		if seen += n; float64(seen)*100 >= float64(all)*percentile {
			return bucket
		}
	}
	return script.LatencyBuckets - 1
}

// tails returns, for each bucket, how many of all calls are in a later one.
func (l *Latencies) tails() (tails [script.LatencyBuckets]Sample) {
	var all, seen uint64
	for _, n := range l {
		all += n
	}
	for bucket, n := range l {
		seen += n
		tails[bucket] = Sample{N: all, Hits: all - seen}
	}
	return tails
}

// Slower reports whether the percentile of candidate is above that of active by more than
// increase, such as 0.2 for a fifth. It rounds latencies up to the bounds of their buckets, so that
// it never says so because of rounding.
func Slower(candidate, active *Latencies, percentile, increase, alpha float64) bool {
	tail := 1 - percentile/100
	of, than := candidate.tails(), active.tails()
	// Wherever the percentile of active may be, either active or candidate must speak against
	// this place. The place where it was seen is the most likely to end the search.
	likely := active.Percentile(percentile)
	worse := func(bucket int) bool {
		evidence := than[bucket].above(tail) // that it is not as low as that
		if bucket > 0 {
			evidence = mean(evidence, than[bucket-1].below(tail)) // nor as high
		}
		return evidence+of[times(bucket, 1+increase)].above(tail) >= -math.Log(alpha)
	}
	if !worse(likely) {
		return false
	}
	for bucket := range script.LatencyBuckets {
		if !worse(bucket) {
			return false
		}
	}
	return true
}

// times returns the bucket of the longest latency that is so many times one of the bucket.
func times(bucket int, factor float64) int {
	return script.LatencyBucket(time.Duration(math.Ceil(float64(script.LatencyBound(bucket))*factor)) - 1)
}

// mean returns the logarithm of the mean of two numbers whose logarithms are a and b.
func mean(a, b float64) float64 {
	return max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b))) - math.Ln2
}
