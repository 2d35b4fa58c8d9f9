package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Those who read what takes long have the fleet for about half of the time at most, together:
// maxReaders are let in, and each makes room restFactor times as late as it took. What takes
// less than restLeast of that does not count. Of one caller, mostOfOne wait for that at a time:
// the others wait for these, and not before other callers.
const (
	maxReaders = 8
	mostOfOne  = 2
	restFactor = 15
	restLeast  = time.Millisecond
)

// readers are those who read, or wait for it.
type readers struct {
	inside chan struct{} // has a token of each that reads, or rests from it

	mu      sync.Mutex
	callers map[string]*readersOf
}

type readersOf struct {
	first chan struct{} // has a token of each that waits for inside, or reads
	all   int
}

func newReaders() readers {
	return readers{inside: make(chan struct{}, maxReaders), callers: map[string]*readersOf{}}
}

// join counts one more of the caller's.
func (r *readers) join(caller string) *readersOf {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.callers[caller]
	if of == nil {
		of = &readersOf{first: make(chan struct{}, mostOfOne)}
		r.callers[caller] = of
	}
	of.all++
	return of
}

func (r *readers) leave(caller string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of := r.callers[caller]; of.all > 1 {
		of.all--
	} else {
		delete(r.callers, caller)
	}
}

// read calls do with the fleet locked when it is the caller's turn, unless ctx ends before.
func (f *Fleet) read(ctx context.Context, caller string, do func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	of := f.readers.join(caller)
	defer f.readers.leave(caller)
	for _, turn := range []chan struct{}{of.first, f.readers.inside} {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			if turn == f.readers.inside {
				<-of.first
			}
			return script.Errorf(script.Unavailable, "", "many others read the fleet's status: %w", ctx.Err())
		}
	}
	f.mu.Lock()
	began := time.Now()
	do()
	f.mu.Unlock()
	rest := restFactor * time.Since(began)
	<-of.first
	if rest < restLeast {
		<-f.readers.inside
	} else {
		time.AfterFunc(rest, func() { <-f.readers.inside })
	}
	return nil
}
