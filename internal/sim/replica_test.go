package sim

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/script"
)

// registryStore is what a replica keeps its state in; bugs that are put in on
// purpose wrap it.
type registryStore = registry.Store

// replica is a node that runs a registry, as a process of registryd puts one
// together.
type replica struct {
	w      *world
	number int
	name   string
	peer   *peer
	store  *storeLink

	// Of the process; up is false while there is none.
	up       atomic.Bool
	life     context.Context
	end      context.CancelFunc
	stopping context.CancelFunc // ends the leading alone
	sealer   *seal.Sealer
	registry *registry.Registry
	mirror   *mirror.Mirror
	feed     *feed.Feed
	groups   *feed.Groups
	fleet    *fleet.Fleet
	services services
}

func newReplica(w *world, number int) *replica {
	name := fmt.Sprintf("replica-%d", number)
	return &replica{
		w: w, number: number, name: name, peer: w.bus.join(name),
		store: &storeLink{
			Store: w.truth, Trash: w.truth, groups: &w.truth.groups, memos: &w.truth.memos,
			w: w, name: name + " store", changed: make(chan struct{}),
		},
	}
}

func (r *replica) alive() bool { return r.up.Load() }

// start starts the process, if there is none.
func (r *replica) start() {
	if r.alive() {
		return
	}
	log, sealer := r.w.logger(r.name), r.w.sealer()
	life, end := context.WithCancel(r.w.ctx)
	leading, stopping := context.WithCancel(life)
	r.life, r.end, r.stopping, r.sealer = life, end, stopping, sealer
	store := registryStore(r.store)
	if wrap := r.w.bugs.store; wrap != nil {
		store = wrap(r.store)
	}
	r.registry = registry.New(registry.Config{
		Store: store, Engines: map[string]engine.Checker{"sim": anySource{}}, DefaultEngine: "sim", Clock: r.w.clock,
	})
	r.fleet = fleet.New(fleet.Config{})
	r.mirror = mirror.New(sealer, log)
	r.feed = feed.New(feed.Config{
		Mirror: r.mirror, Sources: store, Publisher: r, Retention: tombstoneRetention, Clock: r.w.clock, Log: log,
	})
	r.groups = feed.NewGroups(r.store, r.feed, r.w.clock, log)
	r.serve()
	leader := &feed.Leader{
		Elector: (*elector)(r), Feed: r.feed, Connected: r.peer.online, Log: log,
		Duties: []func(context.Context){r.sweepGroups},
	}
	r.up.Store(true)
	r.peer.attach(
		func(subject string) bool { return strings.HasPrefix(subject, subjects.Status("")) },
		r.hear,
		func(is bool) {
			if is {
				r.rollCall()
			}
		},
	)
	running := &r.w.running
	running.Go(func() { registry.Follow(life, store, log, r.feed, r.fleet) })
	running.Go(func() { r.groups.Run(life) })
	running.Go(func() { leader.Run(leading) })
	running.Go(func() { r.fleet.Keep(life, r.store, func() bool { return r.feed.Stats().Leading }, log) })
	running.Go(func() { r.sweep(life) })
}

// kill ends the process without notice. Its session with the store is over when that
// has waited long enough.
func (r *replica) kill() {
	if !r.alive() {
		return
	}
	r.up.Store(false)
	r.peer.detach()
	r.end()
	r.w.election.forget(r)
	r.w.election.unheard(r, func() bool { return true })
}

// drain ends the process as an operator does.
func (r *replica) drain() {
	if !r.alive() {
		return
	}
	r.stopping()
	_ = rest(r.w.ctx, 50*time.Millisecond) // it resigns meanwhile
	r.kill()
}

// tombstoneRetention is short, so that agents are late for tombstones.
const tombstoneRetention = 2 * time.Minute

// sweep keeps the fleet's idea of who is unheard up to date.
func (r *replica) sweep(ctx context.Context) {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.fleet.Sweep()
		case <-ctx.Done():
			return
		}
	}
}

func (r *replica) sweepGroups(ctx context.Context) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.groups.Sweep(ctx, r.fleet.Groups())
		case <-ctx.Done():
			return
		}
	}
}

// cutStore changes what happens between the replica and the store. A session that is
// unheard for too long is over.
func (r *replica) cutStore(f storeFaults) {
	r.store.set(f)
	if r.store.isCut() {
		r.w.election.unheard(r, r.store.isCut)
		return
	}
	r.w.election.poll()
}

// elector is the replica's part in the election.
type elector replica

// Campaign implements registry.Elector.
func (e *elector) Campaign(ctx context.Context) (registry.Leadership, error) {
	l, err := e.w.election.campaign(ctx, (*replica)(e))
	if err != nil {
		return nil, err
	}
	return l, nil
}

