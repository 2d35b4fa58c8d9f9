package follow_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/script"
)

// wantUntouched checks that everything is live as it was, and that the follower says which
// fleet the registry serves.
func wantUntouched(t *testing.T, n *node, f *follow.Follower, at follow.Cursor, live map[string]script.Object) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cursor != at || !maps.Equal(n.live, live) {
		t.Errorf("at %v with %d objects, want %v with %d", n.cursor, len(n.live), at, len(live))
	}
	if n.status.GetFleet() != at.Fleet {
		t.Errorf("it reports for fleet %q, want %q", n.status.GetFleet(), at.Fleet)
	}
	want := "the registry serves fleet fleet-2; this agent belongs to fleet " + at.Fleet + ": run agentd --adopt-fleet fleet-2 to change it"
	if got := f.Held(); got != want {
		t.Errorf("Held: %q, want %q", got, want)
	}
}

// with does what needs w's lock.
func (w *world) with(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (n *node) snapshot() (follow.Cursor, map[string]script.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cursor, maps.Clone(n.live)
}

// TestAnotherFleetChangesNothing: the registry of another fleet, empty or not, takes nothing
// away and brings nothing, in whatever way it speaks, also after a restart.
func TestAnotherFleetChangesNothing(t *testing.T) {
	for name, then := range map[string]func(w *world){
		"empty":            func(*world) {},
		"with few objects": func(w *world) { w.commit(map[string]string{"s1": "new", "t": "new"}) },
		"far ahead": func(w *world) {
			w.with(func() { w.head = 10_000 })
			w.commit(map[string]string{"s1": "new"})
		},
		"of the protocol 1": func(w *world) {
			w.with(func() { w.old = true })
			w.commit(map[string]string{"s1": "new"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1).unsigned()
				ctx, cancel := context.WithCancel(t.Context())
				go w.beacons(ctx)
				n := newNode(w, "n")
				f, stop := n.run(ctx, 1)
				for i := range 20 {
					w.commit(map[string]string{fmt.Sprint("s", i): "old"})
				}
				w.commit(all("old"))
				pass(time.Second)
				n.expect("before")
				if f.Held() != "" {
					t.Errorf("Held: %q", f.Held())
				}
				at, live := n.snapshot()
				w.rebuild()
				then(w)
				pass(10 * time.Second)
				wantUntouched(t, n, f, at, live)
				if got := n.refused("other_fleet"); got == 0 {
					t.Error("nothing is counted as of another fleet")
				}
				if _, staleness := f.Position(time.Now()); staleness < 5*time.Second {
					t.Errorf("it claims to be current as of %v ago", staleness)
				}
				stop()
				f, stop = n.run(ctx, 2)
				pass(10 * time.Second)
				wantUntouched(t, n, f, at, live)
				stop()
				cancel()
				synctest.Wait()
			})
		})
	}
}

// TestTheFleetIsBack: an agent goes on where it was once the registry serves its fleet again.
func TestTheFleetIsBack(t *testing.T) {
	simulate(t, func(w *world, n *node, f *follow.Follower) {
		w.commit(map[string]string{"a": "one", "b": "one"})
		pass(time.Second)
		w.with(func() { w.fleet = "fleet-2" })
		pass(10 * time.Second)
		if !strings.Contains(f.Held(), "fleet-2") {
			t.Errorf("Held: %q", f.Held())
		}
		w.with(func() { w.fleet = "fleet-1" })
		w.commit(map[string]string{"a": "two"})
		pass(10 * time.Second)
		n.expect("with its own registry again")
		if f.Held() != "" {
			t.Errorf("Held: %q", f.Held())
		}
	})
}

// TestAdoptsWhenItIsServed: an agent that may change its fleet keeps its own until the
// registry serves the other one, and swaps everything when all of that is there.
func TestAdoptsWhenItIsServed(t *testing.T) {
	simulateIn(t, adopting, func(w *world, n *node, f *follow.Follower) {
		w.commit(map[string]string{"a": "one", "b": "one"})
		pass(10 * time.Second)
		n.expect("in its own fleet")
		w.rebuild()
		w.commit(map[string]string{"b": "new"})
		w.set(faults{cut: 1})
		at, live := n.snapshot()
		pass(10 * time.Second)
		n.mu.Lock()
		if n.cursor != at || !maps.Equal(n.live, live) {
			t.Errorf("at %v, of which half of a snapshot came", n.cursor)
		}
		n.mu.Unlock()
		w.set(faults{})
		pass(10 * time.Second)
		n.expect("in the other fleet")
		if f.Held() != "" || n.Cursor().Fleet != "fleet-2" {
			t.Errorf("Held: %q, cursor %v", f.Held(), n.Cursor())
		}
	})
}

// TestNoFleetTakesTheFirst: also an agent that may change to another.
func TestNoFleetTakesTheFirst(t *testing.T) {
	for _, adopt := range []string{"", "fleet-3"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.adopt = adopt
			w.commit(map[string]string{"a": "one"})
			n := newNode(w, "n")
			_, stop := n.run(t.Context(), 1)
			pass(3 * time.Second)
			n.expect("at the first start")
			stop()
		})
	}
}
