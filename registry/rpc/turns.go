package rpc

import (
	"context"
	"sync"
	"time"
)

// turns bounds how many snapshots a registry sends at a time, first come, first served.
// When a whole fleet joins, a registry that sends all snapshots at once finishes each too
// late for the agent that waits for it, and the agents ask again. A request that is
// canceled while it waits costs nothing.
type turns struct {
	free chan struct{}
	// most is how long a turn lasts: a client that does not read its snapshot does not
	// hold up the others for longer.
	most time.Duration
}

const (
	snapshotsAtOnce = 16
	snapshotTurn    = 5 * time.Second
)

func newTurns(atOnce int, most time.Duration) turns {
	return turns{free: make(chan struct{}, atOnce), most: most}
}

// take waits for a turn. The caller calls done when it needs the turn no longer.
func (t turns) take(ctx context.Context) (done func(), err error) {
	select {
	case t.free <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	end := sync.OnceFunc(func() { <-t.free })
	timer := time.AfterFunc(t.most, end)
	return func() { timer.Stop(); end() }, nil
}
