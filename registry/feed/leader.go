package feed

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
)

// Leader has this replica lead when it is elected: its feed publishes, and its
// duties are done.
type Leader struct {
	Elector registry.Elector
	Feed    *Feed
	// Connected reports whether the fleet can be reached from here: who cannot reach
	// it does not stand for election.
	Connected func() bool
	// Duties run while this replica leads; each ends when its context does.
	Duties []func(ctx context.Context)
	Log    *slog.Logger
}

// Time that the connection to the fleet may be gone before the leader resigns, and
// between two looks at it.
const (
	disconnectedFor = time.Second
	connectedEvery  = 100 * time.Millisecond
)

// resignTimeout bounds a resignation. Without it the leadership runs out by itself.
const resignTimeout = time.Second

// Run stands for election until ctx is done, and then resigns.
func (l *Leader) Run(ctx context.Context) {
	registry.RetryForever(ctx, l.Log, "standing for election", func(worked func()) error {
		for ctx.Err() == nil {
			if !l.connected(ctx) {
				break
			}
			if err := l.stand(ctx); err != nil {
				return err
			}
			worked()
		}
		return nil
	})
}

// connected waits until the fleet can be reached.
func (l *Leader) connected(ctx context.Context) bool {
	ticker := time.NewTicker(connectedEvery)
	defer ticker.Stop()
	for !l.Connected() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// stand campaigns, leads while it can, and resigns.
func (l *Leader) stand(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() {
		l.untilDisconnected(ctx)
		cancel()
	})
	defer watching.Wait()
	defer cancel()

	leadership, err := l.Elector.Campaign(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // not reachable any more, or stopped
		}
		return err
	}
	l.Log.Info("this replica leads", "term", leadership.Term())
	l.lead(ctx, leadership)
	resigning, done := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer done()
	if err := leadership.Resign(resigning); err != nil {
		l.Log.Warn("another replica leads only when this one's lease has run out", "error", err)
	}
	return nil
}

// lead publishes and does the duties until the leadership is lost or ctx is done.
func (l *Leader) lead(ctx context.Context, leadership registry.Leadership) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.Feed.Lead(leadership.Term())
	var duties sync.WaitGroup
	for _, duty := range l.Duties {
		duties.Go(func() { duty(ctx) })
	}
	reason := "the fleet cannot be reached, or this replica is stopping"
	select {
	case <-ctx.Done():
	case <-leadership.Lost():
		reason = "its lease was lost"
	}
	l.Feed.Yield()
	l.Log.Info("this replica does not lead any more", "term", leadership.Term(), "reason", reason)
	cancel()
	duties.Wait()
}

// untilDisconnected waits until the fleet has been out of reach for too long.
func (l *Leader) untilDisconnected(ctx context.Context) {
	ticker := time.NewTicker(connectedEvery)
	defer ticker.Stop()
	seen := time.Now()
	for {
		select {
		case now := <-ticker.C:
			if l.Connected() {
				seen = now
			} else if now.Sub(seen) >= disconnectedFor {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
