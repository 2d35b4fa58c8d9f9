// Package histogram has the buckets in which agents count and report latencies: the buckets of native histograms in
// Prometheus.
package histogram

import (
	"math"
	"time"
)

// Size is how many buckets there are: of a native histogram with the schema, eight to each power of two of a second. The
// first one has all times up to ZeroThreshold, the last one all that are longer than four minutes, too.
const (
	Schema = 3
	Size   = lastKey - zeroKey + 1

	perOctave = 1 << Schema
	zeroKey   = -20 * perOctave // all up to about a microsecond
	lastKey   = 8 * perOctave   // 256 s
)

// ZeroThreshold is the upper bound of the first bucket, in seconds: it is the zero bucket of the histogram.
const ZeroThreshold = 1.0 / (1 << 20)

// mantissas of 2^0, 2^(1/8) … 2^(7/8), with the digits that Prometheus uses.
var mantissas = [perOctave]uint64{
	mantissa(0.5), mantissa(0.5452538663326288), mantissa(0.5946035575013605), mantissa(0.6484197773255048),
	mantissa(0.7071067811865475), mantissa(0.7711054127039704), mantissa(0.8408964152537144), mantissa(0.9170040432046711),
}

const mantissaBits = 52

func mantissa(f float64) uint64 { return math.Float64bits(f) & (1<<mantissaBits - 1) }

// Buckets have how many times are in each.
type Buckets [Size]uint64

// Of returns the bucket of a time, from 0.
func Of(d time.Duration) int {
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
	return min(max(perOctave*octave+below-zeroKey, 0), Size-1)
}

// Key returns the index of a bucket after the first one in the native histogram.
func Key(bucket int) int { return bucket + zeroKey }

// Bound returns the longest time in the bucket; the last one has longer times, too.
func Bound(bucket int) time.Duration {
	return time.Duration(math.Exp2(float64(Key(bucket))/perOctave) * float64(time.Second))
}

// UpTo returns the bucket whose upper bound is that power of two of a second. It has to be one of them.
func UpTo(power int) int { return perOctave*power - zeroKey }

// Total returns how many times there are.
func (b *Buckets) Total() (n uint64) {
	for _, in := range b {
		n += in
	}
	return n
}

// Quantile returns the time that the share q of all, from 0 to 1, does not exceed: a bound of a bucket, which is 9 % too
// long at most. It is 0 if there are none.
func (b *Buckets) Quantile(q float64) time.Duration {
	total := b.Total()
	if total == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(total)))
	for i, n := range b {
		if n >= rank {
			return Bound(i)
		}
		rank -= n
	}
	return Bound(Size - 1)
}

// Sparse returns the first bucket that is not empty, and how many times are in it and in each up to the last one.
func (b *Buckets) Sparse() (first int, counts []uint64) {
	end := Size
	for first < end && b[first] == 0 {
		first++
	}
	for end > first && b[end-1] == 0 {
		end--
	}
	return first, b[first:end]
}

// FromSparse is the reverse of Sparse; ok is false if there are no such buckets.
func FromSparse(first int, counts []uint64) (b Buckets, ok bool) {
	if first < 0 || first > Size || len(counts) > Size-first {
		return b, false
	}
	copy(b[first:], counts)
	return b, true
}
