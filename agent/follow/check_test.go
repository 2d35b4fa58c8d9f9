package follow_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	drifts   = "scriptorium_agent_drifts_total"
	drifting = "scriptorium_agent_drifting"
)

// twoBeacons is how long it takes until two of them were heard, and a repair after.
const twoBeacons = 2*time.Second + 500*time.Millisecond

// spoil changes a live release, but not what was committed of it.
func (n *node) spoil(key string, change func(r *script.Release)) {
	r := *n.live[key].Release
	change(&r)
	n.live[key] = script.Object{Release: &r}
}

func TestADriftIsFoundAndHealed(t *testing.T) {
	const a, b = "releases/acme/a", "releases/acme/b"
	for name, damage := range map[string]func(n *node){
		"a bit of a digest flips": func(n *node) {
			n.spoil(a, func(r *script.Release) { r.Active.Digest[7] ^= 16 })
		},
		"a bit of a revision flips, upwards": func(n *node) {
			n.spoil(a, func(r *script.Release) { r.Revision |= 1 << 40 })
		},
		"a bit of a revision flips, down": func(n *node) {
			n.spoil(a, func(r *script.Release) { r.Revision ^= 1 })
		},
		"it is disabled here": func(n *node) {
			n.spoil(a, func(r *script.Release) { r.Enabled = false })
		},
		"one is dropped": func(n *node) { delete(n.live, a); delete(n.kept, a) },
		"one is stale":   func(n *node) { n.live[a] = n.live["old"]; n.committed[a] = n.committed["old"] },
		"a ghost": func(n *node) {
			n.live["releases/acme/ghost"] = n.live[b]
			n.spoil("releases/acme/ghost", func(r *script.Release) { r.Name = nameFor("ghost") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world, n *node, f *follow.Follower) {
				w.commit(map[string]string{"a": "one", "b": "one"})
				pass(1500 * time.Millisecond)
				stale, sum := n.live[a], n.committed[a]
				w.commit(map[string]string{"a": "two"})
				pass(1500 * time.Millisecond)
				n.expect("before")
				if got := n.metric(drifts, ""); got != 0 {
					t.Fatalf("%d drifts before", got)
				}
				n.mu.Lock()
				n.damaged = true
				if name == "one is stale" {
					n.live["old"], n.committed["old"] = stale, sum
				}
				damage(n)
				delete(n.live, "old")
				n.mu.Unlock()
				if n.converged() == "" {
					t.Fatal("nothing is wrong")
				}
				pass(twoBeacons)
				n.expect("after two beacons")
				if got := n.metric(drifts, ""); got != 1 {
					t.Errorf("%d drifts are counted", got)
				}
				if got, repaired := n.status.GetDrifts(), n.status.GetRepairedDrifts(); got != 1 || repaired != 1 {
					t.Errorf("%d drifts are reported, and %d repaired", got, repaired)
				}
				_, fulls := w.counts()
				n.mu.Lock()
				n.damaged = false
				n.mu.Unlock()
				w.commit(map[string]string{"a": "three"})
				pass(10 * time.Second)
				n.expect("later")
				if _, after := w.counts(); after != fulls {
					t.Errorf("%d full answers were asked for since", after-fulls)
				}
				if _, stale := f.Position(time.Now()); stale < 0 || stale > time.Second {
					t.Errorf("stale by %v", stale)
				}
			})
		})
	}
}

// What cannot be made live is known to be missing: that is no drift.
func TestAFailureIsNoDrift(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(map[string]string{"a": "one", "b": "one"})
		w.commit(map[string]string{"a": "bad", "c": "bad"})
		pass(5 * time.Second)
		n.expect("with failures")
		w.set(faults{disk: 1})
		w.commit(map[string]string{"b": "two", "d": "one"})
		w.commit(map[string]string{"d": ""})
		pass(5 * time.Second)
		w.set(faults{})
		pass(3 * time.Second)
		n.expect("with room on the disk again")
		if got := n.metric(drifts, ""); got != 0 {
			t.Errorf("%d drifts", got)
		}
		// Nor does a failure hide one.
		n.mu.Lock()
		n.damaged = true
		delete(n.live, "releases/acme/b")
		n.mu.Unlock()
		pass(twoBeacons)
		n.expect("after a drift")
		if got := n.metric(drifts, ""); got != 1 {
			t.Errorf("%d drifts", got)
		}
	})
}

