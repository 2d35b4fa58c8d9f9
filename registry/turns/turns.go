// Package turns limits slow requests: how many run at a time, how many of them are of one caller, and which part of the
// time they take.
package turns

import (
	"context"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Config configures Turns.
type Config struct {
	// Concurrent is the number of requests that run or rest at a time.
	Concurrent int
	// PerCaller is the number of requests of one caller that run, or wait to run. Its other requests wait for these.
	PerCaller int
	// RestFactor is how many times as long as it ran a request keeps its place after its end.
	RestFactor int
	// MinRest is the shortest rest. A request whose rest would be shorter frees its place at once.
	MinRest time.Duration
	// Busy starts the error of a request that gives up, such as "many others search the audit trail".
	Busy string
}

// Turns decides when a request may run. It is safe for concurrent use.
type Turns struct {
	cfg    Config
	places chan struct{} // has a token of each request that runs or rests

	mu      sync.Mutex
	callers map[string]*caller // only those with requests
}

type caller struct {
	places   chan struct{} // has a token of each request that runs, or waits for Turns.places
	requests int
}

// New returns Turns without requests.
func New(cfg Config) *Turns {
	return &Turns{cfg: cfg, places: make(chan struct{}, cfg.Concurrent), callers: map[string]*caller{}}
}

// Begin waits until a request of this caller may run. It fails with script.Unavailable if ctx ends first. Otherwise the
// request must call end when it is done, with the time that counts for its rest.
func (t *Turns) Begin(ctx context.Context, name string) (end func(took time.Duration), err error) {
	c := t.join(name)
	select {
	case c.places <- struct{}{}:
	case <-ctx.Done():
		t.leave(name)
		return nil, t.busy(ctx.Err())
	}
	leave := func() {
		<-c.places
		t.leave(name)
	}
	select {
	case t.places <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, t.busy(ctx.Err())
	}
	return func(took time.Duration) {
		leave()
		if rest := time.Duration(t.cfg.RestFactor) * took; rest < t.cfg.MinRest {
			<-t.places
		} else {
			time.AfterFunc(rest, func() { <-t.places })
		}
	}, nil
}

func (t *Turns) busy(err error) error {
	return script.Errorf(script.Unavailable, "", "%s: %w", t.cfg.Busy, err)
}

func (t *Turns) join(name string) *caller {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.callers[name]
	if c == nil {
		c = &caller{places: make(chan struct{}, t.cfg.PerCaller)}
		t.callers[name] = c
	}
	c.requests++
	return c
}

func (t *Turns) leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.callers[name]; c.requests > 1 {
		c.requests--
	} else {
		delete(t.callers, name)
	}
}
