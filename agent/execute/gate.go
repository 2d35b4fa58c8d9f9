package execute

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// gate admits a number of calls at once and lets a number wait, first come
// first served.
type gate struct {
	slots      chan struct{} // one element a running call
	waiting    *atomic.Int64
	maxWaiting int64
}

func newGate(running, waiting int) gate {
	return gate{slots: make(chan struct{}, running), waiting: new(atomic.Int64), maxWaiting: int64(waiting)}
}

// patience is how long a call waits for its turn when its caller sets no
// deadline: longer than a busy processor makes it wait, and short enough that a
// gateway still has somebody to answer.
const patience = time.Second

// enter returns nil when it is the call's turn; the caller then calls leave. It
// waits until ctx is done, or for patience.
func (g gate) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return ended(ctx, script.Timeout, "before it began")
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	default:
	}
	if g.waiting.Add(1) > g.maxWaiting {
		g.waiting.Add(-1)
		return script.Errorf(script.Overloaded, "", "%d calls are running and %d are waiting, the most that this agent takes: try again", cap(g.slots), g.maxWaiting)
	}
	defer g.waiting.Add(-1)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ended(ctx, script.Overloaded, "while it waited for its turn")
	case <-timer.C:
		return script.Errorf(script.Overloaded, "", "the call waited %v for its turn: try again", patience)
	}
}

func (g gate) leave() { <-g.slots }

// ended returns the error of a call whose ctx is done, with the cause but
// without its words, which are for Go programmers.
func ended(ctx context.Context, kind script.Kind, when string) error {
	what := "the call's time ran out"
	if errors.Is(ctx.Err(), context.Canceled) {
		what = "the call was canceled"
	}
	return &script.Error{Kind: kind, Message: what + " " + when, Err: context.Cause(ctx)}
}
