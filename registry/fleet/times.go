package fleet

import (
	"math/bits"
	"time"
)

// times are how long agents took to activate a release. It is of one size, 3.5 KiB,
// however many agents there are.
type times struct {
	// buckets count microseconds: 32 buckets for each power of two, so that a time is
	// known to 1/32 of itself.
	buckets [28 * perOctave]uint32
	count   int
	slowest time.Duration
	agent   string // the slowest
}

const perOctave = 32

// longest is what the buckets tell apart: 71 minutes.
const longest = (1<<32 - 1) * time.Microsecond

func (t *times) add(agent string, took time.Duration) {
	took = max(took, 0)
	t.buckets[bucketOf(took)]++
	t.count++
	if t.agent == "" || took > t.slowest || took == t.slowest && agent < t.agent {
		t.slowest, t.agent = took, agent
	}
}

func bucketOf(took time.Duration) int {
	us := uint64(min(took, longest) / time.Microsecond)
	octave := max(bits.Len64(us)-6, 0)
	return octave*perOctave + int(us>>octave)
}

// middle is the time in the middle of a bucket.
func middle(bucket int) time.Duration {
	octave := max(bucket/perOctave-1, 0)
	lower, width := (bucket-octave*perOctave)<<octave, 1<<octave
	return time.Duration(2*lower+width) * time.Microsecond / 2
}

// quantile is the time within which so many of the agents, in hundredths, had it.
func (t *times) quantile(percent int) time.Duration {
	rank := (t.count*percent + 99) / 100
	for i, n := range t.buckets {
		if rank -= int(n); rank <= 0 {
			return min(middle(i), t.slowest)
		}
	}
	return t.slowest
}

// slots is a set of agents by their slots: a bit for each.
type slots []uint64

func (s slots) has(slot int) bool { return slot/64 < len(s) && s[slot/64]&(1<<(slot%64)) != 0 }

func (s *slots) add(slot int) {
	for slot/64 >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[slot/64] |= 1 << (slot % 64)
}

// set adds or removes, and reports whether that is a change.
func (s *slots) set(slot int, in bool) bool {
	if s.has(slot) == in {
		return false
	}
	if in {
		s.add(slot)
	} else {
		s.remove(slot)
	}
	return true
}

// word is the i-th 64 of them.
func (s slots) word(i int) uint64 {
	if i >= len(s) {
		return 0
	}
	return s[i]
}

// size is how many there are.
func (s slots) size() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// all yields them.
func (s slots) all(yield func(slot int) bool) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			if !yield(i*64 + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}

func (s slots) remove(slot int) {
	if slot/64 < len(s) {
		s[slot/64] &^= 1 << (slot % 64)
	}
}
