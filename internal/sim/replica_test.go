package sim

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/script"
)

// registryStore is what a replica keeps its state in; bugs that are put in on
// purpose wrap it.
type registryStore = registry.Store

// replica is a node that runs a registry.
type replica struct {
	w      *world
	number int
	name   string
	peer   *peer
	store  *storeLink

	running atomic.Pointer[server] // nil while there is no process
}

// server is its process, as one of registryd is put together.
type server struct {
	*replica
	dead     atomic.Bool
	life     context.Context
	end      context.CancelFunc
	stopping context.CancelFunc // ends the leading alone
	sealer   *seal.Sealer
	registry *registry.Registry
	mirror   *mirror.Mirror
	feed     *feed.Feed
	groups   *feed.Groups
	fleet    *fleet.Fleet
	sessions *session.Sessions
	services services
}

func newReplica(w *world, number int) *replica {
	name := fmt.Sprintf("replica-%d", number)
	return &replica{
		w: w, number: number, name: name, peer: w.bus.join(name),
		store: &storeLink{
			Store: w.truth, Garbage: w.truth, groups: &w.truth.groups, memos: &w.truth.memos,
			w: w, name: name + " store", changed: make(chan struct{}),
		},
	}
}

// start starts the process, if there is none.
func (r *replica) start() {
	if r.running.Load() != nil {
		return
	}
	log := r.w.logger(r.name)
	s := &server{replica: r, sealer: r.w.sealer()}
	s.life, s.end = context.WithCancel(r.w.ctx)
	leading, stopping := context.WithCancel(s.life)
	s.stopping = stopping
	store := registryStore(r.store)
	if wrap := r.w.bugs.store; wrap != nil {
		store = wrap(r.store)
	}
	recent := registry.NewRecent()
	s.registry = registry.New(registry.Config{
		Store: store, Recent: recent, Engines: map[string]engine.Checker{"sim": anySource{}}, DefaultEngine: "sim", Clock: r.w.clock,
	})
	s.fleet = fleet.New(fleet.Config{})
	s.mirror = mirror.New(s.sealer, log)
	s.feed = feed.New(feed.Config{
		Mirror: s.mirror, Publisher: s, Retention: tombstoneRetention, Clock: r.w.clock, Log: log,
	})
	s.sessions = session.New(&r.w.secrets, s.sealer, nil, log)
	if err := s.sessions.Load(s.life); err != nil {
		r.w.violate("%s has no secrets: %v", r.name, err)
	}
	s.groups = feed.NewGroups(r.store, s.feed, r.w.clock, log)
	s.serve()
	leader := &feed.Leader{
		Elector: (*elector)(s), Feed: s.feed, Connected: r.peer.online, Log: log,
		Duties: []func(context.Context){s.sweepGroups},
	}
	r.running.Store(s)
	r.peer.attach(
		func(subject string) bool { return strings.HasPrefix(subject, subjects.Status("")) },
		s.hear,
		func(is bool) {
			if is {
				s.rollCall()
			}
		},
	)
	all := &r.w.running
	all.Go(func() { registry.Follow(s.life, store, log, s.feed, s.fleet, recent) })
	all.Go(func() { s.groups.Run(s.life) })
	all.Go(func() { s.sessions.Run(s.life) })
	all.Go(func() { leader.Run(leading) })
	all.Go(func() { s.fleet.Keep(s.life, r.store, func() bool { return s.feed.Stats().Leading }, log) })
	all.Go(func() { s.sweep(s.life) })
}

// kill ends the process without notice. Its session with the store is over when that
// has waited long enough.
func (r *replica) kill() {
	s := r.running.Swap(nil)
	if s == nil {
		return
	}
	s.dead.Store(true)
	r.peer.detach()
	s.end()
	r.w.election.forget(s)
	r.w.election.unheard(s, func() bool { return true })
}

// drain ends the process as an operator does.
func (r *replica) drain() {
	s := r.running.Load()
	if s == nil {
		return
	}
	s.stopping()
	_ = rest(r.w.ctx, 50*time.Millisecond) // it resigns meanwhile
	r.kill()
}

// tombstoneRetention is short, so that agents are late for tombstones.
const tombstoneRetention = 2 * time.Minute

// sweep keeps the fleet's idea of who is unheard up to date.
func (s *server) sweep(ctx context.Context) {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.fleet.Sweep()
		case <-ctx.Done():
			return
		}
	}
}

func (s *server) sweepGroups(ctx context.Context) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.groups.Sweep(ctx, s.fleet.Groups())
		case <-ctx.Done():
			return
		}
	}
}

