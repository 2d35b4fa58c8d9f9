// Package fleet keeps in memory what the fleet's agents say of themselves, and
// says how far each release has come on them.
//
// Reports and releases come in by method calls, and the clock is the caller's.
// Every replica of a registry hears every agent, and so comes to the same answers.
// What reports alone would not tell a replica that was just started is kept in a
// Memory that the replicas share: how long rollouts took, and the agents that were
// heard of. The process wires it so:
//
//	f := fleet.New(fleet.Config{…})
//	fanout.Config{Reports: f.Heard, RollCalled: f.RollCalled}
//	registry.Follow(ctx, store, log, …, f)    // the releases
//	go f.Keep(ctx, store, leading, log)        // an etcdstore.Store is a Memory
//	go every 250 ms: f.Sweep()
//	each beacon: ReportInterval: f.ReportInterval()
//	the collector of groups: f.Groups()
package fleet

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/turns"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config says when agents count as lost.
type Config struct {
	// Clock tells the time; time.Now if nil.
	Clock func() time.Time
	// UnknownAfter is how long an agent may be unheard before nobody knows what it
	// runs; 15 s if 0.
	UnknownAfter time.Duration
	// DropAfter is how long an agent may be unknown before it is taken for gone; an
	// hour if 0.
	DropAfter time.Duration
	// Settle is how long nothing counts as converged after the roll was called, and
	// after the last agent that answers it with being new here. While an agent is
	// unknown, that takes eight times as long: agents back off while NATS is away, so
	// the first ones that are heard again are not the fleet. 1 s if 0: connected agents
	// answer within 200 ms, others come back within 7 s (follow.reconnectMax).
	Settle time.Duration
	// MaxAgents is how many agents are known, those that are unknown included; 50,000 if 0. Those
	// of one identity are half as many at most.
	MaxAgents int
	// MaxReported is about how many bytes are kept of what agents report; 256 MiB if 0. Those of
	// one identity have half as many at most.
	MaxReported int
	// MaxMemory is about how many bytes the Memory has of agents at most; 64 MiB if 0.
	MaxMemory int
	// TombstonesFor is how long a deleted script has a status; 24 h if 0.
	TombstonesFor time.Duration
	// Judge says what a candidate that is on its way waits for, "" if its next move is due, and
	// what speaks for it so far; nil if nobody knows. It is called with the fleet locked and must
	// not call back.
	Judge func(Candidacy) (why, evidence string)
	// Activated, if not nil, is called with the time that a release took to become active on
	// an agent; and Converged with each release that converged, and the time that this took.
	// Both are called with the fleet locked and must not call back.
	Activated func(took time.Duration)
	Converged func(name script.Name, took time.Duration)
	// Used, if not nil, is called with each report that is taken in and has a usage, which may have been reported before.
	// It is called with the fleet locked and must not call back.
	Used func(*Report)
}

// Fleet is what is known of the agents and the releases. It is safe for
// concurrent use. A report costs time by what changed in it, not by the number
// of agents or scripts.
//
// A rollout under way takes 3.5 KiB and a bit for each agent: of 10,000 agents
// 4.8 KiB. There is one for each script at most. A candidate takes four bits for each
// agent, and less than 200 bytes for each that it is called on or that fails its tests.
type Fleet struct {
	cfg Config
	now func() time.Time

	mu        sync.Mutex
	id        string
	head      script.Revision
	base      script.Revision // the head when the releases were first known here
	agents    map[string]*agent
	connected int
	bySlot    []*agent // nil in those that are free
	byName    []int    // the slots of all agents, in the order of their names
	freeSlots []int    // of agents that are gone
	labelings uint64   // counts when agents come or go, or have other labels than before
	departed  map[speaker]departure
	ahead     map[speaker]*held    // reports of more than is known here,
	queued    queue                // by what they claim
	usage     map[string]usage     // by identity
	total     usage                // of all
	foreign   map[string]foreigner // by name
	groups    map[string]*group    // by the text of their selectors
	following map[string][]*group  // by tenant, once they were asked for
	scripts   map[script.Name]*progress
	catalog   catalog              // of the scripts
	others    map[string]*progress // objects that are no releases, by their keys, as far as they changed lately
	order     order                // of both, by revision
	// unreadable are the objects whose records cannot be read, by their keys: what else is
	// known of them is what they were before.
	unreadable map[string]registry.Unreadable
	audits     map[string]script.Revision      // tenants with a strict audit, and the revisions of their settings
	freeze     script.Freeze                   // the registry's
	frozen     bool                            // whether it was on at the last change
	pending    []*progress                     // waited for, by revision
	failing    map[script.Name]map[*agent]bool // connected agents by what they failed
	lagging    map[string]*lagging             // connected agents by the tenants whose process lags
	ignored    Ignored
	// candidacies are of the scripts that have a candidate, and early the agents that
	// spoke of candidates before they were known here.
	candidacies map[script.Name]*candidacy
	early       map[*agent]bool
	round       uint64       // of updateTrials
	taken       []*candidacy // its memory
	counted     bool         // there are calls of candidates that no watcher knows of yet,
	countedAt   time.Time    // since then
	dirty       span         // pending releases in it may have converged
	// gathering: the agents have yet to report after the roll call. called is the time of
	// that call; zero: there was none yet. joined is when a new agent was last
	// heard.
	gathering      bool
	called, joined time.Time
	trimmed        time.Time     // when tombstones were last looked for
	swept          time.Time     // the last time
	troubles       Troubled      // as of then
	changed        chan struct{} // closed at each change; nil while nobody waits
	memory         memory
	see            func(Sighting) // nil while nobody observes

	readers, finders *turns.Turns
}

