package feed_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/script"
)

// groupStore is a feed.GroupStore in memory.
type groupStore struct {
	mu      sync.Mutex
	groups  map[string]script.Selector
	puts    int
	changed chan struct{}
	broken  bool // the watch ends with an error at the next change
}

func newGroupStore() *groupStore {
	return &groupStore{groups: map[string]script.Selector{}, changed: make(chan struct{})}
}

// change changes the groups and tells those who watch.
func (s *groupStore) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *groupStore) PutGroup(_ context.Context, tenants script.Selector, limit int) (err error) {
	s.change(func() {
		if s.puts++; len(s.groups) >= limit {
			err = script.Errorf(script.Limit, "tenants", "too many")
			return
		}
		s.groups[tenants.Group()] = tenants
	})
	return err
}

func (s *groupStore) DeleteGroup(_ context.Context, tenants script.Selector) error {
	s.change(func() { delete(s.groups, tenants.Group()) })
	return nil
}

func (s *groupStore) WatchGroups(ctx context.Context) iter.Seq2[[]script.Selector, error] {
	return func(yield func([]script.Selector, error) bool) {
		for {
			s.mu.Lock()
			all, changed, broken := slices.Collect(maps.Values(s.groups)), s.changed, s.broken
			s.broken = false
			s.mu.Unlock()
			if broken {
				yield(nil, script.Errorf(script.Unavailable, "", "no etcd"))
				return
			}
			if !yield(all, nil) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (s *groupStore) count() (groups, puts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.groups), s.puts
}

func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store := newBench(t), newGroupStore()
		defer b.stop()
		b.Lead(1)
		g := feed.NewGroups(store, b.Feed, nil, quiet())
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { g.Run(ctx) })
		defer running.Wait()
		defer cancel()
		follow := func(tenants script.Selector) {
			t.Helper()
			if err := g.Follow(t.Context(), access.Everybody("unix"), tenants); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		shops, zoo := selector(t, "shop-*"), selector(t, "zoo")
		for range 3 {
			follow(shops)
			follow(script.Selector{})
		}
		follow(zoo)
		if groups, puts := store.count(); groups != 2 || puts != 2 {
			t.Errorf("%d groups after %d puts, want 2 after 2", groups, puts)
		}
		b.publish("shop-a", "route", "1")
		synctest.Wait()
		if got := b.of(shops.Group()); len(got) != 1 {
			t.Errorf("%d events of the group, want 1", len(got))
		}

		// What nobody follows goes after an hour; what is followed stays.
		for range 7 {
			later(10 * time.Minute)
			g.Sweep(t.Context(), []script.Selector{{}, zoo})
		}
		synctest.Wait()
		if groups, _ := store.count(); groups != 1 || b.Stats().Groups != 2 {
			t.Errorf("%d groups, the feed serves %d; want 1, and 2", groups, b.Stats().Groups)
		}
		follow(shops)
		if b.Stats().Groups != 3 {
			t.Error("a group did not come back")
		}

		// A watch that breaks is made again, and what it missed is found.
		store.change(func() { store.broken = true })
		store.change(func() { delete(store.groups, zoo.Group()) })
		later(time.Minute)
		synctest.Wait()
		if b.Stats().Groups != 2 {
			t.Errorf("the feed serves %d groups after an outage, want 2", b.Stats().Groups)
		}
		for i := range feed.MaxGroups - 1 {
			follow(selector(t, fmt.Sprint("tenant-", i)))
		}
		if err := g.Follow(t.Context(), access.Everybody("unix"), zoo); script.KindOf(err) != script.Limit {
			t.Errorf("one group too many: %v, want LIMIT", err)
		}
		if b.Stats().Groups != feed.MaxGroups+1 {
			t.Errorf("the feed serves %d groups, want %d", b.Stats().Groups, feed.MaxGroups+1)
		}
		// The store is not asked by each of many that poll, and again in a while.
		_, before := store.count()
		for range 100 {
			_ = g.Follow(t.Context(), access.Everybody("unix"), zoo) // is refused
		}
		if _, puts := store.count(); puts != before {
			t.Errorf("the store was asked %d times for room", puts-before)
		}
		store.change(func() { delete(store.groups, shops.Group()) })
		later(11 * time.Second)
		follow(zoo)
		if groups, _ := store.count(); groups != feed.MaxGroups {
			t.Errorf("%d groups, want one more when there is room", groups)
		}
	})
}

// TestOneIdentityLeavesRoom for the groups of others.
func TestOneIdentityLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store := newBench(t), newGroupStore()
		defer b.stop()
		g := feed.NewGroups(store, b.Feed, nil, quiet())
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { g.Run(ctx) })
		defer running.Wait()
		defer cancel()
		teamed := func(name string) access.Identity {
			return access.Identity{Name: name + "(" + rand.Text() + ")", Subject: name, Grants: []access.Grant{{Roles: []access.Role{access.Read}, Tenants: selector(t, "team-*")}}}
		}
		greedy := 0
		for i := range 300 {
			if err := g.Follow(t.Context(), teamed("greedy"), selector(t, fmt.Sprintf("team-%d*", i))); err == nil {
				greedy++
			} else if script.KindOf(err) != script.Limit {
				t.Error(err)
			}
		}
		if groups, _ := store.count(); groups != greedy || greedy != 64 {
			t.Errorf("one identity has %d groups, and Follow accepted %d; want 64", groups, greedy)
		}
		synctest.Wait()
		for _, tenants := range []script.Selector{selector(t, "team-3*"), {}} {
			if err := g.Follow(t.Context(), teamed("greedy"), tenants); err != nil {
				t.Errorf("%v, which is there: %v", tenants, err)
			}
		}
		if err := g.Follow(t.Context(), teamed("modest"), selector(t, "team-x")); err != nil {
			t.Errorf("another identity: %v", err)
		}
		synctest.Wait()

		// When its groups are gone there is room again.
		for range 7 {
			later(10 * time.Minute)
			g.Sweep(t.Context(), nil)
		}
		synctest.Wait()
		if err := g.Follow(t.Context(), teamed("greedy"), selector(t, "team-y")); err != nil {
			t.Errorf("with none left: %v", err)
		}
	})
}
