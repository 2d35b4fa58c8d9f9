package registry_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// recorder is a Publisher that remembers.
type recorder struct {
	mu      sync.Mutex
	events  []registry.Event
	beacons []registry.Beacon
	fail    error
}

func (r *recorder) PublishEvent(_ context.Context, e registry.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	r.events = append(r.events, e)
	return nil
}

func (r *recorder) PublishBeacon(_ context.Context, b registry.Beacon) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	r.beacons = append(r.beacons, b)
	return nil
}

func (r *recorder) failWith(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

func (r *recorder) seen() ([]registry.Event, []registry.Beacon) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]registry.Event(nil), r.events...), append([]registry.Beacon(nil), r.beacons...)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// runFeed runs a feed until the returned function is called.
func runFeed(store registry.Store, p registry.Publisher) (*registry.Feed, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	feed := registry.NewFeed(store, p, quiet())
	var wg sync.WaitGroup
	wg.Go(func() { feed.Run(ctx) })
	return feed, func() { cancel(); wg.Wait() }
}

// wantChain checks that every event's previous revision is that of the event before.
func wantChain(t *testing.T, events []registry.Event, from script.Revision) {
	t.Helper()
	for _, e := range events {
		if e.Previous != from {
			t.Errorf("event %d follows %d, want %d", e.Revision, e.Previous, from)
		}
		from = e.Revision
	}
}

func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := newBench(t), &recorder{}
		before := b.publish("before").Release
		feed, stop := runFeed(b.store, p)
		defer stop()
		synctest.Wait()
		if !feed.Running() || feed.Head() != before.Revision {
			t.Errorf("running %v, head %d; want true, %d", feed.Running(), feed.Head(), before.Revision)
		}
		want := b.publish("after").Release
		synctest.Wait()
		events, _ := p.seen()
		if len(events) != 1 {
			t.Fatalf("%d events, want 1", len(events))
		}
		e := events[0]
		fleet, _ := b.Fleet(t.Context())
		if e.Fleet != fleet || e.Revision != want.Revision || !e.CommittedAt.Equal(want.ChangedAt) || len(e.Releases) != 1 {
			t.Errorf("event: %+v", e)
		}
		if len(e.Sources) != 1 || string(e.Sources[0].Content) != "after" || e.Sources[0].Digest != want.Active.Digest {
			t.Errorf("sources: %+v", e.Sources)
		}
		large := string(make65KiB())
		b.publish(large, settings(script.Settings{Limits: script.MaxLimits()}))
		if _, err := b.Delete(t.Context(), registry.DeleteRequest{Write: write(route)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		events, _ = p.seen()
		wantChain(t, events, before.Revision)
		if len(events) != 3 || len(events[1].Sources) != 0 || len(events[2].Sources) != 0 {
			t.Errorf("%d events; want 3, without a source that is large or gone", len(events))
		}
	})
}

// TestFeedChainAcrossRestarts: a feed that starts goes on from where the store is,
// so that no two feeds disagree on what came before.
func TestFeedChainAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := newBench(t), &recorder{}
		first, stopFirst := runFeed(b.store, p)
		second := &recorder{}
		_, stopSecond := runFeed(b.store, second)
		synctest.Wait()
		for i := range 5 {
			b.publish(fmt.Sprint("a", i))
		}
		synctest.Wait()
		stopFirst()
		if first.Running() {
			t.Error("a feed that was stopped says that it runs")
		}
		missed := b.publish("missed").Release
		_, stopThird := runFeed(b.store, p)
		synctest.Wait()
		for i := range 5 {
			b.publish(fmt.Sprint("b", i))
		}
		synctest.Wait()
		stopThird()
		stopSecond()
		events, _ := p.seen()
		wantChain(t, events[:5], 0)
		wantChain(t, events[5:], missed.Revision)
		all, _ := second.seen()
		wantChain(t, all, 0)
		if len(events) != 10 || len(all) != 11 {
			t.Errorf("%d and %d events, want 10 and 11", len(events), len(all))
		}
	})
}

func TestBeacons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := newBench(t), &recorder{}
		_, stop := runFeed(b.store, p)
		defer stop()
		synctest.Wait()
		r := b.publish("one").Release
		time.Sleep(5*registry.BeaconInterval + time.Millisecond) //nolint:forbidigo // the clock of a synctest bubble
		_, beacons := p.seen()
		if len(beacons) != 6 {
			t.Errorf("%d beacons in 5 intervals, want one at the start and 5", len(beacons))
		}
		if last := beacons[len(beacons)-1]; last.Head != r.Revision || last.Fleet == "" || last.SentAt.IsZero() {
			t.Errorf("beacon: %+v, want head %d", last, r.Revision)
		}
		p.failWith(errors.New("NATS is down"))
		b.publish("two")
		synctest.Wait()
		p.failWith(nil)
		third := b.publish("three").Release
		synctest.Wait()
		events, _ := p.seen()
		if last := events[len(events)-1]; last.Revision != third.Revision || last.Previous != third.Revision-1 {
			t.Errorf("after a failure: %d follows %d; the gap must show", last.Revision, last.Previous)
		}
	})
}