// cutStore changes what happens between the replica and the store. A session that is
// unheard for too long is over.
func (r *replica) cutStore(f storeFaults) {
	r.store.set(f)
	if s := r.running.Load(); s != nil && r.store.isCut() {
		r.w.election.unheard(s, r.store.isCut)
		return
	}
	r.w.election.poll()
}

// elector is the replica's part in the election.
type elector server

// Campaign implements registry.Elector.
func (e *elector) Campaign(ctx context.Context) (registry.Leadership, error) {
	l, err := e.w.election.campaign(ctx, (*server)(e))
	if err != nil {
		return nil, err
	}
	return l, nil
}

// collect makes two rounds of the collector, as the one that leads does now and then.
// Tombstones are old enough after a while, and so some are that agents have not seen.
func (r *replica) collect(mode int) {
	s := r.running.Load()
	if s == nil {
		return
	}
	collector := registry.NewCollector(registry.CollectorConfig{
		Store: r.store, Garbage: r.store, Clock: r.w.clock, Log: r.w.logger(r.name),
		TombstoneRetention: time.Duration(1+mode) * 100 * time.Millisecond,
	})
	r.w.running.Go(func() {
		for range 2 {
			if _, err := collector.Collect(s.life); err != nil {
				r.w.log("%s could not collect all: %v", r.name, err)
			}
		}
	})
}

// serve makes what agents ask of the replica.
func (s *server) serve() {
	s.services = services{}
	rpc.RegisterFeed(&s.services, rpc.Config{
		Registry: s.registry, Fleet: s.fleet, Mirror: s.mirror, Groups: s.groups, Sealer: s.sealer, Sessions: s.sessions, Log: s.w.logger(s.name),
	})
}

// PublishEvent implements feed.Publisher.
func (s *server) PublishEvent(_ context.Context, e feed.Event) error {
	data, err := fanout.SealEvent(s.sealer, e)
	if err != nil {
		return err
	}
	return s.publish(subjects.Event(e.Group), data)
}

// PublishBeacon implements feed.Publisher.
func (s *server) PublishBeacon(_ context.Context, b feed.Beacon) error {
	data, err := fanout.SealBeacon(s.sealer, s.sessions, b)
	if err != nil {
		return err
	}
	return s.publish(subjects.Beacon(b.Group), data)
}

func (s *server) publish(subject string, data []byte) error {
	if s.dead.Load() || !s.peer.publish(message{subject: subject, data: data}) {
		return script.Errorf(script.Unavailable, "", "not connected")
	}
	return nil
}

// rollCall asks the agents for their status.
func (s *server) rollCall() {
	id, _ := s.w.truth.Fleet(s.w.ctx) // never fails
	data, err := s.sealer.Seal(&eventv1.RollCall{Fleet: id})
	if err == nil {
		err = s.publish(subjects.RollCall(), data)
	}
	if err == nil {
		s.fleet.RollCalled()
	}
}

// hear takes in a status, or what somebody says to be one, as package fanout does.
func (s *server) hear(m message) {
	verify := fanout.Sessions(s.sessions)
	if wrap := s.w.bugs.sessions; wrap != nil {
		verify = wrap(s.sessions)
	}
	agent := strings.TrimPrefix(m.subject, subjects.Status(""))
	report, _, err := fanout.OpenReport(verify, agent, m.data)
	if err != nil {
		s.w.log("%s does not believe a status of %s: %v", s.name, agent, err)
		return
	}
	s.fleet.Heard(report)
}

// check finds out whether what the fleet is said to run is what it runs: a release
// has converged if every agent of its tenant that is heard has had it live.
func (s *server) check() {
	for _, status := range s.fleet.Status(fleet.Filter{}).Scripts {
		if !status.Converged {
			continue
		}
		for _, heard := range s.fleet.Agents(fleet.AgentFilter{}).Agents {
			if heard.Unknown {
				continue
			}
			a := s.w.agentNamed(heard.Name)
			a.mu.Lock()
			reached := max(a.reached[status.Release.Name], a.passed[status.Release.Name])
			drifted := a.drifted[status.Release.Name]
			a.mu.Unlock()
			if a.tenants.Matches(status.Release.Name.Tenant) && !drifted && reached < status.Release.Revision {
				s.w.violate("%s says that %s of revision %d has converged, and %s has had revision %d at most",
					s.name, status.Release.Name, status.Release.Revision, a.name, reached)
			}
		}
	}
}

func (w *world) agentNamed(name string) *agent {
	for _, a := range w.agents {
		if a.name == name {
			return a
		}
	}
	panic("there is no agent " + name)
}
