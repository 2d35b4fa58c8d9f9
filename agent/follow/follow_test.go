package follow_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

var quiet = slog.New(slog.DiscardHandler)

// beacons sends one a second until ctx is done.
func (w *world) beacons(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.beacon()
		}
	}
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// slowly makes each commit of the node take so long.
func (n *node) slowly(d time.Duration) { n.committing = func() { <-time.After(d) } }

func (w *world) set(f faults) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = f
}

func (w *world) counts() (syncs, fulls int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.syncs, w.fulls
}

// simulate runs do with a world, its beacons and one node that has synced. Nothing is
// signed: signatures take most of the time.
func simulate(t *testing.T, do func(w *world, n *node, f *follow.Follower)) {
	t.Helper()
	simulateIn(t, (*world).unsigned, do)
}

// simulateSigned does it with signatures.
func simulateSigned(t *testing.T, do func(w *world, n *node, f *follow.Follower)) {
	t.Helper()
	simulateIn(t, signed, do)
}

func signed(w *world) *world { return w }

func simulateIn(t *testing.T, prepare func(*world) *world, do func(w *world, n *node, f *follow.Follower)) {
	t.Helper()
	simulateRuns(t, prepare, func(ctx context.Context, w *world, n *node) {
		f, stop := n.run(ctx, 1)
		pass(100 * time.Millisecond)
		do(w, n, f)
		stop()
	})
}

// simulateRuns runs do with a world, its beacons and a node that do runs.
func simulateRuns(t *testing.T, prepare func(*world) *world, do func(ctx context.Context, w *world, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := prepare(newWorld(t, 1))
		ctx, cancel := context.WithCancel(t.Context())
		go w.beacons(ctx)
		do(ctx, w, newNode(w, "n"))
		cancel()
		synctest.Wait()
	})
}

// TestEventsBesideAnAnswer: an answer that comes late does not take the cursor back behind what
// events have brought meanwhile, whatever of it fails.
func TestEventsBesideAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1).unsigned()
		w.inline = true
		n := newNode(w, "n") // hears no beacon, so that it asks each second
		_, stop := n.run(t.Context(), 1)
		for i := range 100 {
			w.set(faults{late: time.Second})
			for range 10 {
				w.commit(map[string]string{"a": fmt.Sprint("text", i)})
				pass(50 * time.Millisecond)
			}
			w.set(faults{silent: true, disk: 1, cursors: true})
			w.commit(map[string]string{"b": fmt.Sprint("text", i)}) // the answer alone has it
			pass(1500 * time.Millisecond)
		}
		w.set(faults{})
		pass(10 * time.Second)
		n.expect("in the end")
		stop()
	})
}

func TestAnEventIsAppliedAtOnce(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		before, _ := w.counts()
		for i := range 5 {
			w.commit(map[string]string{"a": fmt.Sprint("a ", i), "b": fmt.Sprint("b ", i)})
			synctest.Wait()
			if n.Revision("releases/acme/a") != w.head {
				t.Errorf("event %d is not applied", i)
			}
		}
		w.commit(map[string]string{"a": ""})
		pass(100 * time.Millisecond)
		n.expect("after events")
		if after, _ := w.counts(); after != before {
			t.Errorf("%d syncs were made", after-before)
		}
	})
}

// A program is compiled while its source is stored, and goes live after both.
func TestTheDiskAndTheCompilerDoNotWait(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		n.compiling = make(chan struct{})
		w.commit(map[string]string{"a": "one"})
		pass(100 * time.Millisecond)
		if n.Revision("releases/acme/a") != w.head {
			t.Error("the compiler waits for the disk")
		}
		n.compiling = nil
	})
}

// A program is compiled while its source is stored: whether it compiles or not, what
// fails is the disk, and passes.
func TestASourceThatCannotBeStored(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		failures := func() map[string]string {
			n.mu.Lock()
			defer n.mu.Unlock()
			got := map[string]string{}
			for _, f := range n.status.GetFailures() {
				got[f.GetKey()] = f.GetError().GetMessage()
			}
			return got
		}
		w.set(faults{disk: 1})
		w.commit(map[string]string{"a": "bad one"})
		w.commit(map[string]string{"b": "one"})
		pass(600 * time.Millisecond)
		for _, key := range []string{"releases/acme/a", "releases/acme/b"} {
			if got := failures()[key]; !strings.Contains(got, "cannot be stored") || n.Revision(key) != 0 {
				t.Errorf("%s is at %d, and failed with %q", key, n.Revision(key), got)
			}
		}
		w.set(faults{})
		pass(4 * time.Second)
		if got := failures(); len(got) != 1 || !strings.Contains(got["releases/acme/a"], "bad source") || n.Revision("releases/acme/b") == 0 {
			t.Errorf("with room on the disk again, failures are %q", got)
		}
	})
}

