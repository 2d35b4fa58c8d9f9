package follow_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	valueK  = "values/acme/k"
	valueDV = "values/acme/deep/v"
	tenantA = "tenants/acme"
)

// all has one object of each kind, and one more value.
func all(text string) map[string]string {
	return map[string]string{"a": text, valueK: text, valueDV: text + " deep", tenantA: text}
}

// none deletes them.
func none() map[string]string {
	return map[string]string{"a": "", valueK: "", valueDV: "", tenantA: ""}
}

func (n *node) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.live)
}

func TestObjectsOfAllKindsAreFollowed(t *testing.T) {
	simulateSigned(t, func(w *world, n *node, _ *follow.Follower) {
		before, _ := w.counts()
		for i := range 10 {
			at := w.commit(all(fmt.Sprint("edition ", i)))
			synctest.Wait()
			for _, key := range []string{valueK, valueDV, tenantA, "releases/acme/a"} {
				if got := n.Revision(key); got != at {
					t.Errorf("%s is at %d, wanted %d", key, got, at)
				}
			}
		}
		pass(2 * time.Second)
		n.expect("after events")
		w.commit(none())
		pass(2 * time.Second)
		n.expect("after tombstones")
		if after, _ := w.counts(); after != before || n.count() != 0 || n.metric(drifts, "") != 0 {
			t.Errorf("%d syncs were made, %d are live, %d drifts", after-before, n.count(), n.metric(drifts, ""))
		}
	})
}

// TestGapsOfAllKinds are mended by a difference, tombstones included.
func TestGapsOfAllKinds(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(all("one"))
		pass(time.Second)
		_, fulls := w.counts()
		w.set(faults{lose: 1})
		w.commit(map[string]string{valueK: "two", valueDV: "", tenantA: "two, longer"})
		w.commit(map[string]string{"values/acme/new": "one"})
		w.set(faults{})
		w.commit(map[string]string{"a": "two"})
		pass(250 * time.Millisecond)
		n.expect("after a gap")
		w.set(faults{lose: 1})
		w.commit(map[string]string{"values/acme/new": "", tenantA: ""})
		w.set(faults{})
		pass(1250 * time.Millisecond)
		n.expect("after a silent loss")
		if _, after := w.counts(); after != fulls {
			t.Errorf("%d full answers", after-fulls)
		}
	})
}

func TestAFullAnswerSaysWhatIsGone(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(all("one"))
		pass(time.Second)
		w.set(faults{lose: 1, floor: 1})
		w.commit(map[string]string{valueK: "", tenantA: "", "values/shop/k": "one"})
		pass(4 * time.Second)
		n.expect("after a full answer")
		if got := n.count(); got != 3 {
			t.Errorf("%d are live", got)
		}
	})
}

// TestARegistryThatKnowsReleasesAlone says nothing of values and tenants: what an agent
// has of them stays, until one that knows them says what became of them.
func TestARegistryThatKnowsReleasesAlone(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(all("one"))
		pass(time.Second)
		w.mu.Lock()
		w.narrow, w.faults.floor = true, 1
		w.faults.silent = true
		w.mu.Unlock()
		n.mu.Lock()
		n.damaged = true // its position passes what it is not told
		n.mu.Unlock()
		w.commit(map[string]string{"a": "two"})
		w.commit(map[string]string{valueK: "two", valueDV: ""}) // by a registry of today, meanwhile
		pass(10 * time.Second)
		if n.Revision(valueK) == 0 || n.Revision(valueDV) == 0 || n.Revision(tenantA) == 0 {
			t.Error("a registry that does not know of them has removed them")
		}
		if got := n.Revision("releases/acme/a"); got == 0 || n.metric(drifts, "") != 0 {
			t.Errorf("the release is at %d, %d drifts", got, n.metric(drifts, ""))
		}
		w.mu.Lock()
		w.narrow, w.faults = false, faults{}
		w.mu.Unlock()
		pass(twoBeacons)
		n.expect("with a registry that knows them")
	})
}

// Revisions of two fleets do not compare, whatever the registry knows.
func TestAnAdoptedFleetReplacesAllKinds(t *testing.T) {
	for _, narrow := range []bool{false, true} {
		t.Run(fmt.Sprint("releases alone: ", narrow), func(t *testing.T) {
			simulateIn(t, adopting, func(w *world, n *node, _ *follow.Follower) {
				for i := range 10 {
					w.commit(all(fmt.Sprint("old ", i)))
				}
				pass(time.Second)
				w.rebuild()
				w.mu.Lock()
				w.narrow = narrow
				w.mu.Unlock()
				w.commit(map[string]string{"a": "new"})
				if !narrow {
					w.commit(map[string]string{valueK: "new"})
				}
				pass(6 * time.Second)
				n.expect("in the other fleet")
			})
		})
	}
}

