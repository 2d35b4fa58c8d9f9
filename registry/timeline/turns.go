package timeline

import (
	"context"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Those who search the audit trail may read much of it to find little, and need no more than the role read
// for one tenant. So maxSearches do that at a time, one of each caller, and each makes room restFactor times as
// late as it took.
const (
	maxSearches = 2
	restFactor  = 3
	restLeast   = 20 * time.Millisecond // what takes less does not count
)

// turns are those who search, or wait for it.
type turns struct {
	inside chan struct{} // has a token of each that searches, or rests from it

	mu      sync.Mutex
	callers map[string]*turnsOf
}

type turnsOf struct {
	first chan struct{} // has a token of the one that waits for inside, or searches
	all   int
}

func newTurns() turns {
	return turns{inside: make(chan struct{}, maxSearches), callers: map[string]*turnsOf{}}
}

// join counts one more of the caller's.
func (t *turns) join(caller string) *turnsOf {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.callers[caller]
	if of == nil {
		of = &turnsOf{first: make(chan struct{}, 1)}
		t.callers[caller] = of
	}
	of.all++
	return of
}

func (t *turns) leave(caller string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of := t.callers[caller]; of.all > 1 {
		of.all--
	} else {
		delete(t.callers, caller)
	}
}

// take calls search when it is the caller's turn, unless ctx ends before.
func (t *turns) take(ctx context.Context, caller string, search func() error) error {
	of := t.join(caller)
	defer t.leave(caller)
	waits := func(err error) error {
		return script.Errorf(script.Unavailable, "", "many others search the audit trail: %w", err)
	}
	select {
	case of.first <- struct{}{}:
	case <-ctx.Done():
		return waits(ctx.Err())
	}
	defer func() { <-of.first }()
	select {
	case t.inside <- struct{}{}:
	case <-ctx.Done():
		return waits(ctx.Err())
	}
	began := time.Now()
	err := search()
	if took := time.Since(began); took < restLeast {
		<-t.inside
	} else {
		time.AfterFunc(restFactor*took, func() { <-t.inside })
	}
	return err
}