func TestAGapIsMendedByASyncOfTheDifference(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		_, fulls := w.counts()
		w.set(faults{lose: 1})
		w.commit(map[string]string{"a": "one", "b": "one"})
		w.set(faults{})
		w.commit(map[string]string{"a": "two"})
		pass(250 * time.Millisecond)
		n.expect("after a gap")
		if _, after := w.counts(); after != fulls {
			t.Error("it took a full snapshot")
		}
	})
}

func TestABeaconShowsASilentLoss(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.set(faults{lose: 1})
		w.commit(map[string]string{"a": "one"})
		w.set(faults{})
		pass(1200 * time.Millisecond)
		n.expect("after a beacon")
	})
}

func TestSilenceIsPolled(t *testing.T) {
	simulate(t, func(w *world, n *node, f *follow.Follower) {
		w.set(faults{silent: true})
		w.commit(map[string]string{"a": "one"})
		pass(4200 * time.Millisecond)
		n.expect("with NATS dead")
		before, _ := w.counts()
		pass(20 * time.Second)
		after, _ := w.counts()
		if polls := after - before; polls < 10 || polls > 40 {
			t.Errorf("%d polls in 20 s", polls)
		}
		if _, stale := f.Position(time.Now()); stale < 0 || stale > 2*time.Second {
			t.Errorf("stale by %v while polling works", stale)
		}
		w.set(faults{})
		pass(2 * time.Second)
		before, _ = w.counts()
		pass(20 * time.Second)
		if after, _ := w.counts(); after != before {
			t.Errorf("%d polls with NATS back", after-before)
		}
	})
}

// TestABusyRegistryIsPolledLessOften: an agent that waits for its answers leaves the
// registry time for others, until answers come at once again.
func TestABusyRegistryIsPolledLessOften(t *testing.T) {
	simulate(t, func(w *world, n *node, f *follow.Follower) {
		pollsIn := func(d time.Duration) int {
			before, _ := w.counts()
			for end := time.Now().Add(d); time.Now().Before(end); pass(100 * time.Millisecond) {
				if _, stale := f.Position(time.Now()); stale > 10*time.Second {
					t.Errorf("stale by %v, although the registry answers", stale)
				}
			}
			after, _ := w.counts()
			return after - before
		}
		w.set(faults{silent: true, slow: 1})
		pass(10 * time.Second)
		w.commit(map[string]string{"a": "one"})
		if polls := pollsIn(2 * time.Minute); polls < 8 || polls > 60 { // 96 without waiting longer
			t.Errorf("%d polls in two minutes of answers that take up to half a second", polls)
		}
		n.expect("from a busy registry")
		w.set(faults{silent: true})
		pass(8 * time.Second) // more than the longest wait
		if polls := pollsIn(20 * time.Second); polls < 10 || polls > 40 {
			t.Errorf("%d polls in 20 s of a registry that answers at once", polls)
		}
	})
}

func TestARegistryThatIsDownIsAskedAgain(t *testing.T) {
	simulate(t, func(w *world, n *node, f *follow.Follower) {
		first := w.commit(map[string]string{"a": "one"})
		pass(time.Second)
		w.set(faults{down: true, silent: true})
		w.commit(map[string]string{"a": "two"})
		before, _ := w.counts()
		pass(60 * time.Second)
		after, _ := w.counts()
		if asked := after - before; asked < 8 || asked > 60 {
			t.Errorf("asked %d times in a minute", asked)
		}
		if revision, stale := f.Position(time.Now()); revision != first || stale < 58*time.Second {
			t.Errorf("at %d, stale by %v", revision, stale)
		}
		w.set(faults{})
		pass(2200 * time.Millisecond)
		n.expect("with the registry back")
	})
}

