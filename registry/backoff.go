package registry

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is the pause between attempts: doubling from 100 ms to 5 s, with jitter.
type backoff struct {
	last time.Duration
}

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, 100*time.Millisecond), 5*time.Second)
	return b.last/2 + rand.N(b.last/2)
}

func (b *backoff) reset() { b.last = 0 }

// sleep waits and reports whether ctx is still on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
