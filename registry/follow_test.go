package registry_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// flaky is a store whose watches and reads can be made to fail.
type flaky struct {
	*memstore.Store
	mu      sync.Mutex
	cut     chan struct{} // closed: watches end with an error
	silent  bool          // watches deliver nothing
	headErr error
	rewound script.Revision // the head is that much lower
	bad     script.Revision // cannot be read
	fleet   string          // if not empty, another identity

	fleetErr error
}

func newFlaky(s *memstore.Store) *flaky { return &flaky{Store: s, cut: make(chan struct{})} }

func (f *flaky) cutWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.cut)
	f.cut = make(chan struct{})
}

// set changes how the store fails.
func (f *flaky) set(change func(*flaky)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *flaky) Head(ctx context.Context) (script.Revision, error) {
	f.mu.Lock()
	err, rewound := f.headErr, f.rewound
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	head, err := f.Store.Head(ctx)
	return head - rewound, err
}

func (f *flaky) Fleet(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fleetErr != nil {
		return "", f.fleetErr
	}
	fleet, err := f.Store.Fleet(ctx)
	return cmp.Or(f.fleet, fleet), err
}

func (f *flaky) Snapshot(ctx context.Context) (registry.Snapshot, error) {
	f.mu.Lock()
	bad, fleet := f.bad, f.fleet
	f.mu.Unlock()
	s, err := f.Store.Snapshot(ctx)
	s.Fleet = cmp.Or(fleet, s.Fleet)
	releases := s.Releases
	s.Releases = func(yield func(script.Release, error) bool) {
		for r, err := range releases {
			if r.Revision == bad {
				lost := &registry.Unreadable{Key: script.Object{Release: &r}.Key(), Revision: bad, Reason: "it was spoiled"}
				r, err = script.Release{}, script.Errorf(script.Internal, "", "%w", lost)
			}
			if !yield(r, err) {
				return
			}
		}
	}
	return s, err
}

func (f *flaky) Watch(ctx context.Context, after script.Revision) iter.Seq2[registry.Transaction, error] {
	f.mu.Lock()
	cut, silent, bad := f.cut, f.silent, f.bad
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
				if t.Revision == bad {
					yield(registry.Transaction{}, script.Errorf(script.Internal, "", "cannot be decoded"))
					return
				}
				if !yield(t, err) {
					return
				}
			}
		}
		yield(registry.Transaction{}, script.Errorf(script.Unavailable, "", "the watch was cut"))
	}
}

// seen is a Projection that remembers its calls.
type seen struct {
	mu      sync.Mutex
	resets  []registry.State
	applied []script.Revision // by Apply
	pulses  []script.Revision // where it was at each Pulse
}

func (s *seen) Reset(state registry.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resets = append(s.resets, state)
}

func (s *seen) Apply(t registry.Transaction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied = append(s.applied, t.Revision)
}

func (s *seen) Pulse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulses = append(s.pulses, s.at())
}

func (s *seen) at() script.Revision {
	at := s.resets[len(s.resets)-1].Head
	if len(s.applied) > 0 {
		at = max(at, s.applied[len(s.applied)-1])
	}
	return at
}

func (s *seen) now() seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return seen{resets: slices.Clone(s.resets), applied: slices.Clone(s.applied), pulses: slices.Clone(s.pulses)}
}

// plain hides that seen is Pulsed.
type plain struct{ s *seen }

func (p plain) Reset(s registry.State)       { p.s.Reset(s) }
func (p plain) Apply(t registry.Transaction) { p.s.Apply(t) }

func following(t *testing.T, test func(b *bench, store *flaky, s *seen)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, s, second := newBench(t), &seen{}, &seen{}
		store := newFlaky(b.store)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { registry.Follow(ctx, store, slog.New(slog.DiscardHandler), s, plain{second}) })
		defer func() { cancel(); wg.Wait() }()
		synctest.Wait()
		test(b, store, s)
		synctest.Wait()
		one, two := s.now(), second.now()
		if !slices.Equal(one.applied, two.applied) || len(one.resets) != len(two.resets) {
			t.Errorf("two projections got different transactions: %v, %v", one.applied, two.applied)
		}
	})
}

