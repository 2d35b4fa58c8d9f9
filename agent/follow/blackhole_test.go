package follow_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// live reports whether the script's source is live on the node.
func (n *node) has(name, text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	o, ok := n.live[keyFor(name)]
	return ok && o.Release.Active.Size == len(text)
}

func wantFailures(t *testing.T, n *node, want int) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := n.status.GetFailures(); len(got) != want {
		t.Errorf("the status tells of %d failures, want %d: %v", len(got), want, got)
	}
}

// TestABlackHoledRegistry: while the registry takes calls and answers none, and events come,
// changes go live at once: no poll and no fetch of another script's source is waited for.
func TestABlackHoledRegistry(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.with(func() { w.inline = true })
		w.commit(map[string]string{"a": "old"})
		pass(time.Second)
		n.expect("before")
		w.set(faults{hang: true})
		text := "old"
		for i := range 240 { // two minutes: polls fall due
			if i == 100 { // one whose source does not come along
				w.with(func() { w.inline, w.large = false, true })
				w.commit(map[string]string{"large": fmt.Sprint("large", i)})
				w.with(func() { w.inline, w.large = true, false })
				pass(50 * time.Millisecond)
				wantFailures(t, n, 0) // it is still awaited
			}
			if i == 120 {
				wantFailures(t, n, 1)
			}
			text += "."
			w.commit(map[string]string{"a": text})
			pass(400 * time.Millisecond)
			if !n.has("a", text) {
				t.Fatalf("change %d is not live after 400 ms", i)
			}
			pass(100 * time.Millisecond)
		}
		if n.has("large", "large100") {
			t.Error("the large one is live without its source")
		}
		w.set(faults{})
		pass(10 * time.Second)
		n.expect("when the registry answers again")
	})
}

// TestAnOlderAnswerRevivesNothing: what an event has deleted stays so when an answer comes in
// that the registry began before.
func TestAnOlderAnswerRevivesNothing(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.with(func() { w.inline, w.odd = true, true }) // beacons ask for full answers again and again
		w.set(faults{slow: 1})
		for i := range 300 {
			w.commit(map[string]string{"a": fmt.Sprint("text", i)})
			pass(50 * time.Millisecond)
			w.commit(map[string]string{"a": ""})
			gone := false
			for range 60 {
				pass(10 * time.Millisecond)
				_, live := n.snapshot()
				if gone && len(live) != 0 {
					t.Fatalf("deletion %d is undone", i)
				}
				gone = len(live) == 0
			}
		}
	})
}

// TestAnAwaitedSource: the node does not claim a revision before its source is here, and says
// when the source came, in replies and in its status.
func TestAnAwaitedSource(t *testing.T) {
	simulate(t, func(w *world, n *node, f *follow.Follower) {
		before := w.commit(map[string]string{"a": "old"})
		pass(time.Second)
		w.with(func() { w.large = true })
		w.set(faults{hang: true})
		at := w.commit(map[string]string{"a": "new"})
		want := func(when string, want script.Revision) {
			t.Helper()
			if got, _ := f.Position(time.Now()); got < before || got >= at != (want == at) {
				t.Errorf("%s: the position is %d, want %d; the change is %d", when, got, want, at)
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			told := slices.ContainsFunc(n.status.GetActivations(), func(a *eventv1.Activation) bool { return a.GetRevision() >= int64(at) })
			if told != (want == at) {
				t.Errorf("%s: the status tells of activations %v", when, n.status.GetActivations())
			}
		}
		pass(500 * time.Millisecond)
		want("without the source", before)
		w.set(faults{})
		pass(5 * time.Second)
		want("with it", at)
	})
}

// TestASourceThatNeverComes: the agent reports it, however often the script changes
// meanwhile.
func TestASourceThatNeverComes(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.with(func() { w.large = true })
		w.set(faults{hang: true})
		for i := range 10 {
			w.commit(map[string]string{"a": fmt.Sprint("text", i)})
			pass(500 * time.Millisecond)
		}
		wantFailures(t, n, 1)
	})
}

// TestAnEndlessStreamOfEvents: retries and questions to the registry do not wait for its end.
func TestAnEndlessStreamOfEvents(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.with(func() { w.inline = true })
		w.commit(map[string]string{"a": "old"})
		pass(time.Second)
		w.with(func() { w.large = true })
		w.set(faults{hide: 1})
		w.commit(map[string]string{"b": "late"})
		w.with(func() { w.large = false })
		pass(100 * time.Millisecond)
		w.set(faults{})
		n.slowly(20 * time.Millisecond) // and there is an event each 10 ms
		asked, _ := w.counts()
		for i := range 100_000 / 10 {
			w.commit(map[string]string{"a": fmt.Sprint("text", i)})
			pass(10 * time.Millisecond)
			if i == 200 && !n.has("b", "late") {
				t.Error("the source was not fetched within 2 s")
			}
		}
		if now, _ := w.counts(); now == asked {
			t.Error("the registry was not asked anything")
		}
	})
}
