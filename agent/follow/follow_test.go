package follow_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
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

// simulate runs do with a world, its beacons and one node that has synced.
func simulate(t *testing.T, do func(w *world, n *node, f *follow.Follower)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go w.beacons(ctx)
		n := newNode(w, "n")
		f, stop := n.run(ctx, 1)
		pass(100 * time.Millisecond)
		do(w, n, f)
		stop()
		cancel()
		synctest.Wait()
	})
}

func (n *node) expect(when string) {
	n.w.t.Helper()
	if wrong := n.converged(); wrong != "" {
		n.w.t.Errorf("%s: %s", when, wrong)
	}
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
		evil := script.Release{Name: script.Name{Tenant: "acme", Script: "a"}, Revision: 1 << 30, Deleted: true}
		for h := range w.handlers {
			h.Event(&eventv1.Event{Fleet: "other", Revision: 1 << 30, Objects: []*eventv1.Object{wire.FromReleaseObject(evil)}})
			h.Beacon(&eventv1.Beacon{Fleet: "other", HeadRevision: 1 << 30})
			h.Event(&eventv1.Event{})
			h.Beacon(&eventv1.Beacon{})
			h.Malformed()
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

func TestAnotherFleetReplacesEverything(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
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
		w.commit(map[string]string{"a": "bad", "b": "good"})
		bad := w.head
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
			h.RollCall(&eventv1.RollCall{Fleet: w.fleet})
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
		w := newWorld(t, 1)
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

// TestFaults runs agents through a minute of faults, and restarts, and checks
// the promises: a node's State and Report check what must always hold, the end
// that every agent converges. SCRIPTORIUM_SEED repeats one run.
func TestFaults(t *testing.T) {
	runs := 12
	first := rand.Uint64()
	if s := os.Getenv("SCRIPTORIUM_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, runs = seed, 1
	}
	for i := range runs {
		seed := first + uint64(i)
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { faultyMinute(t, seed) })
		})
	}
}

func faultyMinute(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, seed)
	ctx, cancel := context.WithCancel(t.Context())
	go w.beacons(ctx)
	nodes := make([]*node, 3)
	stops := make([]func(), len(nodes))
	for i := range nodes {
		nodes[i] = newNode(w, fmt.Sprint("n", i))
		_, stops[i] = nodes[i].run(ctx, seed+uint64(i)+1)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		switch random.IntN(20) {
		case 0:
			w.set(randomFaults(random))
		case 1:
			w.set(faults{})
		case 2:
			i := random.IntN(len(nodes))
			stops[i]()
			_, stops[i] = nodes[i].run(ctx, random.Uint64())
		default:
			changes := map[string]string{}
			for range 1 + random.IntN(3) {
				src := fmt.Sprint("source ", random.IntN(1000))
				switch random.IntN(8) {
				case 0:
					src = fmt.Sprint("bad ", random.IntN(1000))
				case 1:
					src = ""
				}
				changes[fmt.Sprint("s", random.IntN(12))] = src
			}
			w.commit(changes)
		}
		pass(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
	}
	w.set(faults{})
	pass(500*time.Millisecond + 2*time.Second + 300*time.Millisecond) // what is delayed, two beacons, jitter
	for _, n := range nodes {
		n.expect(n.name + " at the end")
	}
	for _, stop := range stops {
		stop()
	}
	cancel()
	synctest.Wait()
}

func randomFaults(random *rand.Rand) faults {
	chance := func(most float64) float64 {
		if random.IntN(2) == 0 {
			return 0
		}
		return most * random.Float64()
	}
	f := faults{
		lose: chance(0.5), double: chance(0.5), foreign: chance(0.2), garble: chance(0.2),
		cut: chance(0.5), slow: chance(0.5), hide: chance(0.5), disk: chance(0.5), floor: chance(0.5),
		silent: random.IntN(4) == 0, down: random.IntN(4) == 0,
	}
	if random.IntN(2) == 0 {
		f.delay = time.Duration(1 + random.Int64N(int64(500*time.Millisecond)))
	}
	return f
}
