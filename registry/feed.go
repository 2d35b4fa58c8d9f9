package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Event is one transaction of the change feed.
type Event struct {
	Fleet    string
	Revision script.Revision
	// Previous is the revision of the transaction before. A follower whose
	// revision is lower has a gap.
	Previous script.Revision
	Releases []script.Release
	// Sources are those of active versions up to InlineSourceBytes.
	Sources     []Source
	CommittedAt time.Time
}

// InlineSourceBytes is the size of the largest source that travels with its release.
const InlineSourceBytes = 64 << 10

// Beacon says where the feed is.
type Beacon struct {
	Fleet  string
	Head   script.Revision
	SentAt time.Time
}

// Publisher carries the feed to the fleet. An error means that the fleet did not
// get it; agents then heal by the next beacon, or by polling when there is none.
// The feed calls it from one goroutine.
type Publisher interface {
	PublishEvent(ctx context.Context, e Event) error
	PublishBeacon(ctx context.Context, b Beacon) error
}

// BeaconInterval is the time between two beacons.
const BeaconInterval = time.Second

// Feed turns the store's transactions into events. Everything in an event comes
// from the store, so that every replica's feed is the same; one replica at a time
// needs to run it.
type Feed struct {
	store     Store
	publisher Publisher
	log       *slog.Logger
	now       func() time.Time

	fleet string
	// position is the revision of the last transaction that was handed on, if it
	// is located.
	position script.Revision
	located  bool
	// What the last tick found: the head, and how far the feed was.
	tickHead, tickPosition script.Revision

	head    atomic.Int64
	running atomic.Bool
	begun   chan struct{} // closed once the feed was located
	begin   sync.Once
}

// NewFeed returns a feed from store to publisher.
func NewFeed(store Store, publisher Publisher, log *slog.Logger) *Feed {
	return &Feed{store: store, publisher: publisher, log: log, now: time.Now, begun: make(chan struct{})}
}

// Begun is closed once the feed knows where it starts: every later transaction
// becomes an event.
func (f *Feed) Begun() <-chan struct{} { return f.begun }

// Running reports whether the feed is following the store right now.
func (f *Feed) Running() bool { return f.running.Load() }

// Head returns the revision up to which the feed has handed on everything.
func (f *Feed) Head() script.Revision { return script.Revision(f.head.Load()) }

// Run follows the store until ctx is done. It starts anew, after a pause, when
// the store cannot be reached or has forgotten where the feed was.
func (f *Feed) Run(ctx context.Context) {
	defer f.running.Store(false)
	pause := backoff{}
	for ctx.Err() == nil {
		err := f.follow(ctx, &pause)
		f.running.Store(false)
		if ctx.Err() != nil {
			return
		}
		wait := pause.next()
		f.log.Warn("the feed starts again", "error", err, "position", f.position, "pause", wait)
		if !sleep(ctx, wait) {
			return
		}
	}
}

// errBehind: the store has transactions that the watch did not deliver.
var errBehind = errors.New("the watch fell behind the store")

// follow publishes from one watch until it fails.
func (f *Feed) follow(ctx context.Context, pause *backoff) error {
	if err := f.locate(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	after := f.position
	steps := f.watch(ctx, after)

	f.running.Store(true)
	if f.tickHead == f.position {
		f.beacon(ctx, f.position)
	}
	ticker := time.NewTicker(BeaconInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			if err := f.tick(ctx); err != nil {
				return err
			}
		case s, ok := <-steps:
			if !ok {
				return errors.New("the watch ended")
			}
			if s.err != nil {
				if f.position == after {
					// Nothing came: the store may have forgotten this revision.
					f.located = false
				}
				return s.err
			}
			f.event(ctx, s.t)
			pause.reset()
		}
	}
}

// step is what a watch yields.
type step struct {
	t   Transaction
	err error
}

// watch runs a watch until ctx is done or it fails; then the channel is closed.
func (f *Feed) watch(ctx context.Context, after script.Revision) <-chan step {
	steps := make(chan step)
	go func() {
		defer close(steps)
		for t, err := range f.store.Watch(ctx, after) {
			select {
			case steps <- step{t, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return steps
}

// locate finds where to follow from: on from the last transaction that was
// handed on, or from the head when there is none.
func (f *Feed) locate(ctx context.Context) error {
	fleet, err := f.store.Fleet(ctx)
	if err != nil {
		return err
	}
	head, err := f.store.Head(ctx)
	if err != nil {
		return err
	}
	if !f.located {
		f.advance(head)
	}
	f.fleet, f.located = fleet, true
	f.tickHead, f.tickPosition = head, f.position
	f.begin.Do(func() { close(f.begun) })
	return nil
}

func (f *Feed) advance(to script.Revision) {
	f.position = to
	f.head.Store(int64(to))
}

// event hands on one transaction. That it fails is the publisher's to count:
// agents see the gap at the next beacon.
func (f *Feed) event(ctx context.Context, t Transaction) {
	e := Event{Fleet: f.fleet, Revision: t.Revision, Previous: f.position, Releases: t.Releases}
	var digests []script.Digest
	for i := range t.Releases {
		active := t.Releases[i].Active
		e.CommittedAt = t.Releases[i].ChangedAt
		if active.Number != 0 && active.Size <= InlineSourceBytes {
			digests = append(digests, active.Digest)
		}
	}
	if len(digests) > 0 {
		sources, err := f.store.Sources(ctx, digests)
		if err != nil {
			f.log.Warn("an event goes out without its sources; agents will fetch them", "revision", t.Revision, "error", err)
		}
		e.Sources = sources
	}
	if err := f.publisher.PublishEvent(ctx, e); err != nil {
		f.log.Warn("an event was not published; agents will heal by the next beacon or by polling", "revision", t.Revision, "error", err)
	}
	f.advance(t.Revision)
}

// tick sends a beacon, if the store says that the feed is where it is: a beacon
// promises agents that they are current, so none is sent on a guess.
func (f *Feed) tick(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, BeaconInterval)
	defer cancel()
	head, err := f.store.Head(ask)
	if err != nil {
		return fmt.Errorf("ask for the head: %w", err)
	}
	if f.tickHead > f.position && f.tickPosition == f.position {
		// Nothing came in a whole interval: tell the fleet, and watch afresh.
		f.beacon(ctx, head)
		return errBehind
	}
	f.tickHead, f.tickPosition = head, f.position
	f.beacon(ctx, f.position)
	return nil
}

func (f *Feed) beacon(ctx context.Context, head script.Revision) {
	err := f.publisher.PublishBeacon(ctx, Beacon{Fleet: f.fleet, Head: head, SentAt: f.now().UTC()})
	if err != nil {
		f.log.Debug("a beacon was not published; agents poll until one comes", "error", err)
	}
}
