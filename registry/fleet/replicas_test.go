package fleet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// replica is a fleet that runs as it does in a registry.
type replica struct {
	*fleet.Fleet
	stop func()
}

// replicas are three of them, with one memory and one store.
type replicas struct {
	t      *testing.T
	all    [3]*replica
	leader atomic.Int32
	memory *sharedMemory
	state  registry.State
}

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	rs := &replicas{t: t, memory: newSharedMemory(), state: registry.State{Fleet: fleetID, Head: 1}}
	for i := range rs.all {
		rs.start(i)
	}
	t.Cleanup(func() {
		for _, r := range rs.all {
			r.stop()
		}
	})
	return rs
}

func (rs *replicas) start(i int) {
	f := fleet.New(fleet.Config{DropAfter: time.Minute})
	ctx, cancel := context.WithCancel(rs.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		f.Keep(ctx, rs.memory, func() bool { return rs.leader.Load() == int32(i) }, slog.New(slog.DiscardHandler))
	})
	running.Go(func() {
		ticker := time.NewTicker(250 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				f.Sweep()
			case <-ctx.Done():
				return
			}
		}
	})
	f.Reset(rs.state)
	<-f.Recalled()
	f.RollCalled()
	rs.all[i] = &replica{Fleet: f, stop: func() { cancel(); running.Wait() }}
}

func (rs *replicas) restart(i int) {
	rs.all[i].stop()
	rs.start(i)
}

// commit makes every replica know of the release.
func (rs *replicas) commit(name script.Name, deleted bool) {
	rs.state.Head++
	r := script.Release{
		Name: name, Revision: rs.state.Head, Latest: 1, Enabled: true, ChangedAt: time.Now(), Deleted: deleted,
		Active: script.Version{Number: 1},
	}
	kept := rs.state.Releases[:0:0]
	for _, old := range rs.state.Releases {
		if old.Name != name {
			kept = append(kept, old)
		}
	}
	rs.state.Releases = append(kept, r)
	for _, f := range rs.all {
		f.Apply(registry.Transaction{Revision: r.Revision, Releases: []script.Release{r}})
	}
}

// says is what a replica tells, but for what the clock alone decides.
func (r *replica) says(t *testing.T) string {
	t.Helper()
	agents := r.Agents(fleet.AgentFilter{})
	for i := range agents.Agents {
		agents.Agents[i].UnheardFor = 0
	}
	text, err := json.MarshalIndent([]any{r.Status(fleet.Filter{}), agents}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (rs *replicas) wantAgreement(when string) {
	rs.t.Helper()
	first := rs.all[0].says(rs.t)
	for i, r := range rs.all[1:] {
		other := r.says(rs.t)
		if other == first {
			continue
		}
		a, b, at := strings.Split(first, "\n"), strings.Split(other, "\n"), 0
		for at < min(len(a), len(b)) && a[at] == b[at] {
			at++
		}
		some := func(lines []string) string { return strings.Join(lines[max(0, at-12):min(len(lines), at+3)], "\n") }
		rs.t.Fatalf("%s: replica 0 says\n%s\nreplica %d says\n%s", when, some(a), i+1, some(b))
	}
}

// node is an agent as replicas hear it.
type node struct {
	name        string
	tenants     script.Selector
	starts      int
	sequence    uint64
	activated   script.Revision
	failed      map[script.Name]script.Revision
	dead        bool
	keys        []string
	lastReports []fleet.Report // not delivered yet
}

func (n *node) report(leaving bool) {
	n.sequence++
	r := fleet.Report{
		Fleet: fleetID, Agent: n.name, Incarnation: fmt.Sprint(n.name, n.starts), Sequence: n.sequence, Activated: n.activated,
		Tenants: n.tenants, DiskKeys: n.keys, Leaving: leaving, Software: fmt.Sprint("v", n.starts), Labels: map[string]string{"node": n.name},
	}
	for name, revision := range n.failed {
		r.Failures = append(r.Failures, fleet.Failure{Name: name, Revision: revision, Err: &script.Error{Kind: script.Script, Message: "boom", Line: 3}})
	}
	n.lastReports = append(n.lastReports, r)
}

// TestReplicasAgree: three replicas that hear the same reports in different orders,
// and are started anew now and then, say the same once the agents had the time to
// report.
func TestReplicasAgree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		w := &wildlife{rs: newReplicas(t), random: rand.New(rand.NewPCG(seed, 1))}
		for _, globs := range [][]string{nil, nil, nil, {"acme"}, {"acme"}, {"s*"}, {"nobody"}, {"acme", "shop"}} {
			tenants, err := script.ParseSelector(globs)
			if err != nil {
				t.Fatal(err)
			}
			w.nodes = append(w.nodes, &node{name: fmt.Sprint("n", len(w.nodes)), tenants: tenants, failed: map[script.Name]script.Revision{}})
		}
		for round := range 6 {
			for range 60 {
				w.act()
				w.deliver()
				<-time.After(time.Duration(w.random.IntN(500)) * time.Millisecond)
			}
			for range 5 { // quiet
				w.heartbeat()
				w.deliver()
				<-time.After(5 * time.Second)
			}
			w.rs.wantAgreement(fmt.Sprint("round ", round))
			w.check(t)
		}
	})
}

