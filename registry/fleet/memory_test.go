package fleet_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// sharedMemory is a fleet.Memory of any number of fleets in this process.
type sharedMemory struct {
	mu       sync.Mutex
	agents   map[string]fleet.Memo
	rollouts map[script.Name]fleet.Memo
	watchers map[chan fleet.Memo]bool
	writes   int
	largest  int
	broken   bool // nothing can be stored
}

var errBroken = errors.New("the memory is broken")

func newSharedMemory() *sharedMemory {
	return &sharedMemory{agents: map[string]fleet.Memo{}, rollouts: map[script.Name]fleet.Memo{}, watchers: map[chan fleet.Memo]bool{}}
}

func (m *sharedMemory) Remember(_ context.Context, memos []fleet.Memo) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken {
		return errBroken
	}
	m.writes++
	m.largest = max(m.largest, len(memos))
	for _, memo := range memos {
		switch {
		case memo.Agent != "" && memo.Gone:
			delete(m.agents, memo.Agent)
		case memo.Agent != "":
			m.agents[memo.Agent] = memo
		case memo.Gone:
			delete(m.rollouts, memo.Script)
		default:
			m.rollouts[memo.Script] = memo
		}
		for w := range m.watchers {
			w <- memo
		}
	}
	return nil
}

func (m *sharedMemory) Recall(ctx context.Context) iter.Seq2[fleet.Memo, error] {
	return func(yield func(fleet.Memo, error) bool) {
		m.mu.Lock()
		all := append(slices.Collect(maps.Values(m.agents)), slices.Collect(maps.Values(m.rollouts))...)
		changes := make(chan fleet.Memo, 100_000)
		m.watchers[changes] = true
		m.mu.Unlock()
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.watchers, changes)
		}()
		for _, memo := range append(all, fleet.Memo{Complete: true}) {
			if !yield(memo, nil) {
				return
			}
		}
		for {
			select {
			case memo := <-changes:
				if !yield(memo, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// set changes the memory.
func (m *sharedMemory) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}
