package follow_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
)

const removalScripts = 30

// scripts returns changes of so many scripts, s0 and on.
func scripts(n int, text string) map[string]string {
	changes := map[string]string{}
	for i := range n {
		changes[fmt.Sprint("s", i)] = text
	}
	return changes
}

// forget loses the records of the first n scripts: there are no tombstones.
func (w *world) forget(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range scripts(n, "") {
		delete(w.now, keyFor(name))
		delete(w.changed, keyFor(name))
	}
}

// accept accepts the loss of so many objects.
func (w *world) accept(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head++
	w.accepted, w.at = n, w.head
}

func removing(t *testing.T, do func(w *world, n *node, f *follow.Follower)) {
	t.Helper()
	simulate(t, func(w *world, n *node, f *follow.Follower) {
		w.commit(scripts(removalScripts, "old"))
		pass(2 * time.Second)
		n.expect("before")
		do(w, n, f)
	})
}

func wantHeld(t *testing.T, n *node, f *follow.Follower, live int, held string) {
	t.Helper()
	if _, now := n.snapshot(); len(now) != live {
		t.Errorf("%d scripts are live, want %d", len(now), live)
	}
	if got := n.metric("scriptorium_agent_held", "") == 1; got != (held != "") {
		t.Errorf("the metric of what is held: %v", got)
	}
	if got := f.Held(); !strings.Contains(got, held) || held == "" && got != "" {
		t.Errorf("Held: %q, want %q", got, held)
	}
}

// TestLostRecordsRemoveNothing: a registry that lost most of its records takes nothing away,
// while what else it says goes live, until an administrator accepts the loss.
func TestLostRecordsRemoveNothing(t *testing.T) {
	const refusal = "would remove 20 of 31 live releases, and has a record of 0 removals: restore what it lost; if the loss is meant, run scriptctl doctor --accept-loss 20"
	removing(t, func(w *world, n *node, f *follow.Follower) {
		w.forget(20)
		pass(twoBeacons)
		wantHeld(t, n, f, removalScripts, "would remove 20 of 30 live releases")
		w.commit(map[string]string{"new": "new"})
		pass(2 * time.Minute)
		wantHeld(t, n, f, removalScripts+1, refusal)
		n.mu.Lock()
		if got := n.status.GetHeld(); !strings.Contains(got, refusal) {
			t.Errorf("the status says that it is held by %q", got)
		}
		n.mu.Unlock()
		w.accept(19)
		pass(2 * time.Minute)
		wantHeld(t, n, f, removalScripts+1, refusal)
		w.accept(20)
		w.commit(map[string]string{"new": "newer"}) // an event before the next answer
		pass(2 * time.Minute)
		wantHeld(t, n, f, removalScripts+1-20, "")
		n.expect("after the loss was accepted")
		w.commit(scripts(removalScripts, "again"))
		pass(2 * time.Second)
		w.forget(20) // what was accepted once is not accepted again
		pass(2 * time.Minute)
		wantHeld(t, n, f, removalScripts+1, "would remove 20 of 31 live releases")
	})
}

// TestHeldAgentsAskForLittle: an agent that holds removals back for hours seldom asks for
// everything, and still notices soon that the loss was accepted.
func TestHeldAgentsAskForLittle(t *testing.T) {
	removing(t, func(w *world, n *node, f *follow.Follower) {
		w.forget(20)
		pass(time.Minute)
		_, before := w.counts()
		pass(3 * time.Hour)
		wantHeld(t, n, f, removalScripts, "would remove 20 of 30 live releases")
		if _, after := w.counts(); after-before > 3*8 {
			t.Errorf("%d full answers in three hours", after-before)
		}
		w.accept(1) // too few
		pass(2 * time.Minute)
		_, before = w.counts()
		pass(time.Hour)
		if _, after := w.counts(); after-before > 8 {
			t.Errorf("%d full answers in the hour after too little was accepted", after-before)
		}
		w.accept(20)
		pass(10 * time.Second) // a beacon, and the jitter
		wantHeld(t, n, f, removalScripts-20, "")
	})
}

