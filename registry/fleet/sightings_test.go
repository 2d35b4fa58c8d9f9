package fleet_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
)

// sightings are what a fleet has told.
type sightings struct {
	mu  sync.Mutex
	all []string
}

func (s *sightings) see(of fleet.Sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, of.Agent+" "+string(of.What))
}

// want checks what was told since the last call, in any order.
func (s *sightings) want(t *testing.T, when string, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.all)
	slices.Sort(want)
	if !slices.Equal(s.all, want) {
		t.Errorf("%s: %q, want %q", when, s.all, want)
	}
	s.all = nil
}

// hear has all replicas hear those of the nodes that are not dead.
func (rs *replicas) hear(nodes ...*node) {
	for _, n := range nodes {
		if n.dead {
			continue
		}
		n.report(false)
		for _, r := range rs.all {
			r.Heard(n.lastReports[0])
		}
		n.lastReports = nil
	}
}

// hearAll is hear, every five seconds for so long.
func (rs *replicas) hearAll(lasts time.Duration, nodes ...*node) {
	for end := time.Now().Add(lasts); time.Now().Before(end); <-time.After(5 * time.Second) {
		rs.hear(nodes...)
	}
}

// TestSightings: who observes hears of each agent that joins, is lost, comes back and leaves, once.
func TestSightings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs, seen := newReplicas(t), &sightings{}
		a, b := &node{name: "a"}, &node{name: "b"}
		rs.all[0].Observe(seen.see)
		rs.hearAll(20*time.Second, a, b)
		seen.want(t, "two agents start", "a joined", "b joined")
		a.dead = true
		rs.hearAll(30*time.Second, a, b)
		seen.want(t, "one ends", "a lost")
		a.dead = false
		rs.hearAll(20*time.Second, a, b)
		seen.want(t, "it comes back", "a back")
		a.starts++
		a.sequence = 0
		rs.hearAll(20*time.Second, a, b)
		seen.want(t, "it starts anew")
		b.report(true)
		for _, r := range rs.all {
			r.Heard(b.lastReports[0])
		}
		b.dead = true
		rs.hearAll(3*time.Minute, a, b)
		seen.want(t, "one leaves", "b left")
		rs.all[0].Observe(nil)
		a.dead = true
		rs.hearAll(30*time.Second, a)
		seen.want(t, "nobody observes")
	})
}

// TestSightingsOverRestarts: a registry that starts anew knows whom it has told of, and who is lost since.
func TestSightingsOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs, seen := newReplicas(t), &sightings{}
		nodes := []*node{{name: "stays"}, {name: "ends"}, {name: "returns"}}
		rs.all[0].Observe(seen.see)
		rs.hearAll(20*time.Second, nodes...)
		nodes[2].dead = true
		rs.hearAll(40*time.Second, nodes...)
		seen.want(t, "before", "stays joined", "ends joined", "returns joined", "returns lost")
		for i := range rs.all {
			rs.all[i].stop()
		}
		nodes[1].dead, nodes[2].dead = true, false
		<-time.After(time.Minute)
		for i := range rs.all {
			rs.start(i)
		}
		rs.all[0].Observe(seen.see)
		rs.hearAll(30*time.Second, nodes...)
		seen.want(t, "after", "ends lost", "returns back")
	})
}

// TestSightingsOfTheNextLeader: who observes next hears of what happened while nobody did, for some seconds.
func TestSightingsOfTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs, seen := newReplicas(t), &sightings{}
		nodes := []*node{{name: "stays"}, {name: "ends"}, {name: "returns"}}
		rs.all[0].Observe(seen.see)
		rs.hearAll(20*time.Second, nodes...)
		nodes[2].dead = true
		rs.hearAll(40*time.Second, nodes...)
		seen.want(t, "before", "stays joined", "ends joined", "returns joined", "returns lost")

		nodes[1].dead = true // heard five seconds ago
		rs.hearAll(5*time.Second, nodes...)
		<-time.After(4 * time.Second)
		rs.all[0].Observe(nil)
		rs.leader.Store(7) // nobody: others store what it has not after some seconds
		nodes[2].dead = false
		rs.hear(nodes...)
		<-time.After(2 * time.Second) // a sweep finds who is lost
		rs.all[1].Observe(seen.see)
		rs.leader.Store(1)
		rs.hearAll(30*time.Second, nodes...)
		seen.want(t, "after", "ends lost", "returns back")
	})
}

// TestSightingsOfDrifts: those of a process that is known count, and no others.
func TestSightingsOfDrifts(t *testing.T) {
	b, seen := newBench(t), &sightings{}
	b.Observe(seen.see)
	report := func(incarnation string, found, repaired uint64) {
		r := b.report("a", 10)
		r.Incarnation, r.Drifts, r.RepairedDrifts = incarnation, found, repaired
		b.Heard(r)
	}
	report("first", 7, 6)
	seen.want(t, "of before")
	report("first", 8, 6)
	report("first", 8, 6)
	seen.want(t, "one", "a found")
	report("first", 8, 7)
	seen.want(t, "it is over", "a repaired")
	b.pass(time.Second)
	report("second", 0, 0)
	seen.want(t, "another process")
	report("second", 1, 1)
	seen.want(t, "both at once", "a found", "a repaired")
	report("third", 1, 0)
	seen.want(t, "at the start of a process", "a found")
}