// flaky is a store whose watches and reads can be made to fail.
type flaky struct {
	*memstore.Store
	mu      sync.Mutex
	cut     chan struct{} // closed: watches end with an error
	silent  bool          // watches deliver nothing
	headErr error
}

func newFlaky(s *memstore.Store) *flaky { return &flaky{Store: s, cut: make(chan struct{})} }

func (f *flaky) cutWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.cut)
	f.cut = make(chan struct{})
}

func (f *flaky) set(silent bool, headErr error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent, f.headErr = silent, headErr
}

func (f *flaky) Head(ctx context.Context) (script.Revision, error) {
	f.mu.Lock()
	err := f.headErr
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return f.Store.Head(ctx)
}

func (f *flaky) Watch(ctx context.Context, after script.Revision) iter.Seq2[registry.Transaction, error] {
	f.mu.Lock()
	cut, silent := f.cut, f.silent
	f.mu.Unlock()
	return func(yield func(registry.Transaction, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-cut:
				cancel()
			case <-ctx.Done():
			}
		}()
		if silent {
			<-ctx.Done()
		} else {
			for t, err := range f.Store.Watch(ctx, after) {
				if !yield(t, err) {
					return
				}
			}
		}
		yield(registry.Transaction{}, script.Errorf(script.Unavailable, "", "the watch was cut"))
	}
}

// TestFeedResumes: a watch that breaks loses nothing.
func TestFeedResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := newBench(t), &recorder{}
		store := newFlaky(b.store)
		feed, stop := runFeed(store, p)
		defer stop()
		synctest.Wait()
		for i := range 5 {
			b.publish(fmt.Sprint(i))
			synctest.Wait()
			store.cutWatches()
			synctest.Wait()
			if feed.Running() {
				t.Error("a feed without a watch says that it runs")
			}
			b.publish(fmt.Sprint(i, " while it was away"))
			time.Sleep(time.Minute) //nolint:forbidigo // the clock of a synctest bubble
		}
		events, _ := p.seen()
		wantChain(t, events, 0)
		if len(events) != 10 {
			t.Errorf("%d events, want 10", len(events))
		}
	})
}

// TestFeedAfterQuietOutages: an outage in which nothing came is not a reason to
// leave anything out.
func TestFeedAfterQuietOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := newBench(t), &recorder{}
		store := newFlaky(b.store)
		_, stop := runFeed(store, p)
		defer stop()
		synctest.Wait()
		for i := range 3 {
			store.cutWatches()
			synctest.Wait()
			b.publish(fmt.Sprint(i))
			time.Sleep(time.Minute) //nolint:forbidigo // the clock of a synctest bubble
			store.cutWatches()
			time.Sleep(time.Minute) //nolint:forbidigo // the clock of a synctest bubble
		}
		events, _ := p.seen()
		wantChain(t, events, 0)
		if len(events) != 3 {
			t.Errorf("%d events, want 3", len(events))
		}
	})
}

// TestFeedComesBackAtOnce: outages of long ago do not slow the next return.
func TestFeedComesBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := newBench(t), &recorder{}
		store := newFlaky(b.store)
		feed, stop := runFeed(store, p)
		defer stop()
		for range 20 {
			synctest.Wait()
			store.cutWatches()
			time.Sleep(time.Second / 2) //nolint:forbidigo // the clock of a synctest bubble
			if !feed.Running() {
				t.Fatal("half a second after an outage the feed does not run, although nothing else is wrong")
			}
			time.Sleep(time.Minute) //nolint:forbidigo // the clock of a synctest bubble
		}
	})
}

// TestNoBeaconBeforeItsEvents: agents that have all but what is on its way are not
// told anything.
func TestNoBeaconBeforeItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := newBench(t), &recorder{}
		store := newFlaky(b.store)
		store.set(true, nil)
		feed, stop := runFeed(store, p)
		defer stop()
		synctest.Wait()
		r := b.publish("one").Release
		time.Sleep(registry.BeaconInterval + time.Millisecond) //nolint:forbidigo // the clock of a synctest bubble
		if _, beacons := p.seen(); len(beacons) != 1 {
			t.Errorf("%d beacons, want the one of the start", len(beacons))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := feed.Reached(ctx, r.Revision); err == nil {
			t.Error("the feed says that it has reached what it has not seen")
		}
		store.set(false, nil)
		if err := feed.Reached(t.Context(), r.Revision); err != nil {
			t.Error(err)
		}
	})
}

