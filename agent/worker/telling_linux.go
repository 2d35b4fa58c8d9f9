package worker

import (
	"sync"
)

// telling is the changes that a tenant's process is yet to be told of, in their order.
type telling struct {
	mu      sync.Mutex
	waiting []*told
	running bool
	late    int // changes that nobody waits for any more
}

// told is one of them.
type told struct {
	change *change // nil: what is live, anew
	done   chan struct{}
	late   bool
}

// tell has the process told of the change once it was told of those before; of all that is live
// if the change is nil.
func (t *tenant) tell(c *change) *told {
	t.telling.mu.Lock()
	defer t.telling.mu.Unlock()
	next := &told{change: c, done: make(chan struct{})}
	t.telling.waiting = append(t.telling.waiting, next)
	if !t.telling.running {
		t.telling.running = true
		go t.tellAll()
	}
	return next
}

func (t *tenant) tellAll() {
	for {
		t.telling.mu.Lock()
		if len(t.telling.waiting) == 0 {
			t.telling.running = false
			t.telling.mu.Unlock()
			return
		}
		next := t.telling.waiting[0]
		t.telling.waiting = t.telling.waiting[1:]
		t.telling.mu.Unlock()
		if next.change != nil {
			t.apply(next.change)
		} else {
			t.applyAgain()
		}
		t.telling.mu.Lock()
		close(next.done)
		if next.late {
			t.telling.late--
			t.hold(t.telling.late > 0)
		}
		t.telling.mu.Unlock()
	}
}

// leaveBehind says that nobody waits for the change any more, if it is not done.
func (t *tenant) leaveBehind(c *told) {
	t.telling.mu.Lock()
	defer t.telling.mu.Unlock()
	select {
	case <-c.done:
		return
	default:
	}
	c.late = true
	t.telling.late++
	t.hold(true)
}

// hold has calls wait for the process, or wait no longer. t.telling.mu is held.
func (t *tenant) hold(held bool) {
	if s := t.state.Load(); s.held != held {
		t.swap(&state{process: s.process, refused: s.refused, held: held})
	}
}

// swap puts another state in place of the one before. t.telling.mu is held.
func (t *tenant) swap(next *state) {
	next.changed = make(chan struct{})
	close(t.state.Swap(next).changed)
}
