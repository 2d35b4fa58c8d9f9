package feed_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/script"
)

// elector elects whoever campaigns, one at a time.
type elector struct {
	mu      sync.Mutex
	free    chan struct{} // has a token while nobody leads
	term    int64
	current *leadership
	failing atomic.Bool
}

func newElector() *elector {
	e := &elector{free: make(chan struct{}, 1)}
	e.free <- struct{}{}
	return e
}

func (e *elector) Campaign(ctx context.Context) (registry.Leadership, error) {
	if e.failing.Load() {
		return nil, script.Errorf(script.Unavailable, "", "no etcd")
	}
	select {
	case <-e.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term++
	e.current = &leadership{of: e, term: e.term, lost: make(chan struct{})}
	return e.current, nil
}

// lose takes the lead away.
func (e *elector) lose() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.current.lost)
}

type leadership struct {
	of   *elector
	term int64
	lost chan struct{}
}

func (l *leadership) Term() int64           { return l.term }
func (l *leadership) Lost() <-chan struct{} { return l.lost }
func (l *leadership) Resign(context.Context) error {
	l.of.free <- struct{}{}
	return nil
}

func TestLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, e := newBench(t), newElector()
		defer b.stop()
		var connected atomic.Bool
		var duties atomic.Int32
		leader := feed.Leader{
			Elector: e, Feed: b.Feed, Connected: connected.Load, Log: quiet(),
			Duties: []func(context.Context){func(ctx context.Context) {
				duties.Add(1)
				<-ctx.Done()
				duties.Add(-1)
			}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { leader.Run(ctx) })
		want := func(when string, leading bool, term int64) {
			t.Helper()
			synctest.Wait()
			if s := b.Stats(); s.Leading != leading || s.Term != term || duties.Load() == 1 != leading {
				t.Errorf("%s: leading %v in term %d with %d duties; want %v, %d", when, s.Leading, s.Term, duties.Load(), leading, term)
			}
		}
		later(time.Minute)
		want("without NATS", false, 0)
		connected.Store(true)
		later(time.Second)
		want("with NATS", true, 1)
		connected.Store(false)
		later(700 * time.Millisecond)
		connected.Store(true)
		later(time.Minute)
		want("after NATS was away for a moment", true, 1)
		connected.Store(false)
		later(2 * time.Second)
		want("while NATS is away", false, 1)
		connected.Store(true)
		later(time.Second)
		want("with NATS again", true, 2)
		e.lose()
		later(time.Second)
		want("after the lease was lost", true, 3)
		e.failing.Store(true)
		e.lose()
		later(time.Minute)
		want("while etcd is away", false, 3)
		e.failing.Store(false)
		later(10 * time.Second)
		want("with etcd again", true, 4)

		// Another one waits for its turn.
		second := newReplica(t, b.store)
		defer second.stop()
		other := feed.Leader{Elector: e, Feed: second.Feed, Connected: connected.Load, Log: quiet()}
		running.Go(func() { other.Run(ctx) })
		later(time.Minute)
		if second.Stats().Leading {
			t.Error("two lead")
		}
		connected.Store(false)
		later(2 * time.Second)
		if b.Stats().Leading || second.Stats().Leading {
			t.Error("somebody leads whom the fleet cannot hear")
		}
		cancel()
		running.Wait()
		if len(e.free) != 1 {
			t.Error("the leader has not resigned")
		}
	})
}
