package host

import (
	"container/list"
	"math"
	"strings"
	"time"
)

const (
	// maxBuckets of a tenant.
	maxBuckets = 10_000
	// lookedAt is how many of the buckets that were used least recently are looked at
	// for one that can be forgotten without anybody noticing.
	lookedAt = 16
)

// bucket holds tokens. The zero bucket is full at its first use.
type bucket struct {
	tokens      float64
	at          time.Time // when it held them
	rate, burst float64   // as they were then
}

// fill adds what came in since.
func (b *bucket) fill(now time.Time, rate, burst float64) {
	switch {
	case b.at.IsZero():
		b.tokens = burst
	case now.After(b.at):
		b.tokens += rate * now.Sub(b.at).Seconds()
	}
	b.tokens, b.at, b.rate, b.burst = min(b.tokens, burst), now, rate, burst
}

// isFull reports whether what came in since has filled it.
func (b *bucket) isFull(now time.Time) bool {
	later := *b
	later.fill(now, b.rate, b.burst)
	return later.tokens >= b.burst
}

// buckets are those of one tenant, the most recently used in front. When there are too
// many, one that is full again is forgotten, or else the one that was not used for
// longest: the tenant gains no more by that than that bucket, filled.
type buckets struct {
	byName map[string]*list.Element
	order  list.List
}

type named struct {
	bucket
	name string
}

func (b *buckets) take(now time.Time, name string, n, rate, burst float64) (ok bool, wait time.Duration) {
	if b.byName == nil {
		b.byName = make(map[string]*list.Element)
	}
	e := b.byName[name]
	if e == nil {
		if len(b.byName) >= maxBuckets {
			b.forget(now)
		}
		name = strings.Clone(name) // what it was cut out of may be large
		e = b.order.PushFront(&named{name: name})
		b.byName[name] = e
	}
	b.order.MoveToFront(e)
	found := e.Value.(*named)
	found.fill(now, rate, burst)
	if found.tokens >= n {
		found.tokens -= n
		return true, 0
	}
	return false, after(n-found.tokens, rate)
}

// after is how long it takes until n tokens have come in.
func after(n, rate float64) time.Duration {
	const most = math.MaxInt64 / 2
	return time.Duration(min(math.Ceil(n/rate*float64(time.Second)), most))
}

// forget forgets one.
func (b *buckets) forget(now time.Time) {
	victim := b.order.Back()
	e := victim
	for range lookedAt {
		if e == nil {
			break
		}
		if e.Value.(*named).isFull(now) {
			victim = e
			break
		}
		e = e.Prev()
	}
	b.remove(victim)
}

// forgetFull forgets those that are full again, which is what they were at first.
func (b *buckets) forgetFull(now time.Time) {
	for _, e := range b.byName {
		if e.Value.(*named).isFull(now) {
			b.remove(e)
		}
	}
}

func (b *buckets) remove(e *list.Element) {
	delete(b.byName, e.Value.(*named).name)
	b.order.Remove(e)
}
