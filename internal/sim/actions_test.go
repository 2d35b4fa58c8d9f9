package sim

import (
	"math/rand/v2"
	"strings"
	"time"
)

func splitGlobs(globs string) []string { return strings.Split(globs, ",") }

// do does a step.
func (w *world) do(st step) {
	r := rand.New(rand.NewPCG(st.seed, 4))
	a, rep := w.agents[st.who%len(w.agents)], w.replicas[st.who%len(w.replicas)]
	switch st.kind {
	case stepWrite:
		wr := withPlan(newWrite(st), st.seed)
		w.log("#%d writer: %s", st.number, wr)
		w.writing.Go(func() { w.perform(wr, st.seed) })
	case stepObject:
		w.writing.Go(func() { w.performObject(st) })
	case stepSet:
		w.writing.Go(func() { w.performSet(st) })
	case stepCandidate:
		w.writing.Go(func() { w.moveCandidate(st) })
	case stepBus:
		w.disturbBus(st, r)
	case stepBusDown:
		w.log("#%d the bus: down %v", st.number, st.mode%3 > 0)
		w.bus.setDown(st.mode%3 > 0)
	case stepRegistryLink:
		f := callModes[st.mode%len(callModes)]
		w.log("#%d %s to registry: %+v", st.number, a.name, f)
		a.channel.set(f)
	case stepStoreLink:
		f := storeModes[st.mode%len(storeModes)]
		w.log("#%d %s to store: %+v", st.number, rep.name, f)
		rep.cutStore(f)
	case stepHeal:
		w.log("#%d all links heal", st.number)
		w.healLinks()
	case stepCrashAgent:
		w.log("#%d crash %s: %v", st.number, a.name, crash(st.mode%int(crashes)))
		a.crash(crash(st.mode%int(crashes)), r)
	case stepStartAgent:
		w.log("#%d start %s", st.number, a.name)
		a.start()
	case stepDisk:
		f := diskModes[st.mode%len(diskModes)]
		w.log("#%d disk of %s: %+v", st.number, a.name, f)
		a.disk.set(f)
	case stepDrift:
		a.drift(r, st.number)
	default:
		w.doToRegistry(st, rep, r)
	}
}

func (w *world) doToRegistry(st step, rep *replica, r *rand.Rand) {
	switch st.kind {
	case stepKillReplica:
		w.log("#%d kill %s, leader: %v", st.number, rep.name, rep == w.election.leader())
		rep.kill()
	case stepStartReplica:
		w.log("#%d start %s", st.number, rep.name)
		rep.start()
	case stepDrainReplica:
		w.log("#%d drain %s, leader: %v", st.number, rep.name, rep == w.election.leader())
		rep.drain()
	case stepHandOver:
		w.log("#%d another replica leads", st.number)
		w.election.depose(0)
	case stepTwoLeaders:
		d := time.Duration(st.mode) * 100 * time.Millisecond
		w.log("#%d another replica leads; the one before learns of it after %v", st.number, d)
		w.election.depose(d)
	case stepCompact:
		w.log("#%d the store forgets its past", st.number)
		w.truth.compact()
	case stepCollect:
		w.log("#%d %s collects", st.number, rep.name)
		rep.collect(st.mode)
	case stepClock:
		d := clockJumps[st.mode%len(clockJumps)]
		w.log("#%d the registries' clocks jump by %v", st.number, d)
		w.mu.Lock()
		w.skew += d
		w.mu.Unlock()
	case stepForge:
		w.forge(st, r)
	case stepSpoil:
		w.spoil(st)
	case stepRotate:
		w.log("#%d registries that start from now on sign with the other key", st.number)
		w.signing = 1 - w.signing
	case stepForgetGroup:
		tenants := w.agents[st.who%len(w.agents)].tenants
		w.log("#%d the group of %s is removed, as one is that nobody follows", st.number, tenants)
		w.truth.groups.forget(tenants)
	}
}

// Ways in which things go wrong.
var (
	busModes = []linkFaults{
		{lose: 0.3},
		{lose: 1},
		{double: 0.5},
		{late: 0.4, by: 300 * time.Millisecond},
		{late: 0.5, by: 5 * time.Second, double: 0.2},
		{lose: 0.2, double: 0.2, late: 0.3, by: time.Second},
		{hold: 2 * time.Second},
		{hold: 20 * time.Second},
		{cut: true},
		{},
	}
	callModes = []callFaults{
		{refuse: true},
		{hang: true},
		{slow: time.Second},
		{cut: 0.3},
		{tamper: 0.5},
		{slow: 300 * time.Millisecond, cut: 0.1, tamper: 0.1},
		{},
	}
	storeModes = []storeFaults{
		{cut: true},
		{hang: true},
		{fail: 0.3},
		{forget: 0.5},
		{slow: 800 * time.Millisecond},
		{fail: 0.1, forget: 0.2, slow: 100 * time.Millisecond},
		{},
	}
	diskModes = []diskFaults{
		{full: true},
		{fail: 0.4},
		{slow: 500 * time.Millisecond},
		{fail: 0.2, slow: 50 * time.Millisecond},
		{},
	}
	clockJumps = []time.Duration{-time.Hour, -3 * time.Second, 5 * time.Second, time.Hour, 48 * time.Hour}
)

// disturbBus changes the connection of an agent or of a replica.
func (w *world) disturbBus(st step, r *rand.Rand) {
	f := busModes[st.mode%len(busModes)]
	if r.IntN(4) == 0 {
		rep := w.replicas[st.who%len(w.replicas)]
		w.log("#%d %s to the bus: %+v", st.number, rep.name, f)
		rep.peer.set(f)
		return
	}
	a := w.agents[st.who%len(w.agents)]
	w.log("#%d %s to the bus: %+v", st.number, a.name, f)
	a.peer.set(f)
}

func (w *world) healLinks() {
	w.bus.setDown(false)
	for _, a := range w.agents {
		a.peer.set(linkFaults{})
		a.channel.set(callFaults{})
	}
	for _, r := range w.replicas {
		r.peer.set(linkFaults{})
		r.cutStore(storeFaults{})
	}
}
