package follow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/script"
)

// set are a change set: scripts and a value of one tenant.
func set(text string) map[string]string {
	return map[string]string{"a": text + " of a", "b": text + " of b", valueK: text + " of k"}
}

var setKeys = []string{"releases/acme/a", "releases/acme/b", valueK}

// areAt fails the test unless all of a change set has the revision on the node.
func (n *node) areAt(when string, want script.Revision) { n.keysAre(when, want, setKeys) }

// othersAreAt is areAt for all of the change set but its first script.
func (n *node) othersAreAt(when string, want script.Revision) { n.keysAre(when, want, setKeys[1:]) }

func (n *node) keysAre(when string, want script.Revision, list []string) {
	n.w.t.Helper()
	for _, key := range list {
		if got := n.Revision(key); got != want {
			n.w.t.Errorf("%s: %s is at revision %d, want %d", when, key, got, want)
		}
	}
}

// failing returns the keys of the failures that the node reports, in order.
func (n *node) failing() (keys []string) {
	for _, f := range n.status.GetFailures() {
		keys = append(keys, f.GetKey())
	}
	slices.Sort(keys)
	return keys
}

// hides has the registry not send what has the text until it is mended. The commit of that text comes
// after it: else the node may have the text already.
func (w *world) hides(text string) (mend func()) {
	hide := func(is bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hidden[script.DigestOf([]byte(text))] = is
	}
	hide(true)
	return func() { hide(false) }
}

// TestATransactionIsWhole: as long as an agent lacks a part of a transaction, nothing of that goes
// live there. Who calls scripts one after the other would meet half of a change set.
func TestATransactionIsWhole(t *testing.T) {
	for _, lost := range []string{"a", "b", "k"} {
		t.Run(lost, func(t *testing.T) {
			simulate(t, func(w *world, n *node, _ *follow.Follower) {
				w.large = true
				first := w.commit(set("one"))
				pass(time.Second)
				n.areAt("at first", first)
				mend := w.hides("two of " + lost)
				second := w.commit(set("two"))
				for range 20 {
					pass(250 * time.Millisecond)
					n.areAt("without "+lost, first)
				}
				if got := n.failing(); !slices.Equal(got, setKeys) {
					t.Errorf("it reports failures of %v", got)
				}
				// What others do meanwhile is not held up.
				other := w.commit(map[string]string{"c": "one", "shop/a": "one", "values/shop/k": "one"})
				pass(time.Second)
				for _, key := range []string{"releases/acme/c", "releases/shop/a", "values/shop/k"} {
					if got := n.Revision(key); got != other {
						t.Errorf("%s is at revision %d, want %d", key, got, other)
					}
				}
				mend()
				for range 40 {
					pass(50 * time.Millisecond)
					n.areAt("with "+lost, n.Revision(setKeys[0]))
				}
				n.areAt("in the end", second)
				n.expect("in the end")
			})
		})
	}
}

// TestAPartThatIsReplaced: what waits for a part of its transaction goes live with what replaces that
// part.
func TestAPartThatIsReplaced(t *testing.T) {
	for name, change := range map[string]string{"by another version": "three of a", "by its deletion": ""} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world, n *node, _ *follow.Follower) {
				w.inline = true
				first := w.commit(set("one"))
				synctest.Wait()
				bad := set("two")
				bad["a"] = "bad two of a" // no agent can compile it
				second := w.commit(bad)
				pass(3 * time.Second)
				n.areAt("with a part that is bad", first)
				third := w.commit(map[string]string{"a": change})
				synctest.Wait()
				if change == "" {
					third = 0
				}
				if got, want := fmt.Sprint(n.Revision(setKeys[0]), n.Revision(setKeys[1]), n.Revision(setKeys[2])), fmt.Sprint(third, second, second); got != want {
					t.Errorf("at once, they are at %s, want %s", got, want)
				}
				pass(2 * time.Second)
				n.expect("in the end")
			})
		})
	}
}

// TestATransactionIsWholeFromAnAnswer: what comes with an answer of the registry is whole, too.
func TestATransactionIsWholeFromAnAnswer(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.large = true
		first := w.commit(set("one"))
		pass(time.Second)
		w.set(faults{lose: 1})
		mend := w.hides("two of k")
		second := w.commit(set("two"))
		w.set(faults{})
		for range 20 {
			pass(250 * time.Millisecond)
			n.areAt("without the value", first)
		}
		mend()
		pass(2 * time.Second)
		n.areAt("in the end", second)
		n.expect("in the end")
	})
}

// TestAPartThatFailsAgain: what waits for a part of its transaction waits for the newer versions of
// that part, too, as long as they have not come.
func TestAPartThatFailsAgain(t *testing.T) {
	for name, apart := range map[string]time.Duration{"later": 2 * time.Second, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world, n *node, _ *follow.Follower) {
				w.large = true
				first := w.commit(set("one"))
				pass(time.Second)
				n.areAt("at first", first)
				second := w.commit(map[string]string{"a": "bad two of a", "b": "two of b", valueK: "two of k"})
				if apart > 0 {
					pass(apart)
				}
				w.set(faults{hide: 1})
				w.commit(map[string]string{"a": "three of a"})
				w.commit(map[string]string{"a": "four of a", "c": "four of c"})
				for range 20 {
					pass(250 * time.Millisecond)
					n.areAt("without another version of a", first)
				}
				n.committing = func() {
					if n.Revision(setKeys[0]) > second && n.Revision(setKeys[1]) < second {
						t.Errorf("%s went live before %s", setKeys[0], setKeys[1])
					}
				}
				w.set(faults{})
				pass(2 * time.Second)
				n.othersAreAt("in the end", second)
				n.expect("in the end")
			})
		})
	}
}