func TestADriftOfAValueOrATenantIsHealed(t *testing.T) {
	for name, damage := range map[string]func(n *node){
		"a bit of a value's digest flips": func(n *node) {
			v := *n.live[valueK].Value
			v.Digest[3] ^= 1
			n.live[valueK] = script.Object{Value: &v}
		},
		"a value is dropped":   func(n *node) { delete(n.live, valueK); delete(n.kept, valueK) },
		"settings are dropped": func(n *node) { delete(n.live, tenantA); delete(n.kept, tenantA) },
		"a tenant is not walled off": func(n *node) {
			s := *n.live[tenantA].Tenant
			s.Settings.CPU++
			n.live[tenantA] = script.Object{Tenant: &s}
		},
		"a ghost of a value": func(n *node) {
			v := *n.live[valueK].Value
			v.Key.Key = "ghost"
			n.live["values/acme/ghost"] = script.Object{Value: &v}
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world, n *node, _ *follow.Follower) {
				w.commit(all("one"))
				pass(1500 * time.Millisecond)
				n.mu.Lock()
				n.damaged = true
				damage(n)
				n.mu.Unlock()
				if n.converged() == "" {
					t.Fatal("nothing is wrong")
				}
				pass(twoBeacons)
				n.expect("after two beacons")
				if got := n.metric(drifts, ""); got != 1 {
					t.Errorf("%d drifts are counted", got)
				}
			})
		})
	}
}

func TestALostContentComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := newNode(w, "n")
		_, stop := n.run(t.Context(), 1)
		w.commit(all("one"))
		pass(time.Second)
		stop()
		d := script.DigestOf([]byte("one deep"))
		delete(n.sources, d)
		w.set(faults{down: true})
		_, stop = n.run(t.Context(), 1)
		pass(3 * time.Second)
		if fs := n.status.GetFailures(); len(fs) != 1 || fs[0].GetKey() != valueDV || fs[0].GetError().GetKind() != "UNAVAILABLE" {
			t.Errorf("failures %v", fs)
		}
		w.set(faults{})
		pass(8 * time.Second)
		n.expect("after the content was lost")
		if !n.HasSource(d) || len(n.status.GetFailures()) != 0 {
			t.Errorf("the content is not back; failures %v", n.status.GetFailures())
		}
		stop()
	})
}

func TestForgedObjectsAreRefused(t *testing.T) {
	simulateSigned(t, func(w *world, n *node, _ *follow.Follower) {
		w.commit(all("one"))
		pass(1500 * time.Millisecond)
		w.mu.Lock()
		stranger := seal.NewSealer(newKey(66))
		for _, key := range []string{valueK, tenantA} {
			evil := &eventv1.Event{
				Fleet: w.fleet, Group: "all", Revision: int64(w.head + 1), PreviousRevision: int64(w.head),
				Entries: [][]byte{sealWith(t, stranger, wire.FromObjectEntry(w.fleet, tombstone(key, w.head+1)))},
			}
			for h := range w.handlers {
				h.Event(sealWith(t, stranger, evil))
				h.Event(changed(t, w.seal(evil), func(e *eventv1.Envelope) { e.Payload[len(e.Payload)/2] ^= 1 }))
			}
		}
		w.mu.Unlock()
		pass(500 * time.Millisecond)
		n.expect("after forgeries")
		if n.refused("unknown_key") != 2 || n.refused("forged") != 2 {
			t.Errorf("%d are refused as of a stranger, %d as forged", n.refused("unknown_key"), n.refused("forged"))
		}
	})
}

// TestContentThatIsNotItsDigest does not go live.
func TestContentThatIsNotItsDigest(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		first := w.commit(map[string]string{valueK: "one"})
		pass(time.Second)
		w.mu.Lock()
		w.large = true
		w.faults.cut = 1 // what is fetched was tampered with
		w.mu.Unlock()
		w.commit(map[string]string{valueK: "two"})
		pass(5 * time.Second)
		if got := n.Revision(valueK); got != first {
			t.Errorf("the value is at %d", got)
		}
		if fs := n.status.GetFailures(); len(fs) != 1 || fs[0].GetKey() != valueK {
			t.Errorf("failures %v", fs)
		}
		w.set(faults{})
		pass(2 * time.Second)
		n.expect("with sound contents")
	})
}