// wildlife is what agents, writers and replicas do by chance.
type wildlife struct {
	rs     *replicas
	random *rand.Rand
	nodes  []*node
}

var livestock = []script.Name{
	{Tenant: "acme", Script: "route"}, {Tenant: "acme", Script: "auth"}, {Tenant: "shop", Script: "cart"}, {Tenant: "stock", Script: "price"},
}

func (w *wildlife) act() {
	n := w.nodes[w.random.IntN(len(w.nodes))]
	name := livestock[w.random.IntN(len(livestock))]
	switch w.random.IntN(14) {
	case 0, 1:
		w.rs.commit(name, w.random.IntN(5) == 0)
	case 2:
		w.rs.restart(w.random.IntN(3))
	case 3:
		w.rs.leader.Store(w.random.Int32N(3))
	case 4:
		if !n.dead {
			n.report(true)
		}
		n.dead = true
	case 5:
		n.dead = true // without a word
	case 6:
		n.starts++
		n.dead, n.sequence, n.activated = false, 0, max(0, n.activated-2)
		clear(n.failed)
		n.report(false)
	case 7:
		if !n.dead {
			n.activated = w.rs.state.Head
			n.failed[name] = w.rs.state.Head
			n.report(false)
		}
	default:
		if !n.dead {
			n.activated = min(w.rs.state.Head, n.activated+script.Revision(w.random.IntN(4)))
			if w.random.IntN(3) == 0 {
				clear(n.failed)
			}
			n.report(false)
		}
	}
}

func (w *wildlife) heartbeat() {
	for _, n := range w.nodes {
		if !n.dead {
			n.activated = w.rs.state.Head
			n.report(false)
		}
	}
}

// deliver hands what was reported to each replica in an order of its own.
func (w *wildlife) deliver() {
	var reports []fleet.Report
	for _, n := range w.nodes {
		reports = append(reports, n.lastReports...)
		n.lastReports = nil
	}
	for _, r := range w.rs.all {
		for _, i := range w.random.Perm(len(reports)) {
			r.Heard(reports[i])
		}
	}
	synctest.Wait()
}

// check compares the counts with those of the agents themselves.
func (w *wildlife) check(t *testing.T) {
	t.Helper()
	for _, s := range w.rs.all[0].Status(fleet.Filter{}).Scripts {
		var active, failed int
		for _, n := range w.nodes {
			switch {
			case n.dead || !n.tenants.Matches(s.Release.Name.Tenant):
			case n.failed[s.Release.Name] >= s.Release.Revision:
				failed++
			default:
				active++
			}
		}
		if s.Active != active || s.Failed != failed || s.Converged != (failed == 0 && active > 0) || s.Desired != active+failed+s.Unknown {
			t.Fatalf("%s: %+v; want %d active, %d failed", s.Release.Name, s, active, failed)
		}
	}
}