// A bug that makes checksums differ whatever is fetched must not keep the registry
// busy with full answers.
func TestADriftThatDoesNotHealIsNoStorm(t *testing.T) {
	for name, bug := range map[string]func(w *world, is bool){
		"all checksums are wrong":     func(w *world, is bool) { w.wrong = is },
		"those of beacons are":        func(w *world, is bool) { w.odd = is },
		"those of beacons, at random": func(w *world, is bool) { w.odd = is && w.random.IntN(2) == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world, n *node, f *follow.Follower) {
				set := func(is bool) {
					w.mu.Lock()
					defer w.mu.Unlock()
					bug(w, is)
				}
				w.commit(map[string]string{"a": "one"})
				pass(2 * time.Second)
				_, before := w.counts()
				for range 600 {
					set(true)
					pass(time.Second)
				}
				_, after := w.counts()
				if fulls := after - before; fulls < 6 || fulls > 25 {
					t.Errorf("%d full answers in ten minutes", fulls)
				}
				w.commit(map[string]string{"a": "two"})
				synctest.Wait()
				n.expect("meanwhile")
				if got := n.metric(drifting, ""); got != 1 && name == "all checksums are wrong" {
					t.Errorf("%s is %d while nothing repairs it", drifting, got)
				}
				set(false)
				pass(2 * time.Second)
				if got := n.metric(drifting, ""); got != 0 {
					t.Errorf("%s is %d after the bug was mended", drifting, got)
				}
				_, before = w.counts()
				pass(5 * time.Minute)
				if _, after := w.counts(); after != before {
					t.Errorf("%d full answers after the bug was mended", after-before)
				}
				if _, stale := f.Position(time.Now()); stale > time.Second {
					t.Errorf("stale by %v", stale)
				}
			})
		})
	}
}

func TestWithBeaconsTheRegistryIsAskedOnceAMinute(t *testing.T) {
	simulate(t, func(w *world, _ *node, _ *follow.Follower) {
		before, fulls := w.counts()
		pass(15 * time.Minute)
		if after, _ := w.counts(); after-before < 10 || after-before > 23 {
			t.Errorf("asked %d times in a quarter of an hour", after-before)
		}
		if _, after := w.counts(); after != fulls {
			t.Errorf("%d full answers", after-fulls)
		}
	})
}

// TestWithoutASession: an agent that has no session yet, so that no registry believes its reports,
// asks for one soon, although beacons come, and seldom if the registries know no sessions.
func TestWithoutASession(t *testing.T) {
	simulate(t, func(_ *world, n *node, _ *follow.Follower) {
		pass(2 * time.Second)
		n.wantSession(true)
	})
	simulateIn(t, sessionless, func(w *world, n *node, _ *follow.Follower) {
		pass(2 * time.Second)
		n.wantSession(false)
		w.set(faults{})
		pass(5 * time.Second)
		n.wantSession(true)
	})
	simulateIn(t, sessionless, func(w *world, _ *node, _ *follow.Follower) {
		pass(time.Minute)
		before, _ := w.counts()
		pass(15 * time.Minute)
		if after, _ := w.counts(); after-before > 23 {
			t.Errorf("asked %d times in a quarter of an hour", after-before)
		}
	})
}