var _ registry.Projection = (*Fleet)(nil)

// New returns a fleet without agents.
func New(cfg Config) *Fleet {
	orElse := func(d *time.Duration, other time.Duration) {
		if *d == 0 {
			*d = other
		}
	}
	orElse(&cfg.UnknownAfter, 15*time.Second)
	orElse(&cfg.DropAfter, time.Hour)
	orElse(&cfg.Settle, time.Second)
	orElse(&cfg.TombstonesFor, 24*time.Hour)
	cfg.MaxAgents = cmp.Or(cfg.MaxAgents, 50_000)
	cfg.MaxReported = cmp.Or(cfg.MaxReported, 256<<20)
	cfg.MaxMemory = cmp.Or(cfg.MaxMemory, 64<<20)
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Judge == nil {
		cfg.Judge = func(Candidacy) (why, evidence string) { return "", "" }
	}
	if cfg.Activated == nil {
		cfg.Activated = func(time.Duration) {}
	}
	if cfg.Used == nil {
		cfg.Used = func(*Report) {}
	}
	if cfg.Converged == nil {
		cfg.Converged = func(script.Name, time.Duration) {}
	}
	return &Fleet{
		cfg:       cfg,
		now:       cfg.Clock,
		gathering: true,
		agents:    map[string]*agent{},
		departed:  map[speaker]departure{},
		ahead:     map[speaker]*held{},
		usage:     map[string]usage{},
		foreign:   map[string]foreigner{},
		groups:    map[string]*group{},
		following: map[string][]*group{},
		scripts:   map[script.Name]*progress{},
		others:    map[string]*progress{},

		unreadable: map[string]registry.Unreadable{},
		audits:     map[string]script.Revision{},

		failing: map[script.Name]map[*agent]bool{},
		lagging: map[string]*lagging{},
		memory:  newMemory(),

		candidacies: map[script.Name]*candidacy{},
		early:       map[*agent]bool{},

		readers: newReaders(), finders: newFinders(),
	}
}

// RollCalled says that the agents were just asked to report: at the start, and
// whenever they may have been out of reach. Until they had the time to answer
// nothing counts as converged.
func (f *Fleet) RollCalled() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gathering, f.called, f.joined = true, f.now(), time.Time{}
	f.touch()
}

// gathered reports whether the agents had the time to answer the roll. What has
// converged meanwhile is found once they had.
func (f *Fleet) gathered(now time.Time) bool {
	if !f.gathering {
		return true
	}
	waited := now.Sub(f.called)
	if f.called.IsZero() || waited < f.cfg.Settle {
		return false
	}
	missing := f.connected < len(f.agents)
	if waited < 8*f.cfg.Settle && (missing || now.Sub(f.joined) < f.cfg.Settle) {
		return false
	}
	f.gathering = false
	f.markDirty(0, never)
	f.settle(now)
	f.touch()
	return true
}

// Heard takes in a report.
func (f *Fleet) Heard(r Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.id == "" || r.Fleet != f.id {
		f.hearForeign(&r)
		return
	}
	f.hear(r, f.now())
}

// hear takes in a report that came then.
func (f *Fleet) hear(r Report, at time.Time) {
	f.gathered(f.now())
	a := f.agents[r.Agent]
	if f.claimed(a, &r, at) {
		f.ignored.OtherIdentity++
		return
	}
	if !f.accepts(a, &r, at) {
		f.ignored.Stale++
		return
	}
	delete(f.foreign, r.Agent)
	if !r.Leaving && !f.hasRoom(a, &r) {
		f.ignored.TooMany++
		return
	}
	if !r.Leaving && !f.fits(a, &r) {
		f.ignored.TooLarge++
		return
	}
	if r.Usage != nil {
		f.cfg.Used(&r)
		r.Usage = nil
	}
	if r.Leaving {
		f.depart(a, &r, at)
		return
	}
	if r.claims() > f.head {
		f.hold(a, r, at)
		return
	}
	f.unhold(r.speaker())
	if a == nil {
		a = f.newAgent(r.Agent)
	}
	f.update(a, r, at)
}

func (f *Fleet) newAgent(name string) *agent {
	a := &agent{unknown: true, slot: len(f.bySlot), report: Report{Agent: name}}
	if n := len(f.freeSlots); n > 0 {
		a.slot, f.freeSlots = f.freeSlots[n-1], f.freeSlots[:n-1]
		f.bySlot[a.slot] = a
	} else {
		f.bySlot = append(f.bySlot, a)
	}
	f.agents[name] = a
	f.labelings++
	at, _ := f.named(name)
	f.byName = slices.Insert(f.byName, at, a.slot)
	return a
}

