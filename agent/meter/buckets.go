package meter

import (
	"math"
	"time"
)

// Buckets are those of a Prometheus native histogram with the schema: eight to each power of two of a
// second. The first one has all times up to ZeroThreshold, the last one all that took more than 2 minutes.
const (
	Schema  = 3
	Buckets = lastKey - zeroKey + 1

	perOctave = 1 << Schema
	zeroKey   = -20 * perOctave // all up to about a microsecond
	lastKey   = 8 * perOctave   // 256 s
)

// ZeroThreshold is the upper bound of the first bucket, in seconds: it is the zero bucket of the histogram.
const ZeroThreshold = 1.0 / (1 << 20)

// mantissas are those of 2^0, 2^(1/8) … 2^(7/8), as Prometheus has them.
var mantissas = [perOctave]uint64{
	mantissa(0.5), mantissa(0.5452538663326288), mantissa(0.5946035575013605), mantissa(0.6484197773255048),
	mantissa(0.7071067811865475), mantissa(0.7711054127039704), mantissa(0.8408964152537144), mantissa(0.9170040432046711),
}

const mantissaBits = 52

func mantissa(f float64) uint64 { return math.Float64bits(f) & (1<<mantissaBits - 1) }

// bucketOf returns the bucket of a time, from 0.
func bucketOf(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	bits := math.Float64bits(float64(d) / float64(time.Second))
	octave := int(bits>>mantissaBits) - 1023 //nolint:gosec // 11 bits
	m, below := bits&(1<<mantissaBits-1), 0
	if m > mantissas[4] {
		below = 4
	}
	if m > mantissas[below+2] {
		below += 2
	}
	if m > mantissas[below+1] {
		below++
	}
	if m > mantissas[below] {
		below++
	}
	return min(max(perOctave*octave+below-zeroKey, 0), Buckets-1)
}

// KeyOf returns the index of a bucket after the first one in the native histogram.
func KeyOf(bucket int) int { return bucket + zeroKey }

// BoundOf returns the longest time in the bucket; the last one has longer times, too.
func BoundOf(bucket int) time.Duration {
	return time.Duration(math.Exp2(float64(KeyOf(bucket))/perOctave) * float64(time.Second))
}

// BucketUpTo returns the bucket whose upper bound is that power of two of a second. It has to be one of them.
func BucketUpTo(power int) int { return perOctave*power - zeroKey }

// Quantile returns the time that the share q of what is in the buckets, from 0 to 1, does not exceed: a
// bound of a bucket, which is 9 % too long at most. It is 0 if there is nothing in them.
func Quantile(buckets *[Buckets]uint64, q float64) time.Duration {
	total := uint64(0)
	for _, n := range buckets {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(total)))
	for i, n := range buckets {
		if n >= rank {
			return BoundOf(i)
		}
		rank -= n
	}
	return BoundOf(Buckets - 1)
}
