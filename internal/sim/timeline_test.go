package sim

import (
	"container/heap"
	"context"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// timeline runs what was requested at its time, one thing after another, in the
// order of times and then of requests.
type timeline struct {
	mu    sync.Mutex
	queue appointments
	count uint64
	woken chan struct{}
}

// appointment is something to do. It must not block.
type appointment struct {
	at    time.Time
	order uint64
	do    func()
}

type appointments []appointment

func (q appointments) Len() int { return len(q) }
func (q appointments) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].order < q[j].order
}
func (q appointments) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *appointments) Push(x any)   { *q = append(*q, x.(appointment)) }
func (q *appointments) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newTimeline() *timeline { return &timeline{woken: make(chan struct{}, 1)} }

// at does something at a time, or at once if that has passed.
func (t *timeline) at(when time.Time, do func()) {
	t.mu.Lock()
	t.count++
	heap.Push(&t.queue, appointment{at: when, order: t.count, do: do})
	t.mu.Unlock()
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// in does something after a while.
func (t *timeline) in(d time.Duration, do func()) { t.at(time.Now().Add(d), do) }

func (t *timeline) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := time.Now().Add(time.Hour)
		for {
			t.mu.Lock()
			if len(t.queue) == 0 {
				t.mu.Unlock()
				break
			}
			if next = t.queue[0].at; next.After(time.Now()) {
				t.mu.Unlock()
				break
			}
			due := heap.Pop(&t.queue).(appointment)
			t.mu.Unlock()
			due.do()
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-t.woken:
		case <-ctx.Done():
			return
		}
	}
}

// source returns what is random about the n-th event at a place: the same for the
// same seed, whatever happens elsewhere.
func source(seed uint64, place string, n uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(place)) // never fails
	return rand.New(rand.NewPCG(seed^h.Sum64(), n))
}

// within returns a duration below d.
func within(r *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(d)))
}

// link carries messages one way. It keeps their order unless told otherwise.
type link struct {
	name string
	seed uint64
	line *timeline

	mu     sync.Mutex
	faults linkFaults
	count  uint64
	last   time.Time // when the last one arrives
	era    int       // counts the times that messages under way were lost
}

// linkFaults say what a link does to messages.
type linkFaults struct {
	lose, double, late float64       // chances
	by                 time.Duration // at most, of those that are late
	hold               time.Duration // each is held back for as long, in order
	cut                bool
}

// latency of a link that works.
const latency = 300 * time.Microsecond

// set changes the faults. What was held back until now is lost.
func (l *link) set(f linkFaults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults.hold > 0 {
		l.era++
	}
	l.faults = f
}

// inEra returns what does something unless messages were lost meanwhile. l.mu is held.
func (l *link) inEra(do func()) func() {
	era := l.era
	return func() {
		l.mu.Lock()
		lost := l.era != era
		l.mu.Unlock()
		if !lost {
			do()
		}
	}
}

func (l *link) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults.cut
}

// send carries a message: it calls deliver on arrival, not at all, or twice.
func (l *link) send(deliver func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	r := source(l.seed, l.name, l.count)
	if f := l.faults; f.cut || r.Float64() < f.lose {
		return
	}
	copies := 1
	if r.Float64() < l.faults.double {
		copies = 2
	}
	deliver = l.inEra(deliver)
	for range copies {
		at := time.Now().Add(latency + l.faults.hold)
		if r.Float64() < l.faults.late {
			l.line.at(at.Add(within(r, l.faults.by)), deliver)
			continue
		}
		if at.Before(l.last) && l.faults.hold > 0 {
			at = l.last
		}
		l.last = at
		l.line.at(at, deliver)
	}
}
