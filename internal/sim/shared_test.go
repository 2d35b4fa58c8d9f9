package sim

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// signal tells any number of those who wait that something changed.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// groupTable is what the store keeps of groups.
type groupTable struct {
	changed signal
	mu      sync.Mutex
	groups  map[string]script.Selector
}

func (g *groupTable) put(tenants script.Selector, limit int) error {
	defer g.changed.tell()
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.groups[tenants.Group()]; !known && len(g.groups) >= limit {
		return script.Errorf(script.Limit, "tenants", "there are %d groups already", limit)
	}
	g.groups[tenants.Group()] = tenants
	return nil
}

func (g *groupTable) all() []script.Selector {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]script.Selector, 0, len(g.groups))
	for _, name := range slices.Sorted(maps.Keys(g.groups)) {
		all = append(all, g.groups[name])
	}
	return all
}

// forget drops a group, as one is that nobody has followed for an hour.
func (g *groupTable) forget(tenants script.Selector) {
	defer g.changed.tell()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, tenants.Group())
}

var (
	_ feed.GroupStore = (*storeLink)(nil)
	_ fleet.Memory    = (*storeLink)(nil)
)

// PutGroup implements feed.GroupStore.
func (l *storeLink) PutGroup(ctx context.Context, tenants script.Selector, limit int) error {
	lost, err := l.pass(ctx)
	if err != nil {
		return err
	}
	err = l.groups.put(tenants, limit)
	if lost {
		return errNoStore
	}
	return err
}

// DeleteGroup implements feed.GroupStore.
func (l *storeLink) DeleteGroup(ctx context.Context, tenants script.Selector) error {
	if _, err := l.pass(ctx); err != nil {
		return err
	}
	l.groups.forget(tenants)
	return nil
}

// WatchGroups implements feed.GroupStore.
func (l *storeLink) WatchGroups(ctx context.Context) iter.Seq2[[]script.Selector, error] {
	return func(yield func([]script.Selector, error) bool) {
		for {
			changed := l.groups.changed.wait()
			_, err := l.pass(ctx)
			if !yield(l.groups.all(), err) || err != nil {
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

// memoTable is what the store keeps of the fleet.
type memoTable struct {
	changed signal
	mu      sync.Mutex
	memos   []fleet.Memo // all that ever were, in order
}

// Remember implements fleet.Memory.
func (l *storeLink) Remember(ctx context.Context, memos []fleet.Memo) error {
	if _, err := l.pass(ctx); err != nil {
		return err
	}
	l.memos.mu.Lock()
	l.memos.memos = append(l.memos.memos, memos...)
	l.memos.mu.Unlock()
	l.memos.changed.tell()
	return nil
}

// Recall implements fleet.Memory.
func (l *storeLink) Recall(ctx context.Context) iter.Seq2[fleet.Memo, error] {
	return func(yield func(fleet.Memo, error) bool) {
		from, complete := 0, false
		for {
			changed := l.memos.changed.wait()
			if _, err := l.pass(ctx); err != nil {
				yield(fleet.Memo{}, err)
				return
			}
			for _, memo := range l.memos.since(from, complete) {
				if !yield(memo, nil) {
					return
				}
			}
			from = l.memos.length()
			if !complete && !yield(fleet.Memo{Complete: true}, nil) {
				return
			}
			complete = true
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (m *memoTable) length() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.memos)
}

// since returns the memos from the position on; of the first ones only the last of
// each kind, and none that are gone, unless all changes are asked for.
func (m *memoTable) since(from int, all bool) []fleet.Memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := slices.Clone(m.memos[from:])
	if all {
		return news
	}
	type key struct {
		agent string
		name  script.Name
	}
	last := map[key]int{}
	for i, memo := range news {
		last[key{memo.Agent, memo.Script}] = i
	}
	var kept []fleet.Memo
	for i, memo := range news {
		if last[key{memo.Agent, memo.Script}] == i && !memo.Gone {
			kept = append(kept, memo)
		}
	}
	return kept
}
