package sim

import (
	"context"
	"slices"
	"sync"
	"time"
)

// sessionTTL is how long the store waits for a leader that it does not hear.
const sessionTTL = 2 * time.Second

// election is what the store's election is to the replicas.
type election struct {
	line *timeline

	mu      sync.Mutex
	term    int64
	holder  *leadership
	waiting []*candidate
}

type candidate struct {
	server  *server
	granted chan *leadership
}

// leadership is one replica's term.
type leadership struct {
	election *election
	server   *server
	term     int64
	lost     chan struct{}
	once     sync.Once
}

// campaign waits until the replica leads.
func (e *election) campaign(ctx context.Context, s *server) (*leadership, error) {
	c := &candidate{server: s, granted: make(chan *leadership, 1)}
	e.mu.Lock()
	e.waiting = append(e.waiting, c)
	e.grant()
	e.mu.Unlock()
	select {
	case l := <-c.granted:
		return l, nil
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = slices.DeleteFunc(e.waiting, func(other *candidate) bool { return other == c })
	select {
	case l := <-c.granted: // at the last moment
		e.release(l)
	default:
	}
	return nil, ctx.Err()
}

// grant gives the lead to the first who waits and can reach the store. e.mu is held.
func (e *election) grant() {
	if e.holder != nil {
		return
	}
	for i, c := range e.waiting {
		if c.server.dead.Load() || c.server.store.isCut() {
			continue
		}
		e.waiting = slices.Delete(e.waiting, i, i+1)
		e.term++
		e.holder = &leadership{election: e, server: c.server, term: e.term, lost: make(chan struct{})}
		c.granted <- e.holder
		return
	}
}

// release ends a term, and lets the next begin. e.mu is held.
func (e *election) release(l *leadership) {
	if e.holder == l {
		e.holder = nil
		e.grant()
	}
}

// Term, Lost and Resign implement registry.Leadership.
func (l *leadership) Term() int64           { return l.term }
func (l *leadership) Lost() <-chan struct{} { return l.lost }
func (l *leadership) Resign(context.Context) error {
	e := l.election
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.server.dead.Load() || l.server.store.isCut() {
		return errNoStore // the store finds out by itself
	}
	l.end()
	e.release(l)
	return nil
}

// end tells the leader.
func (l *leadership) end() { l.once.Do(func() { close(l.lost) }) }

// leader returns the replica that leads as the store sees it, or nil.
func (e *election) leader() *replica {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holder == nil {
		return nil
	}
	return e.holder.server.replica
}

// unheard says that the replica does not reach the store any more, be it dead or
// cut off: its term ends when its session has.
func (e *election) unheard(s *server, still func() bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.holder
	if l == nil || l.server != s {
		return
	}
	e.line.in(sessionTTL, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if still() {
			l.end()
			e.release(l)
		}
	})
}

// forget drops the candidacies of a process that died.
func (e *election) forget(s *server) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = slices.DeleteFunc(e.waiting, func(c *candidate) bool { return c.server == s })
}

// poll lets the next lead, if that has become possible.
func (e *election) poll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.grant()
}

// depose makes another replica lead. The one that did learns of it after a while:
// until then two believe to lead.
func (e *election) depose(after time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.holder
	if l == nil || len(e.waiting) == 0 {
		return
	}
	e.release(l)
	if after == 0 {
		l.end()
		return
	}
	e.line.in(after, l.end)
}
