package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// scene runs do in a world of three replicas and four agents without faults.
func scene(t *testing.T, do func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t.Context(), shape{seed: 1, replicas: 3, agents: []string{"", "acme", "b*", ""}}, bugs{})
		end := w.start()
		do(w)
		end()
		violations, history := w.outcome()
		if len(violations) > 0 {
			t.Errorf("%s\nviolations:\n  %s", strings.Join(history, "\n"), strings.Join(violations, "\n  "))
		}
	})
}

// publish adds a version of a script, as step n of no schedule.
func (w *world) publish(n uint64, name script.Name) {
	wr := write{
		id: "request-of-the-scene-" + string(rune('a'+n%26)) + string(rune('a'+n/26)), name: name,
		change: script.ChangePublish, source: []byte("return " + string(rune('a'+n%26))),
	}
	w.perform(wr, n)
}

// TestWithheldFeed: whoever has the bus, and holds messages back or says old ones
// again, holds agents back for little more than a minute.
func TestWithheldFeed(t *testing.T) {
	for name, interfere := range map[string]func(w *world, a *agent){
		"held back": func(_ *world, a *agent) { a.peer.set(linkFaults{hold: time.Hour}) },
		"old beacons again": func(w *world, a *agent) {
			tape := slices.DeleteFunc(w.bus.recorded(), func(m message) bool { return m.subject != subjects.Beacon(a.tenants.Group()) })
			a.peer.set(linkFaults{lose: 1})
			life := a.process.ctx
			w.running.Go(func() {
				for i := 0; rest(life, time.Second) == nil; i++ {
					a.peer.arrive(tape[i%len(tape)])
				}
			})
		},
		"beacons ever later": func(_ *world, a *agent) { a.slowDown() },
	} {
		t.Run(name, func(t *testing.T) {
			const backstop = 80 * time.Second // a minute and its jitter, and some
			scene(t, func(w *world) {
				_ = rest(w.ctx, 10*time.Second)
				interfere(w, w.agents[1])
				for n := range uint64(4) {
					w.publish(n, script.Name{Tenant: "acme", Script: "route"})
					w.await("the agent", backstop, w.unsettledBus)
					_ = rest(w.ctx, 7*time.Second)
				}
			})
		})
	}
}

// slowDown has the agent get beacons alone, at half the speed that they come with.
func (a *agent) slowDown() {
	var mu sync.Mutex
	var waiting []message
	a.peer.mu.Lock()
	receive := a.peer.receive
	a.peer.receive = func(m message) {
		mu.Lock()
		defer mu.Unlock()
		if m.subject == subjects.Beacon(a.tenants.Group()) {
			waiting = append(waiting, m)
		}
	}
	a.peer.mu.Unlock()
	life := a.process.ctx
	a.w.running.Go(func() {
		for rest(life, 2*time.Second) == nil {
			mu.Lock()
			if len(waiting) > 0 {
				receive(waiting[0])
				waiting = waiting[1:]
			}
			mu.Unlock()
		}
	})
}

// unsettledBus says what the second agent lacks; what it reports does not count.
func (w *world) unsettledBus() string { return w.agents[1].unsettled() }

// TestRotation: registries sign with another key, and in a while so is what agents have
// on disk. A single agent that was away does so when it is back.
func TestRotation(t *testing.T) {
	scene(t, func(w *world) {
		w.publish(0, script.Name{Tenant: "acme", Script: "route"})
		w.publish(1, script.Name{Tenant: "bolt", Script: "route"})
		_ = rest(w.ctx, 5*time.Second)
		w.agents[3].crash(crashClean, rand.New(rand.NewPCG(1, 1)))
		w.signing = 1
		for _, r := range w.replicas {
			r.drain()
			r.start()
			_ = rest(w.ctx, 3*time.Second)
		}
		w.agents[3].start()
		w.await("the disks", 30*time.Second, w.oldKey)
		w.await("the agents", convergeWithin, w.unsettledAgent)
	})
}

// oldKey returns an agent whose disk has anything that is signed by another key than
// the one that registries sign with.
func (w *world) oldKey() string {
	for _, a := range w.agents {
		if keys := a.disk.keys(); len(keys) > 1 || len(keys) == 1 && keys[0] != w.sealer().KeyID() {
			return a.name + " has what other keys have signed"
		}
	}
	return ""
}

// TestRegistryAway: agents start and serve what they have without anything else, and
// come up to date when it is back.
func TestRegistryAway(t *testing.T) {
	scene(t, func(w *world) {
		name := script.Name{Tenant: "acme", Script: "route"}
		w.publish(0, name)
		_ = rest(w.ctx, 5*time.Second)
		for _, r := range w.replicas {
			r.kill()
		}
		w.bus.setDown(true)
		for _, a := range w.agents {
			a.crash(crashClean, rand.New(rand.NewPCG(1, 1)))
			a.start()
		}
		_ = rest(w.ctx, time.Minute)
		for _, a := range w.agents {
			if live := a.process.live(name); (live != nil) != a.tenants.Matches(name.Tenant) {
				t.Errorf("%s runs %v", a.name, live)
			}
		}
		w.bus.setDown(false)
		for _, r := range w.replicas {
			r.start()
		}
		w.publish(1, name)
		w.await("the agents", recoverWithin, w.unsettledAgent)
	})
}

// TestDriftInAnOutage: a drift that is found while the registry is away is healed
// soon after it is back, however long that was.
func TestDriftInAnOutage(t *testing.T) {
	scene(t, func(w *world) {
		w.publish(0, script.Name{Tenant: "acme", Script: "route"})
		_ = rest(w.ctx, 5*time.Second)
		a := w.agents[0]
		a.channel.set(callFaults{refuse: true})
		a.drift(rand.New(rand.NewPCG(3, 3)), 0)
		_ = rest(w.ctx, time.Minute)
		a.channel.set(callFaults{})
		w.await("a drift", healWithin, a.unsettled)
	})
}