// collect makes two rounds of the collector, as the one that leads does now and then.
// Tombstones are old enough after a while, and so some are that agents have not seen.
func (r *replica) collect(mode int) {
	if !r.alive() {
		return
	}
	life, collector := r.life, registry.NewCollector(registry.CollectorConfig{
		Store: r.store, Trash: r.store, Clock: r.w.clock, Log: r.w.logger(r.name),
		TombstoneRetention: time.Duration(1+mode) * 100 * time.Millisecond,
	})
	r.w.running.Go(func() {
		for range 2 {
			if _, err := collector.Collect(life); err != nil {
				r.w.log("%s could not collect all: %v", r.name, err)
			}
		}
	})
}

// serve makes what agents ask of the replica.
func (r *replica) serve() {
	r.services = services{}
	rpc.RegisterFeed(&r.services, rpc.Config{
		Registry: r.registry, Fleet: r.fleet, Mirror: r.mirror, Groups: r.groups, Sealer: r.sealer, Log: r.w.logger(r.name),
	})
}

// PublishEvent implements feed.Publisher.
func (r *replica) PublishEvent(_ context.Context, e feed.Event) error {
	data, err := fanout.SealEvent(r.sealer, e)
	if err != nil {
		return err
	}
	return r.publish(subjects.Event(e.Group), data)
}

// PublishBeacon implements feed.Publisher.
func (r *replica) PublishBeacon(_ context.Context, b feed.Beacon) error {
	data, err := r.sealer.Seal(&eventv1.Beacon{
		Fleet:          b.Fleet,
		Group:          b.Group,
		HeadRevision:   int64(b.Head),
		GroupRevision:  int64(b.Position.Head),
		Checksums:      []*eventv1.Checksum{{Kind: wire.KindRelease, Sum: b.Position.Sum.Bytes()}},
		Term:           b.Term,
		Sequence:       b.Sequence,
		ReportInterval: durationpb.New(b.ReportInterval),
		SentAt:         timestamppb.New(b.SentAt),
	})
	if err != nil {
		return err
	}
	return r.publish(subjects.Beacon(b.Group), data)
}

func (r *replica) publish(subject string, data []byte) error {
	if !r.alive() || !r.peer.publish(message{subject: subject, data: data}) {
		return script.Errorf(script.Unavailable, "", "not connected")
	}
	return nil
}

// rollCall asks the agents for their status.
func (r *replica) rollCall() {
	id, _ := r.w.truth.Fleet(r.w.ctx) // never fails
	data, err := r.sealer.Seal(&eventv1.RollCall{Fleet: id})
	if err == nil {
		err = r.publish(subjects.RollCall(), data)
	}
	if err == nil {
		r.fleet.RollCalled()
	}
}

// hear takes in a status, as package fanout does.
func (r *replica) hear(m message) {
	var s eventv1.Status
	if err := seal.OpenStatus(m.data, &s); err != nil {
		r.w.violate("%s cannot read a status: %v", r.name, err)
		return
	}
	tenants, err := script.ParseSelector(s.GetTenants())
	if err != nil {
		r.w.violate("%s cannot read what an agent follows: %v", r.name, err)
	}
	report := fleet.Report{
		Fleet: s.GetFleet(), Agent: s.GetAgent(), Incarnation: s.GetIncarnation(), Sequence: s.GetSequence(),
		Activated: script.Revision(s.GetActivatedRevision()), Leaving: s.GetLeaving(), Tenants: tenants,
		DiskKeys: s.GetDiskKeys(), Drifts: s.GetDrifts(),
	}
	for _, failure := range s.GetFailures() {
		name, err := script.ParseName(strings.TrimPrefix(failure.GetKey(), keyPrefix))
		if err != nil {
			continue
		}
		report.Failures = append(report.Failures, fleet.Failure{
			Name: name, Revision: script.Revision(failure.GetRevision()), Err: wire.ToError(failure.GetError()),
		})
	}
	r.fleet.Heard(report)
}

// check finds out whether what the fleet is said to run is what it runs: a release
// has converged if every agent of its tenant that is heard has had it live.
func (r *replica) check() {
	if !r.alive() {
		return
	}
	status := r.fleet.Status(fleet.Filter{})
	for _, s := range status.Scripts {
		if !s.Converged {
			continue
		}
		for _, heard := range r.fleet.Agents(fleet.AgentFilter{}).Agents {
			if heard.Unknown {
				continue
			}
			a := r.w.agentNamed(heard.Name)
			a.mu.Lock()
			reached := max(a.reached[s.Release.Name], a.passed[s.Release.Name])
			drifted := a.drifted[s.Release.Name]
			a.mu.Unlock()
			if a.tenants.Matches(s.Release.Name.Tenant) && !drifted && reached < s.Release.Revision {
				r.w.violate("%s says that %s of revision %d has converged, and %s has had revision %d at most",
					r.name, s.Release.Name, s.Release.Revision, a.name, reached)
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
