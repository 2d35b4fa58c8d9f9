// Package fleet keeps in memory what the fleet's agents say of themselves, and
// says how far each release has come on them.
//
// It is pure: reports and releases come in by method calls, and the clock is the
// caller's. Nothing in it is stored: after a restart the agents report again.
package fleet

import (
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
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
	// Settle is how long nothing counts as converged after the roll was called: of
	// a fleet of a thousand one agent is heard first, and it is not the fleet. 1 s
	// if 0: connected agents answer within 200 ms.
	Settle time.Duration
	// Converged, if not nil, is told each release that converged, and how long
	// that took. It is called with the fleet locked and must not call back.
	Converged func(name script.Name, took time.Duration)
}

// Report is what an agent says of itself.
type Report struct {
	Fleet       string
	Agent       string
	Incarnation string // made at each start of the agent
	Sequence    uint64 // counts up within an incarnation
	Labels      map[string]string
	Software    string
	// Activated: every release up to here is live, but for the failures.
	Activated script.Revision
	Failures  []Failure
	Leaving   bool // the agent is to be forgotten, not to be waited for
}

// Failure is a release that an agent could not make live.
type Failure struct {
	Name     script.Name
	Revision script.Revision // of the release that failed
	Err      *script.Error
}

// Fleet is what is known of the agents and the releases. It is safe for
// concurrent use. A report costs time by what changed in it, not by the number
// of agents or scripts.
type Fleet struct {
	now          func() time.Time
	unknownAfter time.Duration
	dropAfter    time.Duration
	settleFor    time.Duration
	converged    func(script.Name, time.Duration)

	mu       sync.Mutex
	id       string
	head     script.Revision
	base     script.Revision // the head when the releases were first known here
	agents   map[string]*agent
	departed map[string]departure
	levels   levels // of the connected agents
	scripts  map[script.Name]*progress
	pending  []*progress                       // waited for, by revision
	failing  map[script.Name]map[string]*agent // connected agents by what they failed
	ignored  Ignored
	// gathering: the agents have yet to answer the roll, which was called at
	// called; if that is zero, it has yet to be called.
	gathering bool
	called    time.Time
	changed   chan struct{} // closed at each change; nil while nobody waits
}

var _ registry.Projection = (*Fleet)(nil)

// agent is the last that was heard of an agent.
type agent struct {
	name        string
	incarnation string
	before      []string // incarnations before it
	sequence    uint64
	labels      map[string]string
	software    string
	activated   script.Revision
	failures    map[script.Name]Failure
	heard       time.Time
	unknown     bool
}

// departure is an agent that said that it leaves: what is still under way from
// that incarnation does not bring it back.
type departure struct {
	incarnation string
	at          time.Time
}

// Ignored counts the reports that changed nothing because they were wrong.
type Ignored struct {
	Foreign uint64 // of another fleet
	Stale   uint64 // overtaken by a newer one
}

// New returns a fleet without agents.
func New(cfg Config) *Fleet {
	f := &Fleet{
		now:          cfg.Clock,
		unknownAfter: cfg.UnknownAfter,
		dropAfter:    cfg.DropAfter,
		settleFor:    cfg.Settle,
		converged:    cfg.Converged,
		gathering:    true,
		agents:       map[string]*agent{},
		departed:     map[string]departure{},
		scripts:      map[script.Name]*progress{},
		failing:      map[script.Name]map[string]*agent{},
	}
	if f.now == nil {
		f.now = time.Now
	}
	if f.unknownAfter == 0 {
		f.unknownAfter = 15 * time.Second
	}
	if f.dropAfter == 0 {
		f.dropAfter = time.Hour
	}
	if f.settleFor == 0 {
		f.settleFor = time.Second
	}
	if f.converged == nil {
		f.converged = func(script.Name, time.Duration) {}
	}
	return f
}

// RollCalled says that the agents were just asked to report: at the start, and
// whenever they may have been out of reach. Until they had the time to answer
// nothing counts as converged.
func (f *Fleet) RollCalled() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gathering, f.called = true, f.now()
	f.touch()
}

// gathered reports whether the agents had the time to answer the roll. What has
// converged meanwhile is found once they had.
func (f *Fleet) gathered(now time.Time) bool {
	if !f.gathering {
		return true
	}
	if f.called.IsZero() || now.Sub(f.called) < f.settleFor {
		return false
	}
	f.gathering = false
	f.settle(now)
	f.touch()
	return true
}