// TestASessionThatTheRegistryForgot: an agent asks for a new session soon after beacons stop to
// name its key, and not all the time where replicas disagree.
func TestASessionThatTheRegistryForgot(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		pass(10 * time.Second)
		n.wantSessionOf("first")
		w.forgetSessions("second")
		pass(8 * time.Second)
		n.wantSessionOf("second")
		before, _ := w.counts()
		pass(15 * time.Minute)
		if after, _ := w.counts(); after-before > 23 {
			t.Errorf("asked %d times in a quarter of an hour", after-before)
		}
	})
	simulate(t, func(w *world, _ *node, _ *follow.Follower) {
		w.set(faults{forgetful: true})
		pass(time.Minute)
		before, _ := w.counts()
		pass(15 * time.Minute)
		if after, _ := w.counts(); after-before > 45 {
			t.Errorf("asked %d times in a quarter of an hour", after-before)
		}
	})
}

// forgetSessions has the registry know the sessions of the key alone, and open such.
func (w *world) forgetSessions(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessionKey = key
}

func (n *node) wantSessionOf(key string) {
	n.w.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := n.session.KeyID(); got != key {
		n.w.t.Errorf("the last report is in a session of the key %q, want %q", got, key)
	}
}

func sessionless(w *world) *world {
	w.set(faults{sessionless: true})
	return w.unsigned()
}

func (n *node) wantSession(want bool) {
	n.w.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := len(n.session.Key) > 0; got != want {
		n.w.t.Errorf("the last report has a session: %v, want %v", got, want)
	}
}

func TestGroupsFollowTheirTenantsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1).unsigned()
		w.commit(map[string]string{"acme/a": "one", "shop/a": "one", "shop-eu/a": "one"})
		var nodes []*node
		var stops []func()
		for i, globs := range [][]string{nil, {"acme"}, {"shop*"}, {"acme", "shop"}, {"nobody"}} {
			n := newNode(w, fmt.Sprint("n", i))
			n.tenants = selector(t, globs...)
			nodes = append(nodes, n)
			f, stop := n.run(t.Context(), uint64(i+1))
			stops = append(stops, func() {
				stop()
				if revision, _ := f.Position(time.Now()); revision != w.head {
					t.Errorf("%s is at %d, the head is %d", n.name, revision, w.head)
				}
			})
		}
		pass(time.Second)
		before, _ := w.counts()
		for i := range 20 {
			w.commit(map[string]string{"acme/a": fmt.Sprint("one ", i)})
			w.commit(map[string]string{"shop/a": fmt.Sprint("one ", i), "shop-eu/b": fmt.Sprint("one ", i)})
			w.commit(map[string]string{"other/a": fmt.Sprint("one ", i)})
			w.beacon()
			pass(time.Second)
		}
		w.commit(map[string]string{"acme/a": "", "shop-eu/b": "", "other/a": ""})
		w.beacon()
		pass(time.Second)
		for _, n := range nodes {
			n.expect(n.name)
			if got := n.status.GetTenants(); !slices.Equal(got, n.tenants.Globs()) {
				t.Errorf("%s reports to follow %v", n.name, got)
			}
			if n.metric(drifts, "") != 0 {
				t.Errorf("%s drifted", n.name)
			}
		}
		if after, _ := w.counts(); after != before {
			t.Errorf("%d syncs were made", after-before)
		}
		for _, stop := range stops {
			stop()
		}
	})
}

// A beacon moves an agent on over what does not concern it, so that its position
// says what it has; it does not report each such move.
func TestOtherGroupsMoveTheCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1).unsigned()
		n := newNode(w, "n")
		n.tenants = selector(t, "acme")
		f, stop := n.run(t.Context(), 1)
		pass(time.Second)
		reports := len(n.reports)
		for i := range 50 {
			w.commit(map[string]string{"shop/a": fmt.Sprint("one ", i)})
			w.beacon()
			pass(time.Second)
			if revision, stale := f.Position(time.Now()); revision != w.head || stale > time.Second {
				t.Fatalf("at %d, %v old, the head is %d", revision, stale, w.head)
			}
		}
		if got := len(n.reports) - reports; got > 12 {
			t.Errorf("%d reports in 50 seconds", got)
		}
		stop()
	})
}

