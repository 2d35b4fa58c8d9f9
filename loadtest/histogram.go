package main

import (
	"math/bits"
	"time"
)

// histogram counts latencies in buckets that are at most 1/32 of their value wide.
type histogram struct {
	counts [64 * perPower]uint64
	total  uint64
}

const (
	subBits  = 5
	perPower = 1 << subBits
)

func (h *histogram) add(d time.Duration, times uint64) {
	h.counts[bucketOf(uint64(max(d, 0)))] += times
	h.total += times
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
}

// quantile returns the latency that the share q of all were at most.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.total))
	var seen uint64
	for i, n := range h.counts {
		seen += n
		if seen > rank {
			return time.Duration(upperOf(i))
		}
	}
	return 0
}

// bucketOf: small values have a bucket each; above, each power of two has
// perPower buckets.
func bucketOf(ns uint64) int {
	power := bits.Len64(ns)
	if power <= subBits {
		return int(ns)
	}
	shift := power - subBits - 1
	return (shift+1)<<subBits + int(ns>>shift) - perPower
}

// upperOf returns the largest value of the bucket.
func upperOf(bucket int) uint64 {
	if bucket < perPower {
		return uint64(bucket)
	}
	shift := bucket>>subBits - 1
	return (uint64(bucket&(perPower-1)|perPower)+1)<<shift - 1
}