// What cannot be understood fails, is reported and does not keep the rest from going
// live.
func TestObjectsThatCannotBeRead(t *testing.T) {
	for name, evil := range map[string]func(at script.Revision) *eventv1.Object{
		"a value in the place of another": func(at script.Revision) *eventv1.Object {
			o := wire.FromObject(script.Object{Value: &script.Value{
				Key: script.ValueKey{Tenant: "acme", Key: "other"}, Revision: at, Digest: script.DigestOf(nil),
			}})
			o.Key = valueK
			return o
		},
		"a value that is too large": func(at script.Revision) *eventv1.Object {
			return wire.FromObject(script.Object{Value: &script.Value{
				Key: script.ValueKey{Tenant: "acme", Key: "k"}, Revision: at, Digest: script.DigestOf(nil), Size: 1 << 30,
			}})
		},
		"a release in the place of a value": func(at script.Revision) *eventv1.Object {
			o := wire.FromObject(tombstone("releases/acme/a", at))
			o.Key = valueK
			return o
		},
		"an isolation of the future": func(at script.Revision) *eventv1.Object {
			return wire.FromObject(script.Object{Tenant: &script.Tenant{
				Name: "acme", Revision: at, Settings: script.TenantSettings{Isolation: "planet"},
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world, n *node, _ *follow.Follower) {
				w.commit(all("one"))
				pass(time.Second)
				before := map[string]script.Revision{valueK: n.Revision(valueK), tenantA: n.Revision(tenantA)}
				w.mu.Lock()
				at := w.head + 1
				o := evil(at)
				e := &eventv1.Event{
					Fleet: w.fleet, Group: "all", Revision: int64(at), PreviousRevision: int64(w.head),
					Entries: [][]byte{w.seal(&eventv1.Entry{Fleet: w.fleet, Object: o})},
				}
				w.head, w.groups["all"].last = at, at
				w.wrong = true // the world does not have it
				for h := range w.handlers {
					h.Event(w.seal(e))
				}
				w.mu.Unlock()
				w.commit(map[string]string{"b": "one"})
				pass(300 * time.Millisecond)
				if n.Revision("releases/acme/b") == 0 {
					t.Error("what came after is not live")
				}
				for key, want := range before {
					if got := n.Revision(key); got != want {
						t.Errorf("%s went from %d to %d", key, want, got)
					}
				}
				fs := n.status.GetFailures()
				if len(fs) != 1 || fs[0].GetKey() != o.GetKey() || fs[0].GetError().GetKind() != "INVALID" {
					t.Errorf("failures %v", fs)
				}
			})
		})
	}
}

func TestKindsThatAreNotKnownArePassedOver(t *testing.T) {
	simulate(t, func(w *world, n *node, f *follow.Follower) {
		w.mu.Lock()
		at := w.head + 1
		e := &eventv1.Event{
			Fleet: w.fleet, Group: "all", Revision: int64(at), PreviousRevision: int64(w.head),
			Entries: [][]byte{
				w.seal(&eventv1.Entry{Fleet: w.fleet, Object: &eventv1.Object{Key: "gadgets/acme/a", Revision: int64(at)}}),
				w.seal(&eventv1.Entry{Fleet: w.fleet, Object: &eventv1.Object{Key: "values/acme/a", Revision: int64(at)}}),
			},
		}
		w.head, w.groups["all"].last = at, at
		for h := range w.handlers {
			h.Event(w.seal(e))
		}
		w.mu.Unlock()
		pass(2 * time.Second)
		if revision, _ := f.Position(time.Now()); revision != at || n.count() != 0 || len(n.status.GetFailures()) != 0 {
			t.Errorf("at %d of %d, %d live, failures %v", revision, at, n.count(), n.status.GetFailures())
		}
	})
}

func TestGroupsFollowValuesOfTheirTenantsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1).unsigned()
		n := newNode(w, "n")
		n.tenants = selector(t, "shop*")
		_, stop := n.run(t.Context(), 1)
		pass(time.Second)
		for i := range 5 {
			w.commit(all(fmt.Sprint("edition ", i)))
			w.commit(map[string]string{"values/shop/k": fmt.Sprint("edition ", i), "tenants/shop-eu": fmt.Sprint("edition ", i)})
			w.beacon()
			pass(time.Second)
		}
		n.expect("its own")
		n.mu.Lock()
		keys := slices.Sorted(func(yield func(string) bool) {
			for key := range n.live {
				if !yield(key) {
					return
				}
			}
		})
		n.mu.Unlock()
		if !slices.Equal(keys, []string{"tenants/shop-eu", "values/shop/k"}) || n.metric(drifts, "") != 0 {
			t.Errorf("live: %v; %d drifts", keys, n.metric(drifts, ""))
		}
		stop()
	})
}
