package agent

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

const (
	// maxRecalls wait for their answers. Others are left out: the registry asks other agents.
	maxRecalls = 4
	// recallDelay is the least time before an answer, and the most by which it is longer. It
	// keeps agents from answering all at once, and this one from answering more than some
	// times a second.
	recallDelay = 100 * time.Millisecond
)

// recall takes note that the registry asks for copies of what it has lost.
func (a *Agent) recall(r follow.Recall) {
	select {
	case a.recalls <- r:
	default:
		a.log.Warn("the registry asks for copies faster than this agent sends them; it does not answer this time")
	}
}

// answerRecalls goes on until ctx is done.
func (a *Agent) answerRecalls(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-a.recalls:
			a.answer(ctx, r)
		}
	}
}

// answer sends what is on disk, as it is there: the registry verifies it.
func (a *Agent) answer(ctx context.Context, r follow.Recall) {
	delay := time.NewTimer(recallDelay + rand.N(recallDelay))
	defer delay.Stop()
	select {
	case <-ctx.Done():
		return
	case <-delay.C:
	}
	sent := 0
	for _, key := range r.Keys {
		content, err := a.copyOf(key)
		if err != nil || ctx.Err() != nil {
			continue // it does not have it, and another agent may
		}
		if err := a.feed.SendCopy(&eventv1.Copy{Fleet: r.Fleet, Id: r.ID, Key: key, Content: content}); err != nil {
			a.log.Warn("a copy that the registry asked for was not sent", "key", key, "error", err)
			continue
		}
		sent++
	}
	a.log.Info("the registry has asked for copies of records that it cannot read", "asked", len(r.Keys), "sent", sent)
}

// copyOf returns the source, or the envelope of the object's entry, as it is on disk.
func (a *Agent) copyOf(key string) ([]byte, error) {
	if digest, ok := wire.ToSourceKey(key); ok {
		return a.state.store.Source(digest)
	}
	return a.state.store.Sealed(key)
}