func TestStrayMessagesChangeNothing(t *testing.T) {
	simulate(t, func(w *world, n *node, f *follow.Follower) {
		w.commit(map[string]string{"a": "one"})
		pass(time.Second)
		before, _ := w.counts()
		evil := script.Release{Name: nameFor("a"), Revision: 1 << 30, Deleted: true}
		for h := range w.handlers {
			h.Event(w.seal(&eventv1.Event{
				Fleet: "other", Group: "all", Revision: 1 << 30, Entries: [][]byte{w.seal(wire.FromReleaseEntry("other", evil))},
			}))
			h.Beacon(w.seal(&eventv1.Beacon{Fleet: "other", Group: "all", HeadRevision: 1 << 30, GroupRevision: 1 << 30}))
			h.Event(w.seal(&eventv1.Event{}))
			h.Beacon(w.seal(&eventv1.Beacon{}))
			h.Event(nil)
		}
		pass(time.Second)
		n.expect("after stray messages")
		if after, _ := w.counts(); after != before {
			t.Errorf("%d syncs were made", after-before)
		}
		if revision, _ := f.Position(time.Now()); revision != w.head {
			t.Errorf("at %d", revision)
		}
	})
}

// adopting lets nodes change to the fleet that rebuild makes.
func adopting(w *world) *world {
	w.adopt = "fleet-2"
	return w.unsigned()
}

func TestAnAdoptedFleetReplacesEverything(t *testing.T) {
	simulateIn(t, adopting, func(w *world, n *node, _ *follow.Follower) {
		for i := range 20 {
			w.commit(map[string]string{fmt.Sprint("s", i): "old"})
		}
		pass(time.Second)
		n.expect("before")
		w.rebuild()
		w.commit(map[string]string{"s1": "new", "t": "new"})
		pass(6 * time.Second)
		n.expect("after")
		if c := n.Cursor(); c.Fleet != "fleet-2" {
			t.Errorf("the cursor is %v", c)
		}
	})
}

func TestARegistryThatWentBackIsNotFollowed(t *testing.T) {
	simulate(t, func(w *world, n *node, f *follow.Follower) {
		w.commit(map[string]string{"a": "one"})
		old := w.head
		w.commit(map[string]string{"a": "two"})
		pass(time.Second)
		at := w.head
		w.mu.Lock()
		w.head = old
		w.faults.silent = true
		w.mu.Unlock()
		pass(10 * time.Second)
		if revision, _ := f.Position(time.Now()); revision != at || n.Revision("releases/acme/a") != at {
			t.Errorf("it went back to %d", revision)
		}
	})
}

func TestFailuresAreReportedUntilANewerRelease(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(map[string]string{"a": "good"})
		first := w.head
		synctest.Wait()
		w.commit(map[string]string{"a": "bad"})
		bad := w.head
		w.commit(map[string]string{"b": "good"})
		pass(300 * time.Millisecond)
		n.expect("with a bad release")
		if n.Revision("releases/acme/a") != first {
			t.Error("the release before it is not live any more")
		}
		fs := n.status.GetFailures()
		if len(fs) != 1 || fs[0].GetKey() != "releases/acme/a" || fs[0].GetRevision() != int64(bad) || fs[0].GetError().GetKind() != "SCRIPT" {
			t.Errorf("failures %v", fs)
		}
		if c := n.Cursor(); c.Revision != bad-1 {
			t.Errorf("the cursor on disk is %d, so that a restart would lose %d", c.Revision, bad)
		}
		w.commit(map[string]string{"a": "better"})
		pass(300 * time.Millisecond)
		n.expect("with a better one")
		if len(n.status.GetFailures()) != 0 || n.Cursor().Revision != w.head {
			t.Errorf("failures %v, cursor %v", n.status.GetFailures(), n.Cursor())
		}
	})
}

func TestWhatCannotBeStoredIsNotLive(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(map[string]string{"a": "one"})
		pass(100 * time.Millisecond)
		first := w.head
		w.set(faults{disk: 1})
		w.commit(map[string]string{"a": "two"})
		pass(10 * time.Second)
		if n.Revision("releases/acme/a") != first {
			t.Error("it is live, and not on disk")
		}
		if fs := n.status.GetFailures(); len(fs) != 1 || fs[0].GetRevision() != int64(w.head) {
			t.Errorf("failures %v", fs)
		}
		w.set(faults{})
		pass(2 * time.Second)
		n.expect("with room on the disk again")
	})
}

