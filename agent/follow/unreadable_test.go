package follow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/script"
)

// lose makes the records of the objects unreadable. The registry knows what they were
// before, or does not.
func (w *world) lose(knows bool, keys ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost, w.knows = keys, knows
}

// set of all kinds of objects, of two tenants.
func (w *world) furnish() []string {
	w.commit(map[string]string{"values/acme/k": "content", "values/acme/l": "content"})
	w.commit(map[string]string{"a": "one", "b": "one", "tenants/acme": "settings", "shop/s": "one", "tenants/shop": "settings"})
	return []string{"releases/acme/a", "values/acme/k", "tenants/acme"}
}

// TestWhatTheRegistryCannotReadStays: what is live of it stays through beacons, events, polls
// and full snapshots, whether or not the registry that answers knows what it was; nobody
// takes that for a drift, and all else goes on.
func TestWhatTheRegistryCannotReadStays(t *testing.T) {
	for _, knows := range []bool{true, false} {
		simulate(t, func(w *world, n *node, _ *follow.Follower) {
			keys := w.furnish()
			pass(1500 * time.Millisecond)
			n.expect("before")
			w.lose(knows, keys...)
			pass(twoBeacons)
			n.expect("with records that cannot be read")
			w.commit(map[string]string{"b": "two", "values/acme/l": ""})
			pass(1500 * time.Millisecond)
			n.expect("after a change of others")
			w.set(faults{floor: 1, silent: true}) // polls, and all answers are full
			pass(6 * time.Second)
			n.expect("after full snapshots")
			w.commit(map[string]string{"b": "three"})
			pass(6 * time.Second)
			n.expect("after a change of others, polled")
			w.set(faults{})
			if got := n.metric(drifts, ""); got != 0 {
				t.Errorf("%d drifts are counted", got)
			}
			w.commit(map[string]string{"a": "repaired", "values/acme/k": "repaired", "tenants/acme": "repaired"})
			w.lose(true)
			pass(twoBeacons)
			n.expect("after a repair")
			if got := n.metric(drifts, ""); got != 0 {
				t.Errorf("%d drifts are counted after the repair", got)
			}
		})
	}
}

// TestADriftShowsBesideWhatCannotBeRead: the others are still compared.
func TestADriftShowsBesideWhatCannotBeRead(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		keys := w.furnish()
		pass(1500 * time.Millisecond)
		w.lose(false, keys...)
		pass(1500 * time.Millisecond)
		n.mu.Lock()
		n.damaged = true
		n.spoil("releases/acme/b", func(r *script.Release) { r.Enabled = false })
		n.mu.Unlock()
		pass(twoBeacons)
		n.expect("after two beacons")
		if got := n.metric(drifts, ""); got != 1 {
			t.Errorf("%d drifts are counted", got)
		}
	})
}

// TestAnOldEntryDoesNotReplaceWhatIsLive: a registry that knows an edition of long ago is not
// believed, where it cannot read the record.
func TestAnOldEntryDoesNotReplaceWhatIsLive(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(map[string]string{"a": "one", "b": "one"})
		w.mu.Lock()
		old, at := w.now["releases/acme/a"], w.changed["releases/acme/a"]
		w.mu.Unlock()
		last := w.commit(map[string]string{"a": "two"})
		pass(1500 * time.Millisecond)
		w.lose(true, "releases/acme/a")
		w.mu.Lock()
		w.now["releases/acme/a"], w.changed["releases/acme/a"] = old, at
		w.mu.Unlock()
		n.mu.Lock()
		n.damaged = true
		n.spoil("releases/acme/b", func(r *script.Release) { r.Enabled = false }) // so that it asks for everything
		n.mu.Unlock()
		pass(twoBeacons)
		if got := n.Revision("releases/acme/a"); got != last {
			t.Errorf("it is at revision %d, want %d", got, last)
		}
	})
}

// TestAScriptWaitsForSettingsThatCannotBeRead: its tenant may have to run in a process of its
// own. It goes live once somebody can tell.
func TestAScriptWaitsForSettingsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.furnish()
		w.lose(false, "tenants/acme")
		n := newNode(w, "n")
		_, stop := n.run(t.Context(), 1)
		defer stop()
		pass(3 * time.Second)
		if n.Revision("releases/acme/a") != 0 || n.Revision("releases/shop/s") == 0 {
			t.Error("without the settings of acme, its script is live, or the script of shop is not")
		}
		if fs := n.status.GetFailures(); len(fs) != 2 || fs[0].GetError().GetKind() != "UNAVAILABLE" {
			t.Errorf("failures %v", fs)
		}
		w.lose(true, "tenants/acme")
		w.set(faults{floor: 1})
		pass(10 * time.Second)
		n.expect("from a registry that knows what the settings were")
	})
}
