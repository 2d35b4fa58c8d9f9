package registryclient

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// FollowStatus is WatchStatus that goes on when the stream ends: a registry ends old connections, and those
// of a registry that stops lead to another replica. Once a registry has answered the client, it waits while none does,
// and calls interrupted with the reason each time that it tries in vain. An error is the last.
func (c *Client) FollowStatus(ctx context.Context, selected script.Name, interrupted func(error)) iter.Seq2[FleetStatus, error] {
	return follow(ctx, &c.answered, c.WatchStatus(ctx, selected), interrupted)
}

// FollowChanges is WatchChanges that goes on as FollowStatus does. A change is Full each time that it goes on.
func (c *Client) FollowChanges(ctx context.Context, selected script.Name, interrupted func(error)) iter.Seq2[StatusChange, error] {
	return follow(ctx, &c.answered, c.WatchChanges(ctx, selected), interrupted)
}

// followPause is the least time between two attempts to reach a registry.
const followPause = time.Second

// follow ranges over watch again each time that it ends in Unavailable, once it has yielded anything.
func follow[T any](ctx context.Context, answered *atomic.Bool, watch iter.Seq2[T, error], interrupted func(error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			began, inVain := time.Now(), true
			for next, err := range watch {
				switch {
				case err == nil:
					inVain = false
					answered.Store(true)
					if !yield(next, nil) {
						return
					}
				case !answered.Load() || ctx.Err() != nil || script.KindOf(err) != script.Unavailable:
					yield(next, err)
					return
				case inVain:
					interrupted(err)
				}
			}
			pause(ctx, time.Until(began.Add(followPause)))
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