// Heard takes in a report.
func (f *Fleet) Heard(r Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.id == "" || r.Fleet != f.id {
		f.ignored.Foreign++
		return
	}
	now := f.now()
	a := f.agents[r.Agent]
	if !f.accepts(a, r, now) {
		f.ignored.Stale++
		return
	}
	if r.Leaving {
		f.departed[r.Agent] = departure{incarnation: r.Incarnation, at: now}
		if a != nil {
			f.forget(a)
		}
		return
	}
	if a == nil {
		a = &agent{name: r.Agent, incarnation: r.Incarnation, unknown: true}
		f.agents[r.Agent] = a
	}
	if a.incarnation != r.Incarnation {
		a.before = append(a.before, a.incarnation)
		a.before = a.before[max(0, len(a.before)-rememberedIncarnations):]
		a.incarnation = r.Incarnation
	}
	a.sequence, a.heard = r.Sequence, now
	a.labels, a.software = r.Labels, r.Software
	f.update(a, r, now)
}

// rememberedIncarnations of an agent are told from its next one.
const rememberedIncarnations = 4

// accepts reports whether r is newer than what is known.
func (f *Fleet) accepts(a *agent, r Report, now time.Time) bool {
	if d, ok := f.departed[r.Agent]; ok && d.incarnation == r.Incarnation {
		return false
	}
	if a == nil {
		return true
	}
	if a.incarnation == r.Incarnation {
		return r.Sequence > a.sequence
	}
	for _, old := range a.before {
		// Two agents of one name: the newer one counts while it is heard.
		if old == r.Incarnation && !a.unknown && now.Sub(a.heard) < f.unknownAfter {
			return false
		}
	}
	return true
}

// update brings the indexes to what the report says.
func (f *Fleet) update(a *agent, r Report, now time.Time) {
	joined, moved := a.unknown, a.activated != r.Activated
	if joined || moved {
		if !joined {
			f.levels.remove(a.activated)
		}
		from := a.activated
		if joined || r.Activated < from {
			from = 0
		}
		a.activated, a.unknown = r.Activated, false
		f.levels.add(a.activated)
		f.passed(a, from, now)
	}
	failed := f.updateFailures(a, r.Failures, joined, now)
	if joined || moved || failed {
		f.settle(now)
		f.touch()
	}
}

// updateFailures replaces the agent's failures and reports whether they differ.
func (f *Fleet) updateFailures(a *agent, failures []Failure, joined bool, now time.Time) bool {
	if len(failures) == 0 && len(a.failures) == 0 {
		return false
	}
	next := make(map[script.Name]Failure, len(failures))
	for _, failure := range failures {
		if known, ok := next[failure.Name]; !ok || failure.Revision > known.Revision {
			next[failure.Name] = failure
		}
	}
	differ := joined || len(next) != len(a.failures)
	for name := range a.failures {
		if _, ok := next[name]; !ok {
			f.unindexFailure(a, name)
			f.recovered(a, name, now)
		}
	}
	for name, failure := range next {
		differ = differ || a.failures[name].Revision != failure.Revision
		if f.failing[name] == nil {
			f.failing[name] = map[string]*agent{}
		}
		f.failing[name][a.name] = a
	}
	a.failures = next
	return differ
}

func (f *Fleet) unindexFailure(a *agent, name script.Name) {
	delete(f.failing[name], a.name)
	if len(f.failing[name]) == 0 {
		delete(f.failing, name)
	}
}

// disconnect takes a connected agent out of the indexes.
func (f *Fleet) disconnect(a *agent) {
	if a.unknown {
		return
	}
	a.unknown = true
	f.levels.remove(a.activated)
	for name := range a.failures {
		f.unindexFailure(a, name)
	}
}

func (f *Fleet) forget(a *agent) {
	f.disconnect(a)
	delete(f.agents, a.name)
	f.settle(f.now())
	f.touch()
}

// Sweep finds the agents that are unheard for too long, and that a roll call has
// been answered. Call it a few times a second.
func (f *Fleet) Sweep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	f.gathered(now)
	lost := false
	for name, a := range f.agents {
		unheard := now.Sub(a.heard)
		if !a.unknown && unheard >= f.unknownAfter {
			f.disconnect(a)
			lost = true
		}
		if a.unknown && unheard >= f.unknownAfter+f.dropAfter {
			delete(f.agents, name)
			lost = true
		}
	}
	for name, d := range f.departed {
		if now.Sub(d.at) >= f.unknownAfter {
			delete(f.departed, name)
		}
	}
	if lost {
		f.settle(now)
		f.touch()
	}
}

// Counts is the size of the fleet, for metrics.
type Counts struct {
	Connected int
	Unknown   int
	Ignored   Ignored
}

// Counts returns the size of the fleet.
func (f *Fleet) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	connected := f.levels.total()
	return Counts{Connected: connected, Unknown: len(f.agents) - connected, Ignored: f.ignored}
}
