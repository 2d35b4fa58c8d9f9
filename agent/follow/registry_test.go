package follow_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The revisions of a fleet that was built anew start low. A release of the fleet
// before must not outlive its successors for its higher revision.
func TestAReleaseOfAnotherFleetIsGoneEvenIfItsSuccessorIsBad(t *testing.T) {
	const key = "releases/acme/a"
	for _, knows := range []bool{true, false} {
		t.Run(fmt.Sprint("cursor known: ", knows), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.adopt = "fleet-2"
				ctx, cancel := context.WithCancel(t.Context())
				go w.beacons(ctx)
				n := newNode(w, "n")
				_, stop := n.run(ctx, 1)
				w.mu.Lock()
				w.head = 400
				w.mu.Unlock()
				w.commit(map[string]string{"a": "old", "b": "old"})
				pass(3 * time.Second)
				n.expect("in the fleet before")
				stop()
				if !knows {
					n.cursor = follow.Cursor{}
				}
				w.rebuild()
				w.commit(map[string]string{"a": "bad release"})
				w.commit(map[string]string{"b": "new"})
				_, stop = n.run(ctx, 2)
				pass(3 * time.Second)
				n.expect("with a bad first release")
				if got := n.Revision(key); got != 0 {
					t.Errorf("the release of the fleet before is live at %d", got)
				}
				stop()
				_, stop = n.run(ctx, 3) // which knows nothing of what failed
				pass(3 * time.Second)
				n.expect("after a restart")
				w.commit(map[string]string{"a": "good"})
				pass(3 * time.Second)
				n.expect("with a good one")
				stop()
				cancel()
				synctest.Wait()
			})
		})
	}
}

// What a cursor that was lost leaves live is most likely of the same fleet.
func TestALostCursorTakesNothingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := newNode(w, "n")
		_, stop := n.run(t.Context(), 1)
		first := w.commit(map[string]string{"a": "good"})
		pass(time.Second)
		stop()
		n.cursor = follow.Cursor{}
		w.commit(map[string]string{"a": "bad"})
		_, stop = n.run(t.Context(), 2)
		pass(3 * time.Second)
		n.expect("with a bad release")
		if got := n.Revision("releases/acme/a"); got != first {
			t.Errorf("at %d, where %d was live", got, first)
		}
		stop()
	})
}

func TestASnapshotHoldsABoundOfSourcesInMemory(t *testing.T) {
	const each, count, bound = 600 << 10, 120, 32 << 20
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1).unsigned()
		for i := range count {
			w.commit(map[string]string{fmt.Sprint("s", i): fmt.Sprintf("%0*d", each, i)})
		}
		n := newNode(w, "n")
		// Live releases and no cursor: all sources are fetched.
		gone := script.Name{Tenant: "acme", Script: "gone"}
		n.live["releases/acme/gone"] = script.Object{Release: &script.Release{Name: gone, Revision: 1, Active: script.Version{Digest: script.DigestOf([]byte("gone"))}}}
		n.sources[script.DigestOf([]byte("gone"))] = []byte("gone")
		_, stop := n.run(t.Context(), 1)
		pass(3 * time.Second)
		n.expect("after a large snapshot")
		if n.held > bound || n.held == 0 {
			t.Errorf("%d bytes of sources were held at once, of %d in all", n.held, each*count)
		}
		stop()
	})
}

// A registry that takes calls and never answers must not keep what NATS brings.
func TestEventsGoOnWhileTheRegistryHangs(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.set(faults{hang: true})
		w.mu.Lock()
		w.large = true
		w.mu.Unlock()
		w.commit(map[string]string{"large": "to be fetched"})
		pass(100 * time.Millisecond) // the fetch hangs now
		w.mu.Lock()
		w.large = false
		w.inline = true
		w.mu.Unlock()
		for i := range 5 {
			at := w.commit(map[string]string{"small": fmt.Sprint("comes along ", i)})
			pass(4 * time.Second)
			if n.Revision("releases/acme/small") != at {
				t.Errorf("event %d waits for the registry", i)
			}
		}
		if fs := n.status.GetFailures(); len(fs) != 1 || fs[0].GetKey() != "releases/acme/large" || fs[0].GetError().GetKind() != "UNAVAILABLE" {
			t.Errorf("failures %v", fs)
		}
		w.set(faults{})
		pass(6 * time.Second)
		n.expect("with the registry back")
	})
}