// TestFeedAfterCompaction: a feed that the store cannot bring up goes on from the
// head, and the gap shows.
func TestFeedAfterCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := newBench(t), &recorder{}
		store := newFlaky(b.store)
		_, stop := runFeed(store, p)
		defer stop()
		synctest.Wait()
		b.publish("one")
		synctest.Wait()
		store.cutWatches()
		synctest.Wait()
		b.publish("two")
		lost := b.publish("three").Release
		b.store.Compact(lost.Revision)
		time.Sleep(time.Minute) //nolint:forbidigo // the clock of a synctest bubble
		next := b.publish("four").Release
		synctest.Wait()
		events, beacons := p.seen()
		last := events[len(events)-1]
		if len(events) != 2 || last.Revision != next.Revision || last.Previous != lost.Revision {
			t.Errorf("%d events, the last %d after %d; want %d after %d", len(events), last.Revision, last.Previous, next.Revision, lost.Revision)
		}
		if beacons[len(beacons)-1].Head != lost.Revision {
			t.Errorf("the last beacon says %d, want %d", beacons[len(beacons)-1].Head, lost.Revision)
		}
	})
}

// TestNoBeaconOnAGuess: while the store does not answer, agents are not told that
// they are current; and a watch that has gone silent is found out.
func TestNoBeaconOnAGuess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := newBench(t), &recorder{}
		store := newFlaky(b.store)
		store.set(true, nil)
		_, stop := runFeed(store, p)
		defer stop()
		synctest.Wait()
		r := b.publish("one").Release
		store.set(false, nil)
		time.Sleep(4 * registry.BeaconInterval) //nolint:forbidigo // the clock of a synctest bubble
		events, beacons := p.seen()
		if len(events) != 1 || beacons[len(beacons)-1].Head != r.Revision {
			t.Errorf("%d events, last beacon %+v; want the watch to be made afresh", len(events), beacons[len(beacons)-1])
		}
		store.set(false, errors.New("no answer"))
		time.Sleep(2 * registry.BeaconInterval) //nolint:forbidigo // the clock of a synctest bubble
		_, before := p.seen()
		time.Sleep(time.Minute) //nolint:forbidigo // the clock of a synctest bubble
		if _, after := p.seen(); len(after) != len(before) {
			t.Errorf("%d beacons while the store does not answer", len(after)-len(before))
		}
	})
}

// mirror is a Projection.
type mirror struct {
	mu       sync.Mutex
	resets   int
	head     script.Revision
	releases map[script.Name]script.Release
}

func (m *mirror) Reset(_ string, head script.Revision, releases []script.Release) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resets++
	m.head, m.releases = head, map[script.Name]script.Release{}
	for _, r := range releases {
		m.releases[r.Name] = r
	}
}

func (m *mirror) Apply(t registry.Transaction) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.head = t.Revision
	for _, r := range t.Releases {
		m.releases[r.Name] = r
	}
}

func (m *mirror) at() (script.Revision, int, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.head, m.resets, len(m.releases)
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, m := newBench(t), &mirror{}
		store := newFlaky(b.store)
		b.publish("one")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { registry.Follow(ctx, store, m, quiet()) })
		defer func() { cancel(); wg.Wait() }()
		for i := range 6 {
			synctest.Wait()
			if i%2 == 1 {
				store.cutWatches()
			}
			if i == 5 {
				b.publish("forgotten")
				b.store.Compact(b.head())
			}
			r := b.publish(fmt.Sprint("v", i)).Release
			time.Sleep(time.Minute) //nolint:forbidigo // the clock of a synctest bubble
			if head, resets, n := m.at(); head != r.Revision || resets != 1 || n != 1 {
				t.Errorf("round %d: at %d after %d resets with %d; want %d after one", i, head, resets, n, r.Revision)
			}
		}
	})
}

// TestFollowFindsSilence: a watch that delivers nothing is found out.
func TestFollowFindsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, m := newBench(t), &mirror{}
		store := newFlaky(b.store)
		store.set(true, nil)
		b.publish("before")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { registry.Follow(ctx, store, m, quiet()) })
		defer func() { cancel(); wg.Wait() }()
		synctest.Wait()
		r := b.publish("one").Release
		time.Sleep(4 * time.Second) //nolint:forbidigo // the clock of a synctest bubble
		if head, resets, _ := m.at(); head != r.Revision || resets != 1 {
			t.Errorf("at %d after %d resets, want %d after one", head, resets, r.Revision)
		}
	})
}