// named returns where among byName the agent is, or belongs.
func (f *Fleet) named(name string) (at int, ok bool) {
	return slices.BinarySearchFunc(f.byName, name, func(slot int, name string) int {
		return strings.Compare(f.bySlot[slot].report.Agent, name)
	})
}

// update brings the indexes to what the report says.
func (f *Fleet) update(a *agent, r Report, now time.Time) {
	f.keepLabels(a, &r)
	f.seen(a, &r)
	again, lost := a.says(&r), false
	switch {
	case a.report.Incarnation != "" && a.report.Incarnation != r.Incarnation:
		lost = f.ended(a)
	case a.unknown:
		f.back(a)
	}
	if !again || a.unknown || !slices.Equal(a.report.DiskKeys, r.DiskKeys) {
		f.note(r.Agent)
	}
	before, lags, failures := a.report.Activated, a.report.Lags, latestFailures(r.Failures)
	f.identify(a, r.Identity, r.size()-r.stepCalls())
	f.join(a, r.Tenants)
	joined, moved := a.unknown, before != r.Activated // one that changes its group joins
	relabeled := a.relabeled(&r)
	if relabeled {
		f.labelings++
	}
	since := a.heard
	a.take(r, now)
	f.enroll(a, joined, relabeled, now)
	failed := f.updateFailures(a, failures, joined, since)
	lagged := f.updateLags(a, lags, joined, since)
	tried := f.updateTrials(a, r.Trials, again)
	if joined || moved {
		f.place(a, before, joined)
		if joined || r.Activated < before {
			before = 0
		}
		f.passed(a, before)
	}
	if joined || relabeled || moved || failed || lagged || tried || lost {
		f.settle(now)
		f.touch()
	}
}

// place counts the agent where it is now.
func (f *Fleet) place(a *agent, before script.Revision, joined bool) {
	g := a.group
	lowest := g.lowest()
	if !joined {
		g.levels.remove(before)
	}
	g.levels.add(a.report.Activated)
	g.slots.add(a.slot)
	if lowest == never {
		lowest = 0 // its first agent
	}
	f.markDirty(lowest, g.lowest())
}

// updateFailures replaces the agent's failures, which it had said since then, and
// reports whether they differ.
func (f *Fleet) updateFailures(a *agent, next map[script.Name]Failure, joined bool, since time.Time) bool {
	if len(next) == 0 && len(a.failures) == 0 {
		return false
	}
	before := a.failures
	a.failures = next
	differ := joined || len(next) != len(before)
	for name := range before {
		if _, ok := next[name]; !ok {
			f.unindexFailure(a, name)
			f.recovered(a, name, since)
		}
	}
	for name, failure := range next {
		differ = differ || before[name].Revision != failure.Revision
		if f.failing[name] == nil {
			f.failing[name] = map[*agent]bool{}
		}
		f.failing[name][a] = true
	}
	return differ
}

func (f *Fleet) unindexFailure(a *agent, name script.Name) {
	delete(f.failing[name], a)
	if len(f.failing[name]) == 0 {
		delete(f.failing, name)
	}
}

// disconnect takes a connected agent out of the indexes.
func (f *Fleet) disconnect(a *agent) {
	if a.unknown {
		return
	}
	f.dropTrials(a)
	a.unknown = true
	f.connected--
	lowest := a.group.lowest()
	a.group.levels.remove(a.report.Activated)
	a.group.slots.remove(a.slot)
	f.markDirty(lowest, a.group.lowest())
	for name := range a.failures {
		f.unindexFailure(a, name)
		if p := f.scripts[name]; p != nil {
			f.markDirty(p.release.Revision-1, p.release.Revision)
		}
	}
	for tenant, above := range a.report.Lags {
		f.unindexLag(a, tenant)
		f.markDirty(above, f.head)
	}
}

func (f *Fleet) forget(a *agent) {
	f.forgotten(a)
	f.leave(a)
	f.identify(a, "", 0)
	delete(f.agents, a.report.Agent)
	if at, ok := f.named(a.report.Agent); ok {
		f.byName = slices.Delete(f.byName, at, at+1)
	}
	f.bySlot[a.slot] = nil
	f.labelings++
	f.freeSlots = append(f.freeSlots, a.slot)
	for _, p := range f.pending {
		p.measured.remove(a.slot)
	}
	f.note(a.report.Agent)
}

// countInterval is the least time between two changes that are but more calls of
// candidates.
const countInterval = time.Second

// Reports of a whole fleet come at reportsPerSecond at most, and those of one agent
// reportsApart at least.
const (
	reportsPerSecond = 5000
	reportsApart     = 100 * time.Millisecond
)

// ReportInterval is the least time between two reports of an agent that this fleet
// can bear.
func (f *Fleet) ReportInterval() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(reportsApart, time.Duration(f.connected)*time.Second/reportsPerSecond)
}
