package follow_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
)

// values returns changes of so many values, v0 and on.
func values(n int, text string) map[string]string {
	changes := map[string]string{}
	for i := range n {
		changes[fmt.Sprint("values/acme/v", i)] = text
	}
	return changes
}

// keeps says that the node holds removals back, while its status claims the registry's revision.
func (n *node) keeps() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.damaged = true
}

// TestARecordCountsOnce: the recorded removals of one kind do not speak for what was lost of
// another.
func TestARecordCountsOnce(t *testing.T) {
	simulateRuns(t, signed, func(ctx context.Context, w *world, n *node) {
		_, stop := n.run(ctx, 1)
		w.commit(scripts(removalScripts, "old"))
		w.commit(values(removalScripts, "old"))
		pass(2 * time.Second)
		n.expect("before")
		stop()
		w.forget(removalScripts)
		w.commit(values(removalScripts, ""))
		w.set(faults{floor: 1})
		n.keeps()
		f, stop := n.run(ctx, 2)
		pass(10 * time.Second)
		wantHeld(t, n, f, 2*removalScripts, "would remove 30 of 30 live releases, and has a record of 10 removals")
		stop()
	})
}

// TestRemovalsOfWhatWasNeverLive: they are done when the event is, and speak for no loss that
// comes after.
func TestRemovalsOfWhatWasNeverLive(t *testing.T) {
	removing(t, func(w *world, n *node, f *follow.Follower) {
		pass(2 * time.Second)
		bad, gone := map[string]string{}, map[string]string{}
		for i := range 25 {
			bad[fmt.Sprint("bad", i)], gone[fmt.Sprint("bad", i)] = "bad", ""
		}
		w.commit(bad)
		pass(100 * time.Millisecond)
		w.commit(gone)
		pass(100 * time.Millisecond)
		w.forget(20)
		pass(10 * time.Second)
		wantHeld(t, n, f, removalScripts, "would remove 20 of 30 live releases, and has a record of 0 removals")
	})
}

// TestRecordsAfterARestore: a registry whose count went back with its store goes on to remove.
func TestRecordsAfterARestore(t *testing.T) {
	removing(t, func(w *world, n *node, f *follow.Follower) {
		n.keeps()
		w.with(func() { w.made = 100 })
		w.commit(map[string]string{"extra": "x"})
		pass(2 * time.Minute)
		w.forget(20)
		w.with(func() { w.made = 50 })
		more := map[string]string{}
		for i := range 40 {
			more[fmt.Sprint("more", i)] = "text"
		}
		w.commit(more)
		pass(2 * time.Minute)
		wantHeld(t, n, f, removalScripts+41, "would remove 20 of 71 live releases")
		for name := range more {
			more[name] = ""
		}
		w.commit(more)
		pass(2 * time.Minute)
		wantHeld(t, n, f, removalScripts+1, "would remove 20 of 31 live releases")
	})
}

// TestOthersWhileTombstonesAreHeld: what else changes goes live while tombstones are held back.
func TestOthersWhileTombstonesAreHeld(t *testing.T) {
	removing(t, func(w *world, n *node, f *follow.Follower) {
		n.keeps()
		w.with(func() { w.made = -removalScripts })
		w.commit(scripts(removalScripts, ""))
		w.commit(map[string]string{"new": "new"})
		pass(2 * time.Minute)
		wantHeld(t, n, f, removalScripts+1, "would remove 30 of 31 live releases")
		w.commit(map[string]string{"new": "newer"})
		pass(time.Second)
		if !n.has("new", "newer") {
			t.Error("an event is not live")
		}
	})
}

// TestAnAcceptanceIsUsedOnceAmongEvents: also where an event overtakes each answer.
func TestAnAcceptanceIsUsedOnceAmongEvents(t *testing.T) {
	removing(t, func(w *world, n *node, f *follow.Follower) {
		busy := 0
		w.with(func() {
			w.overtake = func() {
				busy++
				w.commit(map[string]string{"busy": fmt.Sprint("text ", busy)})
				arrives := time.NewTimer(100 * time.Millisecond)
				<-arrives.C
			}
		})
		w.forget(20)
		w.accept(20)
		pass(2 * time.Minute)
		wantHeld(t, n, f, removalScripts-20+1, "")
		w.commit(scripts(removalScripts, "again"))
		pass(2 * time.Minute)
		w.forget(20)
		pass(5 * time.Minute)
		wantHeld(t, n, f, removalScripts+1, "would remove 20 of 31 live releases")
	})
}

// TestAnAnswerWithoutACount: a replica of an older edition does not say how many removals there
// were, and those of the past do not speak for what is lost after it.
func TestAnAnswerWithoutACount(t *testing.T) {
	removing(t, func(w *world, n *node, f *follow.Follower) {
		w.with(func() { w.made = 100 })
		pass(2 * time.Minute)
		w.with(func() { w.uncounted = true })
		pass(2 * time.Minute)
		w.with(func() { w.uncounted = false })
		w.forget(20)
		pass(2 * time.Minute)
		wantHeld(t, n, f, removalScripts, "would remove 20 of 30 live releases")
	})
}

// TestRecordsOfWhatIsWithheld: once the registry has what it lost, the removals that were
// withheld with it happen, whatever it answered meanwhile, also to a node that started anew.
func TestRecordsOfWhatIsWithheld(t *testing.T) {
	restarting(t, func(_ context.Context, w *world, n *node) {
		n.keeps()
		w.forget(12)
		gone := map[string]string{}
		for i := 12; i < 27; i++ {
			gone[fmt.Sprint("s", i)] = ""
		}
		w.commit(gone)
		w.with(func() { // long ago: no answer has these tombstones
			for name := range gone {
				delete(w.changed, keyFor(name))
			}
		})
		w.set(faults{floor: 1})
	}, func(w *world, n *node, f *follow.Follower) {
		w.set(faults{})
		const held = "would remove 27 of 30 live releases, and has a record of 15 removals"
		wantHeld(t, n, f, removalScripts, held)
		pass(5 * time.Minute)
		wantHeld(t, n, f, removalScripts, held)
		w.commit(scripts(12, "restored"))
		pass(5 * time.Minute)
		wantHeld(t, n, f, removalScripts-15, "")
	})
}