// TestRememberedByOthers: a replica that is started anew knows of the agents that it
// has never heard, and reports of a rollout what others reported before.
func TestRememberedByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newReplicas(t)
		nodes := []*node{{name: "a"}, {name: "b"}}
		w := &wildlife{rs: rs, random: rand.New(rand.NewPCG(1, 1)), nodes: nodes}
		w.heartbeat()
		w.deliver()
		pass(2 * time.Second)
		rs.commit(route, false)
		pass(7 * time.Millisecond)
		w.heartbeat()
		w.deliver()
		pass(time.Second)
		nodes[1].dead = true
		for range 4 {
			w.heartbeat()
			w.deliver()
			pass(5 * time.Second)
		}
		rs.leader.Store(1)
		rs.restart(0)
		w.heartbeat()
		w.deliver()
		pass(8 * time.Second) // for b, too
		rs.wantAgreement("after a restart")
		s := rs.all[0].Status(fleet.Filter{}).Scripts[0]
		if s.Unknown != 1 || s.Desired != 2 || !s.Converged || s.Rollout == nil || s.Rollout.Slowest != 7*time.Millisecond || s.Rollout.Agents != 2 {
			t.Errorf("after a restart: %+v, %+v", s, s.Rollout)
		}
		if b := rs.all[0].Agents(fleet.AgentFilter{}).Agents[1]; b.UnheardFor != 29*time.Second || b.Labels["node"] != "b" {
			t.Errorf("after a restart: %+v; want b unheard for 29 s", b)
		}
		for range 20 { // the leader drops it, so all do
			w.heartbeat()
			w.deliver()
			pass(5 * time.Second)
		}
		rs.wantAgreement("after it was dropped")
		if c := rs.all[0].Counts(); c.Connected != 1 || c.Unknown != 0 || len(rs.memory.agents) != 1 {
			t.Errorf("%+v, %d remembered; want b forgotten", c, len(rs.memory.agents))
		}
	})
}

// TestKeysAreRemembered: which keys a disk needs is known although its agent and
// all replicas died since.
func TestKeysAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newReplicas(t)
		n := &node{name: "a"}
		w := &wildlife{rs: rs, random: rand.New(rand.NewPCG(1, 1)), nodes: []*node{n}}
		for _, keys := range [][]string{nil, {"old"}} { // its disk is empty at first
			n.keys = keys
			w.heartbeat()
			w.deliver()
			pass(5 * time.Second)
		}
		n.dead = true
		for i := range rs.all {
			rs.restart(i)
		}
		pass(20 * time.Second)
		a := rs.all[0].Agents(fleet.AgentFilter{}).Agents[0]
		if !a.Unknown || !slices.Equal(a.DiskKeys, []string{"old"}) || a.Behind != 0 {
			t.Errorf("%+v; want an unknown agent that needs the key", a)
		}
	})
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestMemoryIsBroken: nothing is lost that was found out while the memory could not
// be written, and heartbeats write nothing.
func TestMemoryIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newReplicas(t)
		w := &wildlife{rs: rs, random: rand.New(rand.NewPCG(1, 1))}
		for i := range 500 {
			w.nodes = append(w.nodes, &node{name: fmt.Sprint("n", i)})
		}
		rs.memory.set(func() { rs.memory.broken = true })
		w.heartbeat()
		w.deliver()
		rs.commit(route, false)
		pass(time.Second)
		w.heartbeat()
		w.deliver()
		pass(2 * time.Second)
		if len(rs.memory.agents) != 0 {
			t.Fatal("the memory is not broken")
		}
		rs.leader.Store(2) // which has seen the same
		rs.memory.set(func() { rs.memory.broken = false })
		pass(2 * time.Second)
		if len(rs.memory.agents) != 500 || len(rs.memory.rollouts) != 1 || rs.memory.largest > fleet.MaxMemos {
			t.Errorf("%d agents and %d rollouts are remembered, %d at once", len(rs.memory.agents), len(rs.memory.rollouts), rs.memory.largest)
		}
		writes := rs.memory.writes
		for range 10 {
			w.heartbeat()
			w.deliver()
			pass(5 * time.Second)
		}
		if rs.memory.writes != writes {
			t.Errorf("heartbeats made %d writes", rs.memory.writes-writes)
		}
	})
}