func TestRotation(t *testing.T) {
	simulateSigned(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(map[string]string{"a": "one", "b": "one", "c": "one"})
		pass(100 * time.Millisecond)
		w.commit(map[string]string{"c": "bad"})
		pass(2 * time.Second)
		old, next := seal.KeyID(publicOf(newKey(1))), seal.KeyID(publicOf(newKey(2)))
		reported := func() []string {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.status.GetDiskKeys()
		}
		if got := reported(); !slices.Equal(got, []string{old}) {
			t.Errorf("before, the disk's keys are %v", got)
		}
		n.trusted.Replace(publicOf(newKey(1)), publicOf(newKey(2)))
		prepared := n.prepared
		_, before := w.counts()
		w.mu.Lock()
		w.sealer = seal.NewSealer(newKey(2))
		w.mu.Unlock()
		pass(30 * time.Second)
		// c's last good release is not in the registry any more: its envelope stays.
		if got := reported(); !slices.Contains(got, next) || len(got) != 2 {
			t.Errorf("the disk's keys are %v", got)
		}
		w.commit(map[string]string{"c": "two"})
		pass(time.Second)
		if got := reported(); !slices.Equal(got, []string{next}) {
			t.Errorf("after, the disk's keys are %v", got)
		}
		pass(10 * time.Minute)
		if _, after := w.counts(); after-before > 3 {
			t.Errorf("%d full answers", after-before)
		}
		if n.prepared > prepared+1 {
			t.Errorf("%d programs were compiled again", n.prepared-prepared)
		}
		n.trusted.Replace(publicOf(newKey(2)))
		w.commit(map[string]string{"a": "two"})
		pass(time.Second)
		n.expect("with the new key alone")
	})
}

// While registries switch one by one, leader and answers are signed by different
// keys.
func TestHalfARotationIsNoStorm(t *testing.T) {
	simulateSigned(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(map[string]string{"a": "one"})
		pass(2 * time.Second)
		n.trusted.Replace(publicOf(newKey(1)), publicOf(newKey(2)))
		_, before := w.counts()
		for i := range 1200 { // twenty minutes of beacons by one and answers by the other
			w.mu.Lock()
			w.sealer = seal.NewSealer(newKey(1 + byte(i%2)))
			w.mu.Unlock()
			pass(time.Second)
		}
		if _, after := w.counts(); after-before > 15 {
			t.Errorf("%d full answers in twenty minutes", after-before)
		}
		n.expect("after that")
	})
}

func TestReportsAreAsFarApartAsTheRegistryAsks(t *testing.T) {
	for asked, want := range map[time.Duration]struct{ least, most int }{
		0: {150, 210}, 50 * time.Millisecond: {150, 210}, time.Second: {19, 23}, time.Hour: {4, 6},
	} {
		t.Run(asked.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1).unsigned()
				n := newNode(w, "n")
				_, stop := n.run(t.Context(), 1)
				pass(time.Second)
				w.mu.Lock()
				b := w.beaconOf("all")
				b.ReportInterval, b.Sequence = durationpb.New(asked), 1
				for h := range w.handlers {
					h.Beacon(w.seal(b))
				}
				w.mu.Unlock()
				pass(5 * time.Second)
				before := len(n.reports)
				for i := range 400 {
					w.commit(map[string]string{"a": fmt.Sprint("one ", i)})
					pass(50 * time.Millisecond)
				}
				if got := len(n.reports) - before; got < want.least || got > want.most {
					t.Errorf("%d reports in 20 s", got)
				}
				stop()
			})
		})
	}
}

// The feed of a registry that counts beacons anew takes over with its term.
func TestTakeover(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(map[string]string{"a": "one"})
		pass(3 * time.Second)
		w.mu.Lock()
		w.term, w.sequence = w.term+5, 0
		w.mu.Unlock()
		before, _ := w.counts()
		pass(20 * time.Second)
		if after, _ := w.counts(); after != before || n.refused("replayed") != 0 {
			t.Errorf("%d syncs, %d beacons refused", after-before, n.refused("replayed"))
		}
	})
}
