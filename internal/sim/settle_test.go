package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds, on the virtual clock, once the faults are over.
const (
	// recoverWithin is what replicas may take: a session that runs out, an election,
	// and the longest pause after a store that did not answer.
	recoverWithin = 12 * time.Second
	// convergeWithin is what agents may take from the first beacon that says where the
	// feed is: two beacons, and the jitter before a sync with the sync.
	convergeWithin = 2*time.Second + 500*time.Millisecond
	// pollWithin is what they may take when there are no beacons at all: the silence,
	// a poll, and the longest pause after syncs that failed.
	pollWithin = 12 * time.Second
	// believeWithin is what the fleet may take to say so: a status of an agent's life
	// before that comes late may hide the agent until it is unheard for too long.
	believeWithin = 22 * time.Second
	// healWithin is what a drift may last: two beacons, jitter, and a full sync.
	healWithin = 2*time.Second + 800*time.Millisecond
)

// settle ends the faults and waits until all is well. It returns how long the slowest
// agent took.
func (w *world) settle() time.Duration {
	withBus := w.seed%5 != 0 // else it stays dead
	w.log("the faults are over; the bus lives: %v", withBus)
	w.healLinks()
	w.bus.setDown(!withBus)
	for _, a := range w.agents {
		a.disk.set(diskFaults{})
		a.start()
	}
	for _, r := range w.replicas {
		r.start()
	}
	w.writing.Wait()
	w.repair()
	began := time.Now()
	ready, withinBound := w.listen(), convergeWithin
	if !withBus {
		withinBound = pollWithin
	}
	if !w.await("the agents", recoverWithin+withinBound, func() string {
		ready.look()
		return w.unsettledAgent()
	}) {
		return 0
	}
	if since := ready.since(withBus); since > withinBound {
		w.violate("the agents needed %v once the registry was there", since)
	}
	took := time.Since(began)
	w.check()
	if withBus && w.await("the fleet", believeWithin, w.unbelieved) && w.seed%4 == 0 &&
		w.await("the replicas", recoverWithin, w.behind) {
		w.heal()
	}
	if err := w.truth.verify(w.ctx); err != nil {
		w.violate("the store: %v", err)
	}
	return took
}

// await waits until missing says nothing more.
func (w *world) await(who string, most time.Duration, missing func() string) bool {
	deadline := time.Now().Add(most)
	for {
		lack := missing()
		if lack == "" || w.failed() {
			return lack == ""
		}
		if time.Now().After(deadline) {
			w.violate("%s: after %v, %s", who, most, lack)
			return false
		}
		_ = rest(w.ctx, 10*time.Millisecond) // the context is not done before the end
	}
}

func (w *world) unsettledAgent() string {
	for _, a := range w.agents {
		if lack := a.unsettled(); lack != "" {
			return lack
		}
	}
	return ""
}

// behind returns a replica that does not follow the store.
func (w *world) behind() string {
	head := w.truth.head(script.Selector{})
	for _, s := range w.servers() {
		if stats := s.feed.Stats(); !stats.Running || stats.Head < head {
			return fmt.Sprintf("%s is at revision %d of %d; running: %v", s.name, stats.Head, head, stats.Running)
		}
	}
	return ""
}

// unbelieved returns a release of which a replica does not say that it converged,
// though it has.
func (w *world) unbelieved() string {
	for _, r := range w.servers() {
		known := map[string]bool{}
		for _, s := range r.fleet.Status(fleet.Filter{}).Scripts {
			known[s.Release.Name.String()] = true
			followed := 0
			for _, a := range w.agents {
				if a.tenants.Matches(s.Release.Name.Tenant) {
					followed++
				}
			}
			switch {
			case s.Desired != followed:
				return fmt.Sprintf("%s counts %d agents for %s, which %d follow", r.name, s.Desired, s.Release.Name, followed)
			case s.Converged != (mayConverge(s.Release, followed) && !w.isHeld(s.Release)):
				return fmt.Sprintf("%s says of %s of revision %d: converged %v: %+v", r.name, s.Release.Name, s.Release.Revision, s.Converged, s)
			}
		}
		for _, name := range w.truth.names() {
			if last, _ := w.truth.asOf(name, 1<<62); !last.release.Deleted && !known[name.String()] {
				return fmt.Sprintf("%s does not know %s", r.name, name)
			}
		}
	}
	return ""
}

// heal puts a drift into an agent, which then must heal.
func (w *world) heal() {
	r := rand.New(rand.NewPCG(w.seed, 5))
	a := w.agents[r.IntN(len(w.agents))]
	_ = rest(w.ctx, 3*time.Second) // an agent that found one a moment ago is patient with the next
	a.drift(r, -1)
	w.await("a drift", healWithin, a.unsettled)
}

// readiness is when the registry was there again.
type readiness struct {
	w       *world
	beacons map[string]time.Time // the first of each group that says where the feed is
	all     time.Time            // when all replicas had what the store has
}

// listen begins to note beacons.
func (w *world) listen() *readiness {
	r := &readiness{w: w, beacons: map[string]time.Time{}}
	w.bus.mu.Lock()
	defer w.bus.mu.Unlock()
	w.bus.overhear = r.note
	return r
}

// note is called with the bus locked.
func (r *readiness) note(m message) {
	var env eventv1.Envelope
	var beacon eventv1.Beacon
	if !strings.HasSuffix(m.subject, ".beacon") || proto.Unmarshal(m.data, &env) != nil || proto.Unmarshal(env.GetPayload(), &beacon) != nil {
		return
	}
	for _, a := range r.w.agents {
		group := a.tenants.Group()
		if _, ok := r.beacons[group]; !ok && beacon.GetGroup() == group && beacon.GetGroupRevision() >= int64(r.w.truth.head(a.tenants)) {
			r.beacons[group] = time.Now()
		}
	}
}

// look notes when all replicas have what the store has.
func (r *readiness) look() {
	switch {
	case r.w.behind() != "":
		r.all = time.Time{}
	case r.all.IsZero():
		r.all = time.Now()
	}
}

// since returns how long all replicas were there, and beacons of all groups were.
func (r *readiness) since(beacons bool) time.Duration {
	last := r.all
	if last.IsZero() {
		return 0
	}
	r.w.bus.mu.Lock()
	defer r.w.bus.mu.Unlock()
	for _, a := range r.w.agents {
		first, ok := r.beacons[a.tenants.Group()]
		if beacons && !ok {
			return 0
		}
		if beacons && first.After(last) {
			last = first
		}
	}
	return time.Since(last)
}