// TestMeantRemovals: what the registry has a record of is removed, however much it is, by
// events, in an answer after an outage, and by a full snapshot.
func TestMeantRemovals(t *testing.T) {
	for name, prepare := range map[string]func(w *world){
		"events":        func(*world) {},
		"an answer":     func(w *world) { w.set(faults{silent: true}) },
		"full snapshot": func(w *world) { w.set(faults{silent: true, floor: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			removing(t, func(w *world, n *node, f *follow.Follower) {
				prepare(w)
				w.commit(scripts(removalScripts, ""))
				pass(10 * time.Second)
				wantHeld(t, n, f, 0, "")
			})
		})
	}
}

// TestUnrecordedTombstones: tombstones that no registry counted remove nothing.
func TestUnrecordedTombstones(t *testing.T) {
	removing(t, func(w *world, n *node, f *follow.Follower) {
		n.keeps()
		w.with(func() { w.made = -removalScripts })
		w.commit(scripts(removalScripts, ""))
		pass(10 * time.Second)
		wantHeld(t, n, f, removalScripts, "would remove 30 of 30 live releases")
	})
}

// TestFewLostRecords: as many as are lost by chance are removed.
func TestFewLostRecords(t *testing.T) {
	removing(t, func(w *world, n *node, f *follow.Follower) {
		w.forget(10)
		pass(10 * time.Second)
		wantHeld(t, n, f, removalScripts-10, "")
	})
}

// TestHeldAfterARestart: a node that starts anew keeps what is on its disk.
func TestHeldAfterARestart(t *testing.T) {
	restarting(t, func(_ context.Context, w *world, _ *node) {
		w.forget(20)
	}, func(_ *world, n *node, f *follow.Follower) {
		wantHeld(t, n, f, removalScripts, "would remove 20 of 30 live releases")
	})
}

// restarting runs the node three times: before the change, after it, and once more.
func restarting(t *testing.T, change func(ctx context.Context, w *world, n *node), then func(w *world, n *node, f *follow.Follower)) {
	t.Helper()
	simulateRuns(t, signed, func(ctx context.Context, w *world, n *node) {
		_, stop := n.run(ctx, 1)
		w.commit(scripts(removalScripts, "old"))
		pass(2 * time.Second)
		n.expect("before")
		stop()
		change(ctx, w, n)
		_, stop = n.run(ctx, 2)
		pass(10 * time.Second)
		stop()
		f, stop := n.run(ctx, 3)
		pass(10 * time.Second)
		then(w, n, f)
		stop()
	})
}

// TestHeldBelowTheFloor: a node that can get nothing but full answers keeps what the registry
// lost, and takes in what it has.
func TestHeldBelowTheFloor(t *testing.T) {
	restarting(t, func(_ context.Context, w *world, _ *node) {
		w.forget(20)
		w.commit(map[string]string{"new": "new", "s25": "newer"})
		w.set(faults{floor: 1})
	}, func(w *world, n *node, f *follow.Follower) {
		wantHeld(t, n, f, removalScripts+1, "would remove 20 of 31 live releases, and has a record of 0 removals")
		if !n.has("new", "new") || !n.has("s25", "newer") {
			t.Error("what the registry has is not live")
		}
		w.commit(map[string]string{"new": "newest"})
		pass(time.Second)
		if !n.has("new", "newest") {
			t.Error("an event is not live")
		}
		w.accept(20)
		pass(2 * time.Minute)
		wantHeld(t, n, f, removalScripts+1-20, "")
		n.expect("after the loss was accepted")
	})
}

// TestRecordedWhileHeld: removals that the registry has a record of still count after a restart
// during which the others were held back.
func TestRecordedWhileHeld(t *testing.T) {
	restarting(t, func(_ context.Context, w *world, _ *node) {
		w.forget(20)
		w.set(faults{floor: 1})
		w.commit(map[string]string{"s20": "", "s21": "", "s22": "", "s23": "", "s24": ""})
		w.with(func() { // and the node knows nothing of the records
			for name := range scripts(25, "") {
				delete(w.changed, keyFor(name))
			}
		})
	}, func(_ *world, n *node, f *follow.Follower) {
		wantHeld(t, n, f, removalScripts, "would remove 25 of 30 live releases, and has a record of 5 removals: restore what it lost; if the loss is meant, run scriptctl doctor --accept-loss 20")
	})
}

// TestALostCursorKnowsNoRemovals: removals of the past do not speak for what is lost now, nor
// does a loss that was accepted in the past.
func TestALostCursorKnowsNoRemovals(t *testing.T) {
	restarting(t, func(_ context.Context, w *world, n *node) {
		w.forget(20)
		w.accept(50)
		w.with(func() { w.made = 1000 })
		n.mu.Lock()
		defer n.mu.Unlock()
		n.cursor.Revision, n.cursor.Removals, n.cursor.Accepted = 0, follow.UnknownRemovals, 0
		n.lost = true
	}, func(w *world, n *node, f *follow.Follower) {
		wantHeld(t, n, f, removalScripts, "would remove 20 of 30 live releases, and has a record of 0 removals")
		w.accept(20)
		pass(2 * time.Minute)
		wantHeld(t, n, f, removalScripts-20, "")
	})
}

// TestRemovalsThatFailed: what could not be removed from disk counts as removed when it is, and
// needs its record until then.
func TestRemovalsThatFailed(t *testing.T) {
	restarting(t, func(ctx context.Context, w *world, n *node) {
		_, stop := n.run(ctx, 4)
		pass(time.Second)
		w.set(faults{disk: 1, cursors: true})
		w.commit(scripts(removalScripts, ""))
		pass(5 * time.Second)
		stop()
		w.set(faults{floor: 1})
	}, func(_ *world, n *node, f *follow.Follower) {
		wantHeld(t, n, f, 0, "")
	})
}

// TestTheLargestLossIsNamed: who accepts what the agent names has accepted all.
func TestTheLargestLossIsNamed(t *testing.T) {
	simulateSigned(t, func(w *world, n *node, f *follow.Follower) {
		values := values(removalScripts, "text")
		w.commit(scripts(removalScripts, "old"))
		w.commit(values)
		pass(2 * time.Second)
		w.forget(20)
		w.with(func() {
			for key := range values {
				delete(w.now, key)
				delete(w.changed, key)
			}
		})
		for range 8 { // whatever the order in which the kinds are looked at
			pass(2 * time.Minute)
			wantHeld(t, n, f, 2*removalScripts, "would remove 30 of 30 live values, and has a record of 0 removals: restore what it lost; if the loss is meant, run scriptctl doctor --accept-loss 30")
		}
		w.accept(30)
		pass(2 * time.Minute)
		wantHeld(t, n, f, removalScripts-20, "")
	})
}
