package fleet_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestGathers: the first agents that are heard are not the fleet, neither after
// the start nor after they were out of reach.
func TestGathers(t *testing.T) {
	b := &bench{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.Fleet = fleet.New(fleet.Config{
		Clock:  func() time.Time { return b.now },
		Settle: 2 * time.Second,
		Converged: func(name script.Name, took time.Duration) {
			b.converged = append(b.converged, fmt.Sprint(name, " ", took))
		},
	})
	b.reset(fleetID, 10, b.release(route, 10))
	b.hear("a", 10)
	b.pass(time.Hour)
	b.hear("a", 10)
	b.want("1/0/0 of 1", false, "") // nobody was asked
	for range 2 {
		next := b.route().Release.Revision + 1
		b.commit(route, next)
		b.RollCalled()
		b.pass(time.Millisecond)
		b.hear("a", next)
		b.pass(2*time.Second - 2*time.Millisecond)
		b.Sweep()
		b.want("1/0/0 of "+fmt.Sprint(len(b.agents())), false, map[bool]string{true: "late"}[next > 11])
		b.hear("late", next-1)
		b.pass(time.Millisecond)
		b.want("1/0/0 of 2", false, "late")
		b.hear("late", next)
		b.want("2/0/0 of 2", next > 11, map[bool]string{true: "late"}[next > 11]) // others may come as late as the first time
		b.pass(2 * time.Second)
		b.want("2/0/0 of 2", true, "late")
		if len(b.converged) != int(next)-10 {
			t.Errorf("converged: %v", b.converged)
		}
	}
}

// TestGathersAgentsThatBackOff: after an outage, agents come back one after the other. The
// first ones are not the fleet, and an agent that is lost holds up nobody for long.
func TestGathersAgentsThatBackOff(t *testing.T) {
	b := newBench(t)
	names := []string{"a", "b", "c", "lost"}
	for _, name := range names {
		b.hear(name, 10)
	}
	b.pass(time.Minute)
	b.Sweep()
	b.commit(route, 11)
	b.RollCalled()
	b.pass(300 * time.Millisecond)
	b.hear("a", 11)
	b.pass(1500 * time.Millisecond)
	b.Sweep()
	b.want("1/0/3 of 4", false, "")
	b.hear("b", 11)
	b.pass(1200 * time.Millisecond)
	b.Sweep()
	b.want("2/0/2 of 4", false, "")
	b.hear("c", 11)
	b.pass(4900 * time.Millisecond)
	b.Sweep()
	b.want("3/0/1 of 4", false, "")
	b.pass(100 * time.Millisecond)
	b.Sweep()
	b.want("3/0/1 of 4", true, "c")
}

// TestGatheringEndsByItself: a watch brings a new status when the agents had their time.
func TestGatheringEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(fleet.Config{})
		f.Reset(registry.State{Fleet: fleetID})
		f.Apply(registry.Transaction{Revision: 1, Releases: []script.Release{{Name: route, Revision: 1, ChangedAt: time.Now()}}})
		f.RollCalled()
		f.Heard(fleet.Report{Fleet: fleetID, Agent: "a", Incarnation: "1", Sequence: 1, Activated: 1})
		ctx, cancel := context.WithCancel(t.Context())
		var sweeping sync.WaitGroup
		sweeping.Go(func() {
			for ctx.Err() == nil {
				f.Sweep()
				<-time.After(100 * time.Millisecond)
			}
		})
		defer func() { cancel(); sweeping.Wait() }()
		var seen []bool
		for s := range f.Watch(ctx, fleet.Filter{}) {
			seen = append(seen, s.Scripts[0].Converged)
			if s.Scripts[0].Converged {
				if r := s.Scripts[0].Rollout; r == nil || r.Slowest != 0 {
					t.Errorf("rollout %+v; the time to gather is not the release's", r)
				}
				break
			}
		}
		if len(seen) != 2 || seen[0] || !seen[1] {
			t.Errorf("converged: %v; want false, then true", seen)
		}
	})
}
