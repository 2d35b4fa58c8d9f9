package registry

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// RetryForever calls do until ctx is done, with a pause between calls that doubles from
// 100 ms to 1 s, with jitter, until do says that it has worked. What do is, and why
// it ended, is logged.
func RetryForever(ctx context.Context, log *slog.Logger, what string, do func(worked func()) error) {
	var last time.Duration
	for ctx.Err() == nil {
		err := do(func() { last = 0 })
		if ctx.Err() != nil {
			return
		}
		last = min(max(2*last, 100*time.Millisecond), time.Second)
		pause := last/2 + rand.N(last/2)
		log.Warn(what+" starts again", "error", err, "pause", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}