// TestTheCursorStaysBelowTheFirstFailure: of a script that fails twice the disk
// has neither release, so that a restart must not take the first one for done.
func TestTheCursorStaysBelowTheFirstFailure(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(map[string]string{"a": "good"})
		pass(100 * time.Millisecond)
		first := w.commit(map[string]string{"a": "bad"})
		w.commit(map[string]string{"b": "good"})
		w.commit(map[string]string{"a": "bad again"})
		pass(300 * time.Millisecond)
		if c := n.Cursor(); c.Revision != first-1 {
			t.Errorf("the cursor on disk is %d, so that a restart would report %d as live", c.Revision, first)
		}
	})
}

func TestADeletionThatCannotBeStoredIsNotForgotten(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(map[string]string{"a": "one", "b": "one"})
		pass(100 * time.Millisecond)
		w.set(faults{lose: 1})
		w.commit(map[string]string{"a": ""})
		w.set(faults{disk: 1, floor: 1}) // the next sync says it by leaving it out
		pass(5 * time.Second)
		if n.Revision("releases/acme/a") == 0 {
			t.Error("it is gone from what runs, and not from disk")
		}
		w.set(faults{})
		pass(2 * time.Second)
		n.expect("with room on the disk again")
	})
}

func TestStatusIsBounded(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		start := time.Now()
		for i := range 500 {
			w.commit(map[string]string{"a": fmt.Sprint(i)})
			pass(10 * time.Millisecond)
		}
		pass(11 * time.Second)
		n.expect("after many changes")
		n.mu.Lock()
		defer n.mu.Unlock()
		for i := range len(n.reports) {
			if i >= 10 && n.reports[i].Sub(n.reports[i-10]) < time.Second {
				t.Fatalf("ten reports in %v", n.reports[i].Sub(n.reports[i-10]))
			}
			if i > 0 && n.reports[i].After(start) && n.reports[i].Sub(n.reports[i-1]) > 5*time.Second {
				t.Fatalf("silent for %v", n.reports[i].Sub(n.reports[i-1]))
			}
		}
	})
}

func TestManyFailuresDoNotHideOthers(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		first := script.Revision(0)
		for i := range 400 {
			r := w.commit(map[string]string{fmt.Sprint("s", i): "bad"})
			if i == 256 {
				first = r
			}
		}
		pass(time.Second)
		n.mu.Lock()
		defer n.mu.Unlock()
		if got := len(n.status.GetFailures()); got != 256 {
			t.Errorf("%d failures are reported", got)
		}
		if got := script.Revision(n.status.GetActivatedRevision()); got != first-1 {
			t.Errorf("reports %d, which covers failures it leaves out; want %d", got, first-1)
		}
	})
}

func TestRollCallAndGoodBye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := newNode(w, "n")
		_, stop := n.run(t.Context(), 1)
		pass(time.Second)
		before := len(n.reports)
		for h := range w.handlers {
			h.RollCall(w.seal(&eventv1.RollCall{Fleet: w.fleet}))
		}
		pass(200 * time.Millisecond)
		if len(n.reports) != before+1 {
			t.Errorf("%d answers to a roll call", len(n.reports)-before)
		}
		incarnation := n.status.GetIncarnation()
		stop()
		if n.leaving != 1 || n.status.GetIncarnation() != incarnation || incarnation == "" {
			t.Errorf("said good-bye %d times: %v", n.leaving, n.status)
		}
	})
}

func TestManyWaitingEventsAreForgottenForASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1).unsigned()
		w.set(faults{down: true})
		n := newNode(w, "n")
		_, stop := n.run(t.Context(), 1)
		synctest.Wait()
		for i := range 10_000 {
			w.commit(map[string]string{fmt.Sprint("s", i%50): fmt.Sprint("source ", i)})
		}
		synctest.Wait()
		w.set(faults{})
		pass(8 * time.Second)
		n.expect("after a flood before the first sync")
		stop()
	})
}

func TestALostSourceComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := newNode(w, "n")
		_, stop := n.run(t.Context(), 1)
		w.commit(map[string]string{"a": "one", "b": "two"})
		pass(time.Second)
		stop()
		delete(n.sources, script.DigestOf([]byte("one")))
		_, stop = n.run(t.Context(), 1)
		pass(3 * time.Second)
		n.expect("after the source was lost")
		if !n.HasSource(script.DigestOf([]byte("one"))) {
			t.Error("the source is not back")
		}
		stop()
	})
}
