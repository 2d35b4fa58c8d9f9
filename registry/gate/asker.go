package gate

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Asking asks. A Sources does.
type Asking interface {
	// Ask asks once, and takes a bounded time.
	Ask(ctx context.Context, q Question) Answer
	// Key tells the source of the question from others.
	Key(q Question) any
}

// Bounds of what is asked.
const (
	interval    = 10 * time.Second // between two requests for the same step, about
	maxInterval = time.Minute      // after errors
	perSource   = 4                // requests at a time
	// turnInterval is how often it is looked what can be asked, at most.
	turnInterval = 20 * time.Millisecond
)

// Asker asks the questions that are wanted, each again and again. A source has at most four to answer
// at a time, and the tenants take turns there.
type Asker struct {
	asking   Asking
	answered func(q Question, asked time.Time, a Answer)

	running sync.WaitGroup
	wake    chan struct{} // has room for one

	mu      sync.Mutex
	entries map[script.Name]*wanted
	busy    map[any]int // requests, by the keys of their sources
	turns   map[turn]uint64
	turn    uint64
}

// wanted is a question and when it may be asked.
type wanted struct {
	q        Question
	is       bool // wanted; else it is kept so that it is not asked again too soon
	next     time.Time
	failures int
	cancel   context.CancelFunc // while it is asked
}

// turn is one of a tenant at a source.
type turn struct {
	source any
	tenant string
}

// NewAsker returns an Asker that asks nothing until it is Run. answered is called with each answer,
// concurrently, and with when the question was asked.
func NewAsker(asking Asking, answered func(q Question, asked time.Time, a Answer)) *Asker {
	return &Asker{
		asking: asking, answered: answered, wake: make(chan struct{}, 1),
		entries: map[script.Name]*wanted{}, busy: map[any]int{}, turns: map[turn]uint64{},
	}
}

// Want says which questions are wanted now, one for each script at most. The answers to others are
// not waited for any more.
func (a *Asker) Want(questions []Question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.entries {
		w.is = false
	}
	for _, q := range questions {
		w := a.entries[q.Name]
		if w == nil || w.q != q {
			w.stop()
			w = &wanted{q: q}
			a.entries[q.Name] = w
		}
		w.is = true
	}
	now := time.Now()
	for name, w := range a.entries {
		if w.is {
			continue
		}
		w.stop()
		if !now.Before(w.next) {
			delete(a.entries, name)
		}
	}
	if len(a.turns) > 2*len(a.entries)+100 { // of tenants that are gone
		clear(a.turns)
	}
	a.look()
}

// stop has nobody wait for the answer, if there is one to come.
func (w *wanted) stop() {
	if w != nil && w.cancel != nil {
		w.cancel()
	}
}

func (a *Asker) look() {
	select {
	case a.wake <- struct{}{}:
	default: // it looks soon
	}
}

// Run asks until ctx is done.
func (a *Asker) Run(ctx context.Context) {
	defer a.running.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-a.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if due := a.start(ctx); !due.IsZero() {
			timer.Reset(max(turnInterval, time.Until(due)))
		}
		select {
		case <-time.After(turnInterval):
		case <-ctx.Done():
			return
		}
	}
}

// start asks what is due and has room at its source, and returns when the next is due that has to
// wait for nothing but that; the zero Time if there is none.
func (a *Asker) start(ctx context.Context) (due time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	ready := map[any][]*wanted{}
	for _, w := range a.entries {
		switch {
		case !w.is || w.cancel != nil:
		case now.Before(w.next):
			if due.IsZero() || w.next.Before(due) {
				due = w.next
			}
		default:
			key := a.asking.Key(w.q)
			if a.busy[key] < perSource {
				ready[key] = append(ready[key], w)
			}
		}
	}
	for key, list := range ready {
		for len(list) > 0 && a.busy[key] < perSource {
			i := a.first(key, list)
			a.ask(ctx, key, list[i])
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
		}
	}
	return due
}

// first returns whose turn it is at the source: of the tenant whose last one is the longest ago what
// is due for the longest.
func (a *Asker) first(key any, list []*wanted) (first int) {
	last := func(w *wanted) uint64 { return a.turns[turn{key, w.q.Name.Tenant}] }
	for i, w := range list {
		f := list[first]
		if own, other := last(w), last(f); own < other || own == other && w.next.Before(f.next) {
			first = i
		}
	}
	return first
}

// ask asks in the background.
func (a *Asker) ask(ctx context.Context, key any, w *wanted) {
	ctx, w.cancel = context.WithCancel(ctx)
	a.turn++
	a.turns[turn{key, w.q.Name.Tenant}] = a.turn
	a.busy[key]++
	asked := time.Now()
	w.next = asked.Add(interval)
	a.running.Go(func() {
		answer := a.asking.Ask(ctx, w.q)
		stopped := ctx.Err() != nil
		a.mu.Lock()
		w.cancel()
		w.cancel = nil
		if a.busy[key]--; a.busy[key] == 0 {
			delete(a.busy, key)
		}
		if !stopped {
			w.next = time.Now().Add(w.pause(answer))
		}
		a.mu.Unlock()
		if !stopped {
			a.answered(w.q, asked, answer)
		}
		a.look()
	})
}

// pause returns how long the question is not asked again after the answer.
func (w *wanted) pause(answer Answer) time.Duration {
	pause := interval
	if answer.Result.Says() {
		w.failures = 0
	} else {
		pause = min(maxInterval, interval<<min(w.failures, 3))
		w.failures++
	}
	return pause*4/5 + rand.N(pause*2/5)
}