func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestFollowIsExact: whatever becomes of the watch, Follow brings each transaction once
// and in order, and nobody starts from a snapshot again.
func TestFollowIsExact(t *testing.T) {
	following(t, func(b *bench, store *flaky, s *seen) {
		for i := range 6 {
			b.publish(fmt.Sprint("while it watches ", i))
			synctest.Wait()
			store.cutWatches()
			synctest.Wait()
			b.publish(fmt.Sprint("while it does not ", i))
			if i%2 == 0 {
				b.publish(fmt.Sprint("nor now ", i))
			}
			later(time.Minute)
			store.cutWatches() // an outage in which nothing comes
			later(time.Minute)
		}
		got := s.now()
		if len(got.resets) != 1 || len(got.applied) != 15 {
			t.Fatalf("%d resets and %d transactions, want 1 and 15", len(got.resets), len(got.applied))
		}
		for i, revision := range got.applied {
			if revision != script.Revision(i+1) {
				t.Errorf("transaction %d is of revision %d", i+1, revision)
			}
		}
	})
}

// TestFollowStartsFromASnapshot where it has to, and only there.
func TestFollowStartsFromASnapshot(t *testing.T) {
	for name, test := range map[string]func(b *bench, store *flaky){
		"the store has forgotten": func(b *bench, store *flaky) {
			store.cutWatches()
			synctest.Wait()
			b.publish("two")
			b.publish("three")
			b.store.Compact(b.head())
		},
		"a transaction cannot be read": func(b *bench, store *flaky) {
			store.set(func(f *flaky) { f.bad = 2 })
			store.cutWatches()
			synctest.Wait()
			b.publish("two, which cannot be read")
			b.publish("three")
		},
		"the store is behind what it had": func(b *bench, store *flaky) {
			b.publish("two")
			b.publish("three")
			synctest.Wait()
			store.set(func(f *flaky) { f.rewound = 1 })
			later(2 * time.Second)
			store.set(func(f *flaky) { f.rewound = 0 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			following(t, func(b *bench, store *flaky, s *seen) {
				b.publish("one")
				synctest.Wait()
				test(b, store)
				later(time.Minute)
				resets := s.now().resets
				if last := resets[len(resets)-1]; len(resets) < 2 || last.Head != 3 || last.Heads["acme"] != 3 {
					t.Errorf("%d resets, the last at %d; want another one, at revision 3", len(resets), last.Head)
				}
				last := b.publish("four").Release.Revision
				synctest.Wait()
				if got := s.now(); got.applied[len(got.applied)-1] != last || len(got.resets) != len(resets) {
					t.Errorf("applied %v after %d resets, want %d last and no more resets", got.applied, len(got.resets), last)
				}
			})
		})
	}
}

// TestFollowsOneFleet: what a store of another fleet has changes nothing, and there is no
// pulse; when the fleet is back, everything goes on where it was.
func TestFollowsOneFleet(t *testing.T) {
	for name, test := range map[string]struct{ lose, restore func(*flaky) }{
		"another fleet": {func(f *flaky) { f.fleet = "another" }, func(f *flaky) { f.fleet = "" }},
		"no fleet":      {func(f *flaky) { f.fleetErr = registry.ErrNoFleet }, func(f *flaky) { f.fleetErr = nil }},
		"another fleet, and behind": {
			func(f *flaky) { f.fleet, f.rewound = "another", 1 },
			func(f *flaky) { f.fleet, f.rewound = "", 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			following(t, func(b *bench, store *flaky, s *seen) {
				first := b.publish("one").Release.Revision
				later(time.Minute)
				store.set(test.lose)
				later(2 * registry.PulseInterval)
				before := s.now()
				store.cutWatches()
				synctest.Wait()
				b.publish("two")
				later(time.Minute)
				got := s.now()
				if len(got.resets) != 1 || !slices.Equal(got.applied, []script.Revision{first}) || len(got.pulses) != len(before.pulses) {
					t.Errorf("%d resets, applied %v, %d pulses; want 1, revision %d and the %d pulses from before",
						len(got.resets), got.applied, len(got.pulses), first, len(before.pulses))
				}
				store.set(test.restore)
				later(time.Minute)
				if got := s.now(); len(got.resets) != 1 || len(got.applied) != 2 || len(got.pulses) == len(before.pulses) {
					t.Errorf("after the fleet is back: %d resets, applied %v, %d pulses", len(got.resets), got.applied, len(got.pulses))
				}
			})
		})
	}
}

// TestFollowLeavesOutWhatCannotBeRead: one bad record does not stop the rest for ever.
func TestFollowLeavesOutWhatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBench(t), &seen{}
		b.publish("bad")
		other := write(script.Name{Tenant: "acme", Script: "other"})
		if _, err := b.Publish(t.Context(), registry.PublishRequest{Write: other, Source: []byte("good"), Entrypoint: "handle"}); err != nil {
			t.Fatal(err)
		}
		store := newFlaky(b.store)
		store.set(func(f *flaky) { f.bad = 1 })
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { registry.Follow(ctx, store, slog.New(slog.DiscardHandler), s) })
		defer func() { cancel(); wg.Wait() }()
		synctest.Wait()
		if got := s.now(); len(got.resets) != 1 || len(got.resets[0].Releases) != 1 || got.resets[0].Head != 2 {
			t.Errorf("resets: %+v; want the good release alone", got.resets)
		} else if lost := got.resets[0].Unreadable; len(lost) != 1 || lost[0].Key != "releases/acme/route" || lost[0].Revision != 1 {
			t.Errorf("what cannot be read is named as %+v", lost)
		}
	})
}