// TestAPartThatIsHeldBack: the newer version of a part waits for its own transaction. The rest of the
// older one waits with it, unless no retry mends what is missing.
func TestAPartThatIsHeldBack(t *testing.T) {
	for name, content := range map[string]string{"for what has not come": "late of d", "for what is bad": "bad of d"} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world, n *node, _ *follow.Follower) {
				w.large = true
				first := w.commit(set("one"))
				pass(time.Second)
				second := w.commit(map[string]string{"a": "bad two of a", "b": "two of b", valueK: "two of k"})
				pass(2 * time.Second)
				n.areAt("with a part that is bad", first)
				mend := w.hides("late of d")
				w.commit(map[string]string{"a": "three of a", "d": content})
				pass(2 * time.Second)
				if content == "late of d" {
					n.areAt("without another version of a", first)
				}
				mend()
				pass(2 * time.Second)
				n.othersAreAt("in the end", second)
				n.expect("in the end")
			})
		})
	}
}

// TestWhatWaitsForABadPart: what waits for a part that no retry mends is neither fetched nor compiled
// again and again. It goes live as soon as that part is replaced or gone.
func TestWhatWaitsForABadPart(t *testing.T) {
	for name, change := range map[string]string{"replaced": "three of a", "deleted": ""} {
		for by, lose := range map[string]float64{"by an event": 0, "by an answer": 1} {
			t.Run(name+" "+by, func(t *testing.T) {
				simulate(t, func(w *world, n *node, _ *follow.Follower) {
					w.large = true
					first := w.commit(set("one"))
					pass(time.Second)
					n.areAt("at first", first)
					mend := w.hides("two of b")
					second := w.commit(map[string]string{"a": "bad two of a", "b": "two of b", valueK: "two of k"})
					pass(3 * time.Second)
					mend()
					n.areAt("with a part that is bad", first)
					if at := script.Revision(n.status.GetActivatedRevision()); at < second {
						t.Errorf("it reports all as live up to %d, want %d", at, second)
					}
					prepared := n.preparations()
					pass(10 * time.Second)
					if again := n.preparations() - prepared; again > 0 {
						t.Errorf("it compiled %d programs while nothing changed", again)
					}
					w.set(faults{lose: lose})
					w.commit(map[string]string{"a": change})
					pass(10 * time.Second)
					n.othersAreAt("in the end", second)
					n.expect("in the end")
				})
			})
		}
	}
}

// TestAPartThatAnAnswerReplaces: what waits for a part goes live with what replaces it, also if an
// answer of the registry brings that.
func TestAPartThatAnAnswerReplaces(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.inline = true
		w.commit(set("one"))
		pass(time.Second)
		second := w.commit(map[string]string{"a": "bad two of a", "b": "two of b", valueK: "two of k"})
		pass(3 * time.Second)
		n.committing = func() {
			if n.Revision(setKeys[0]) > second && n.Revision(setKeys[1]) < second {
				t.Errorf("%s went live before %s", setKeys[0], setKeys[1])
			}
		}
		w.set(faults{lose: 1})
		w.commit(map[string]string{"a": "three of a"})
		w.set(faults{})
		pass(2 * time.Second)
		n.expect("in the end")
	})
}

// TestAPartThatIsReplacedOften: however often the registry replaces a part while the agent cannot fetch it, the
// others wait for it.
func TestAPartThatIsReplacedOften(t *testing.T) {
	for name, apart := range map[string]time.Duration{"one by one": time.Second, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world, n *node, _ *follow.Follower) {
				w.large = true
				first := w.commit(set("one"))
				pass(time.Second)
				mend := w.hides("late")
				second := w.commit(map[string]string{"a": "late", "b": "two of b", valueK: "two of k"})
				pass(time.Second)
				for i := range 40 {
					w.commit(map[string]string{"a": "late", "c": fmt.Sprint(i)})
					pass(apart)
				}
				pass(time.Minute)
				n.areAt("without another version of a", first)
				n.committing = func() {
					if n.Revision(setKeys[0]) <= second && n.Revision(setKeys[1]) == second {
						t.Errorf("%s went live before %s", setKeys[1], setKeys[0])
					}
				}
				mend()
				pass(time.Minute)
				n.othersAreAt("in the end", second)
				n.expect("in the end")
			})
		})
	}
}

// TestALongChain: whatever the length of a chain of transactions that wait for one part, each object says
// which part that is, and all of them go live with it.
func TestALongChain(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		const length = 60 // more than the agent tries again at once
		w.large = true
		part := func(i int) string { return fmt.Sprintf("s%02d", i) }
		w.set(faults{hide: 1})
		for i := length; i > 0; i-- {
			w.commit(map[string]string{part(i): "new", part(i - 1): "new"})
			pass(100 * time.Millisecond)
		}
		mend := w.hides("late")
		w.commit(map[string]string{part(0): "late"})
		w.set(faults{})
		pass(2 * time.Minute)
		failures := n.status.GetFailures()
		if len(failures) != length+1 {
			t.Errorf("%d objects fail, want %d", len(failures), length+1)
		}
		for _, f := range failures {
			const want = "it goes live together with releases/acme/s00, which cannot: "
			got := f.GetError().GetMessage()
			if f.GetKey() != "releases/acme/s00" && (!strings.HasPrefix(got, want) || len(got) > 200) {
				t.Errorf("%s fails: %s", f.GetKey(), got)
			}
		}
		mend()
		pass(2 * time.Minute)
		n.expect("in the end")
	})
}

// preparations returns how many programs the node has compiled.
func (n *node) preparations() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.prepared
}
