package fleet_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// sharedMemory is a fleet.Memory of any number of fleets in this process.
type sharedMemory struct {
	mu       sync.Mutex
	agents   map[string]fleet.Memo
	rollouts map[script.Name]fleet.Memo
	gates    map[script.Name]fleet.Memo
	watchers map[chan fleet.Memo]bool
	writes   int
	largest  int
	broken   bool // nothing can be stored
}

var errBroken = errors.New("the memory is broken")

func newSharedMemory() *sharedMemory {
	return &sharedMemory{agents: map[string]fleet.Memo{}, rollouts: map[script.Name]fleet.Memo{}, gates: map[script.Name]fleet.Memo{}, watchers: map[chan fleet.Memo]bool{}}
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
		case memo.Gate != nil && memo.Gone:
			delete(m.gates, memo.Script)
		case memo.Gate != nil:
			m.gates[memo.Script] = memo
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
		all = append(all, slices.Collect(maps.Values(m.gates))...)
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

// TestMemoryOfAnotherFleet: a registry of an earlier edition could leave what it knew of agents in
// the store of the fleet that came after its own. That hides no agent, and goes.
func TestMemoryOfAnotherFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newSharedMemory()
		for _, agent := range []string{"a", "b"} {
			m.agents[agent] = fleet.Memo{Agent: agent, Report: fleet.Report{Fleet: "lost", Agent: agent, Incarnation: agent + "-1", Session: 9000}}
		}
		f := fleet.New(fleet.Config{})
		f.Reset(registry.State{Fleet: fleetID, Head: 1})
		ctx, cancel := context.WithCancel(t.Context())
		var keeping sync.WaitGroup
		keeping.Go(func() { f.Keep(ctx, m, func() bool { return true }, slog.New(slog.DiscardHandler)) })
		defer func() { cancel(); keeping.Wait() }()
		<-f.Recalled()
		f.Heard(fleet.Report{Fleet: fleetID, Agent: "a", Incarnation: "a-1", Session: 100, Sequence: 1, Activated: 1})
		pass(time.Minute)
		f.Heard(fleet.Report{Fleet: fleetID, Agent: "a", Incarnation: "a-1", Session: 100, Sequence: 2, Activated: 1})
		if got := f.Agents(fleet.AgentFilter{}).Agents; len(got) != 1 || got[0].Name != "a" || got[0].Unknown {
			t.Errorf("the agents are %+v, want a alone, connected", got)
		}
		m.set(func() {
			if got := m.agents["a"]; len(m.agents) != 1 || got.Report.Fleet != fleetID {
				t.Errorf("the memory has %+v, want a of this fleet alone", m.agents)
			}
		})
	})
}
