package registry

import (
	"context"
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

	fleet   string
	located bool // head is where the feed is to go on
	tail    tail

	head  atomic.Int64
	begun chan struct{} // closed once the feed was located
	once  sync.Once

	mu    sync.Mutex
	moved chan struct{} // closed when the head moves; nil while nobody waits
}

// NewFeed returns a feed from store to publisher.
func NewFeed(store Store, publisher Publisher, log *slog.Logger) *Feed {
	f := &Feed{store: store, publisher: publisher, log: log, now: time.Now, begun: make(chan struct{})}
	f.tail = tail{store: store, follower: (*feedFollower)(f), log: log, name: "the feed"}
	return f
}

// Begun is closed once the feed knows where it starts: every later transaction
// becomes an event.
func (f *Feed) Begun() <-chan struct{} { return f.begun }

// Running reports whether the feed is following the store right now.
func (f *Feed) Running() bool { return f.tail.running.Load() }

// Head returns the revision up to which the feed has handed on everything.
func (f *Feed) Head() script.Revision { return script.Revision(f.head.Load()) }

// Reached waits until the feed has handed on everything up to the revision. The
// error is that of ctx.
func (f *Feed) Reached(ctx context.Context, revision script.Revision) error {
	for {
		f.mu.Lock()
		if f.Head() >= revision {
			f.mu.Unlock()
			return nil
		}
		if f.moved == nil {
			f.moved = make(chan struct{})
		}
		moved := f.moved
		f.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *Feed) advance(to script.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head.Store(int64(to))
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// Run follows the store until ctx is done. It starts anew, after a pause, when
// the store cannot be reached or has forgotten where the feed was.
func (f *Feed) Run(ctx context.Context) { f.tail.run(ctx) }

// feedFollower is what the feed does with what its tail finds.
type feedFollower Feed

// begin finds where to follow from: on from the last transaction that was handed
// on, or from the head when there is none.
func (ff *feedFollower) begin(ctx context.Context) (script.Revision, error) {
	f := (*Feed)(ff)
	fleet, err := f.store.Fleet(ctx)
	if err != nil {
		return 0, err
	}
	if !f.located {
		head, err := f.store.Head(ctx)
		if err != nil {
			return 0, err
		}
		f.advance(head)
	}
	f.fleet, f.located = fleet, true
	f.once.Do(func() { close(f.begun) })
	return f.Head(), nil
}

func (ff *feedFollower) began(ctx context.Context, head script.Revision) {
	ff.ticked(ctx, head, false)
}

func (ff *feedFollower) apply(ctx context.Context, t Transaction) {
	f := (*Feed)(ff)
	f.event(ctx, t)
	f.advance(t.Revision)
}

// ticked sends a beacon. It promises agents that they are current if they have
// everything up to it, so none is sent while events are on their way here. Of
// those that are overdue it tells: agents need not wait for the next watch.
func (ff *feedFollower) ticked(ctx context.Context, head script.Revision, behind bool) {
	f := (*Feed)(ff)
	if behind || head <= f.Head() {
		f.beacon(ctx, max(head, f.Head()))
	}
}

func (ff *feedFollower) lost() { ff.located = false }

// event hands on one transaction. That it fails is the publisher's to count:
// agents see the gap at the next beacon.
func (f *Feed) event(ctx context.Context, t Transaction) {
	e := Event{Fleet: f.fleet, Revision: t.Revision, Previous: f.Head(), Releases: t.Releases}
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
}

func (f *Feed) beacon(ctx context.Context, head script.Revision) {
	err := f.publisher.PublishBeacon(ctx, Beacon{Fleet: f.fleet, Head: head, SentAt: f.now().UTC()})
	if err != nil {
		f.log.Debug("a beacon was not published; agents poll until one comes", "error", err)
	}
}
