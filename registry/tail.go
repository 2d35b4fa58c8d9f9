package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// ErrForgotten is in the chain of a watch's error if the store has forgotten
// transactions that the watch was to yield: no other watch from there can do
// better.
var ErrForgotten = errors.New("the store has forgotten transactions that were asked for")

// errBehind: the store has transactions that the watch did not deliver.
var errBehind = errors.New("the watch fell behind the store")

// follower is told what a tail finds, all from one goroutine.
type follower interface {
	// begin is called before each watch. It returns the revision to watch from:
	// what is above it is applied.
	begin(ctx context.Context) (script.Revision, error)
	// began is called once the watch is asked for; head was the store's before.
	began(ctx context.Context, head script.Revision)
	apply(ctx context.Context, t Transaction)
	// ticked is called about once a tickInterval with the store's head. Behind: the
	// watch has failed to deliver what is up to it, and is given up.
	ticked(ctx context.Context, head script.Revision, behind bool)
	// lost: the store has forgotten what comes after the position, or cannot read
	// it. No other watch from there can do better.
	lost()
}

// tickInterval is the time between two looks at the store's head.
const tickInterval = BeaconInterval

// tail follows the store's transactions through watches. A watch that fails, or
// that has gone silent although the store goes on, is made again after a pause.
type tail struct {
	store    Store
	follower follower
	log      *slog.Logger
	name     string // of the follower, for the log

	position script.Revision // up to which everything was handed on
	// What the last tick found: the head, and how far the tail was.
	tickHead, tickPosition script.Revision
	pause                  backoff
	running                atomic.Bool // a watch is under way
}

// run follows the store until ctx is done.
func (t *tail) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := t.follow(ctx)
		t.running.Store(false)
		if ctx.Err() != nil {
			return
		}
		wait := t.pause.next()
		t.log.Warn(t.name+" starts again", "error", err, "position", t.position, "pause", wait)
		if !sleep(ctx, wait) {
			return
		}
	}
}

// follow hands on from one watch until it fails.
func (t *tail) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	position, err := t.follower.begin(ctx)
	if err != nil {
		return err
	}
	head, err := t.store.Head(ctx)
	if err != nil {
		return err
	}
	t.position, t.tickHead, t.tickPosition = position, head, position
	steps := t.watch(ctx)
	t.running.Store(true)
	t.follower.began(ctx, head)
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			if err := t.tick(ctx); err != nil {
				return err
			}
		case s, ok := <-steps:
			if !ok {
				return errors.New("the watch ended")
			}
			if s.err != nil {
				if errors.Is(s.err, ErrForgotten) || script.KindOf(s.err) == script.Internal {
					t.follower.lost()
				}
				return s.err
			}
			t.follower.apply(ctx, s.t)
			t.position = s.t.Revision
		}
		t.pause.reset()
	}
}

// tick finds out whether the watch has gone silent.
func (t *tail) tick(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, tickInterval)
	defer cancel()
	head, err := t.store.Head(ask)
	if err != nil {
		return fmt.Errorf("ask for the head: %w", err)
	}
	behind := t.tickHead > t.position && t.tickPosition == t.position // for a whole interval
	t.tickHead, t.tickPosition = head, t.position
	t.follower.ticked(ctx, head, behind)
	if behind {
		return errBehind
	}
	return nil
}

// step is what a watch yields.
type step struct {
	t   Transaction
	err error
}

// watch runs a watch until ctx is done or it fails; then the channel is closed.
func (t *tail) watch(ctx context.Context) <-chan step {
	steps, after := make(chan step), t.position
	go func() {
		defer close(steps)
		for t, err := range t.store.Watch(ctx, after) {
			select {
			case steps <- step{t, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return steps
}