func TestPulses(t *testing.T) {
	following(t, func(b *bench, store *flaky, s *seen) {
		if got := s.now(); len(got.pulses) != 1 {
			t.Errorf("%d pulses at the start, want one at once", len(got.pulses))
		}
		b.publish("one")
		later(5*registry.PulseInterval + time.Millisecond)
		if got := s.now(); len(got.pulses) != 6 || got.pulses[5] != 1 {
			t.Errorf("pulses at %v; want 6, the last at 1", got.pulses)
		}
		// While transactions are on their way it is not up to date; once they came it is.
		store.set(func(f *flaky) { f.silent = true })
		store.cutWatches()
		later(registry.PulseInterval)
		before := len(s.now().pulses)
		b.publish("two")
		later(2 * registry.PulseInterval)
		if got := s.now(); len(got.pulses) > before+1 {
			t.Errorf("pulses at %v although revision 2 has not come", got.pulses)
		}
		store.set(func(f *flaky) { f.silent = false })
		later(5 * registry.PulseInterval) // the watch that fell behind is found out
		got := s.now()
		if !slices.Equal(got.applied, []script.Revision{1, 2}) || len(got.pulses) <= before || got.pulses[len(got.pulses)-1] != 2 {
			t.Errorf("applied %v, pulses at %v; want the watch to be made afresh", got.applied, got.pulses)
		}
		// And nobody guesses while the store does not answer.
		store.set(func(f *flaky) { f.headErr = errors.New("no answer") })
		later(2 * registry.PulseInterval)
		before = len(s.now().pulses)
		later(time.Minute)
		if got := s.now(); len(got.pulses) != before {
			t.Errorf("%d pulses while the store does not answer", len(got.pulses)-before)
		}
	})
}

// TestFollowComesBackAtOnce: outages of long ago do not slow the next return.
func TestFollowComesBackAtOnce(t *testing.T) {
	following(t, func(b *bench, store *flaky, s *seen) {
		for i := range 20 {
			store.cutWatches()
			synctest.Wait()
			b.publish(fmt.Sprint(i))
			later(time.Second / 2)
			if got := s.now(); len(got.applied) != i+1 {
				t.Fatalf("half a second after outage %d it does not follow, although nothing else is wrong", i)
			}
			later(time.Minute)
		}
	})
}
