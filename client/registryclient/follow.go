package registryclient

import (
	"context"
	"iter"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// FollowStatus is WatchStatus that goes on when the stream ends: a registry ends old connections, and those
// of a registry that stops lead to another replica. Once a registry has answered, it waits while none does,
// and calls interrupted with the reason each time that it tries in vain. An error is the last.
func (c *Client) FollowStatus(ctx context.Context, selected script.Name, interrupted func(error)) iter.Seq2[FleetStatus, error] {
	return follow(ctx, c.WatchStatus(ctx, selected), interrupted)
}

// FollowChanges is WatchChanges that goes on as FollowStatus does. A change is Full each time that it goes on.
func (c *Client) FollowChanges(ctx context.Context, selected script.Name, interrupted func(error)) iter.Seq2[StatusChange, error] {
	return follow(ctx, c.WatchChanges(ctx, selected), interrupted)
}

// followPause is the least time between two attempts to reach a registry.
const followPause = time.Second

// follow ranges over watch again each time that it ends in Unavailable, once it has yielded anything.
func follow[T any](ctx context.Context, watch iter.Seq2[T, error], interrupted func(error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for answered := false; ; {
			began, inVain := time.Now(), true
			for next, err := range watch {
				switch {
				case err == nil:
					answered, inVain = true, false
					if !yield(next, nil) {
						return
					}
				case !answered || ctx.Err() != nil || script.KindOf(err) != script.Unavailable:
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
