package fleet

import (
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Trial is what an agent says of a candidate.
type Trial struct {
	Name             script.Name
	Version, Attempt uint64
	// Tested: it was put to all tests of the script. It has passed if Err is nil, and
	// failed if it is not.
	Tested bool
	Err    *script.Error
	// Waiting says why it is not tested yet, if a test has to be tried again.
	Waiting string
	// Calls of it on the agent since it went live there, and those of them that failed.
	Calls, FailedCalls uint64
	// ProcessEnded: the process of the tenant ended there while it ran the candidate.
	ProcessEnded bool
	// Spec is the digest of what it runs with there; zero if the agent is too old to say it.
	Spec script.Digest
	// StepCalls are those of the version that the agent runs in the candidate's step, if they are
	// compared; nil if there are none. They are Valid.
	StepCalls *script.StepCalls
	// ActiveCalls are likewise those of the active version, if the agent runs the candidate for calls
	// with certain keys. StepCalls are those of the candidate then.
	ActiveCalls *script.StepCalls
	// Shadow is what the agent found in the shadow of calls; nil if that is nothing.
	Shadow *script.ShadowCalls
}

// stepCalls are the calls of the trial by which versions are compared.
func (t *Trial) stepCalls() [kindsOfCalls]*script.StepCalls {
	return [...]*script.StepCalls{ofRunning: t.StepCalls, besides: t.ActiveCalls}
}

// Bounds of what is taken in of trials: what is beyond them counts for nothing.
const (
	MaxTrials = 1000    // of an agent
	maxCalls  = 1 << 40 // of a trial

	// An agent makes so many calls of a candidate each second at most, since it began and for
	// callsSlack.
	maxCallsPerSecond = 10_000_000
	callsSlack        = 10 * time.Minute
)

const (
	tooOld        = "its software is too old to run a version with limits, config and tests of its own: upgrade agentd"
	tooOldForSets = "its software does not know change sets: upgrade agentd"
	tooOldForKeys = "its software does not know steps by key: upgrade agentd"

	tooOldForShadows = "its software does not know shadow steps: upgrade agentd"

	noRoom = "the registry has no memory left for the calls that the agents of its subject count"
)

// candidacy is what the connected agents that follow a script say of its candidate. It
// takes four bits for each agent and a bit more for those that it is called or failed on.
type candidacy struct {
	name             script.Name
	version, attempt uint64
	// spec is that of the candidate, if it is another than the active version's: agents from
	// before versions had their own do not know it.
	spec script.Digest

	heard  slots // the agents that say anything of it: others may not know what it is
	passed slots // the agents on which it has passed all tests
	tested int   // their number
	failed map[*agent]*script.Error
	reason *script.Error     // one of failed, that others may share
	first  []AgentFailure    // of failed; nil until failures finds them
	held   map[*agent]string // why it is not tested yet, of those that say so
	hold   string            // one of held, that others may share
	// counts are of the processes of agents that have not ended: each says all that it counted.
	// calls are of all counts, and of the processes that have ended.
	counts map[*agent]calls
	calls  calls
	lives
	// of is the candidate, as the last release has it.
	of *script.Candidate
	ofAgents
	compared  *comparison // nil unless the versions are compared
	shadow    *shadowing  // nil unless the candidate is in a shadow step
	testing   bool        // the agents are to test it, before its first step
	gate      *GateAnswer // the last to this replica; nil if there was none
	confirmed time.Time   // all members were heard after the pause that ended then
	seen      uint64      // the last round of updateTrials that it was part of

	since time.Time                      // the release that it was first known by
	keep  func(a *agent, bytes int) bool // is Fleet.keep
}

// calls are counted, and those of them that failed.
type calls struct{ all, failed uint64 }

func (f *Fleet) newCandidacy(r *script.Release) *candidacy {
	c := &candidacy{
		keep: f.keep,
		name: r.Name, version: r.Candidate.Version.Number, attempt: r.Candidate.Attempt,
		since:  r.ChangedAt,
		failed: map[*agent]*script.Error{}, held: map[*agent]string{}, counts: map[*agent]calls{},
	}
	c.recallLives(r.Candidate)
	if r.Candidate.Version.Spec != r.Active.Spec {
		c.spec = r.Candidate.Version.Spec
	}
	return c
}

// is reports whether the candidacy is that of the candidate.
func (c *candidacy) is(version, attempt uint64) bool {
	return c.version == version && c.attempt == attempt
}

// take replaces what the agent said before; nil says nothing. news: it changes where the
// candidate runs, has passed or failed. counts: it changes what may reach watchers later.
func (c *candidacy) take(a *agent, t *Trial) (news, counts bool) {
	heard := t != nil
	switch {
	case t == nil && c.tooOld(&a.report) != "":
		t = &Trial{Waiting: c.tooOld(&a.report)}
	case t == nil:
		t = &Trial{}
	case t.Spec != c.spec && !c.spec.IsZero(): // it runs the candidate with what the active version has
		t, heard = &Trial{Waiting: tooOld}, false
	case !c.reserve(a, t):
		t, heard = &Trial{Tested: t.Tested, Err: t.Err, ProcessEnded: t.ProcessEnded, Waiting: noRoom}, false
	}
	news = c.heard.set(a.slot, heard)
	if passed := t.Tested && t.Err == nil; c.passed.set(a.slot, passed) {
		news = true
		if passed {
			c.tested++
		} else {
			c.tested--
		}
	}
	news = c.fail(a, t.Err) || news
	if t.ProcessEnded && c.members.has(a.slot) {
		news = c.lose(a.report.Agent) || news
	}
	counts = c.setWaiting(a, t.Waiting)
	for kind, calls := range t.stepCalls() {
		counts = c.compare(a, kind, calls) || counts
	}
	counts = c.shadowed(a, t.Shadow) || counts
	n := calls{all: t.Calls, failed: min(t.FailedCalls, t.Calls)}
	before := c.counts[a]
	if n == before || n == (calls{}) { // what was counted stays counted
		return news, counts
	}
	c.calls.all += n.all - before.all
	c.calls.failed += n.failed - before.failed
	c.counts[a] = n
	return news, true
}

// sizeOfCalls is about how many bytes candidacy.counts takes for each agent.
const sizeOfCalls = 64

// reserve counts the bytes that the candidacy will keep of what the agent counted. It reports false
// if there is no room for them.
func (c *candidacy) reserve(a *agent, t *Trial) bool {
	more := 0
	if _, ok := c.counts[a]; !ok && t.Calls > 0 {
		more += sizeOfCalls
	}
	more += c.shadowBytes(a, t.Shadow)
	for kind, calls := range t.stepCalls() {
		if c.differs(a, kind, calls) {
			more += sizeOf(calls)
			if last, ok := c.compared.counted[kind][a]; ok {
				more -= sizeOf(&last.calls)
			}
		}
	}
	return more == 0 || c.keep(a, more)
}

// end forgets what agents counted.
func (c *candidacy) end() {
	c.dropCompared()
	c.dropShadow()
	for a := range c.counts {
		c.keep(a, -sizeOfCalls)
	}
}

// possible reports whether the calls can be those that the agent, which said others before if
// that was the same incarnation, made of the candidate until now.
func (c *candidacy) possible(a *agent, t *Trial, again bool, now time.Time) bool {
	most := min(uint64((max(0, now.Sub(c.since))+callsSlack).Seconds()*maxCallsPerSecond), maxCalls)
	for kind, calls := range t.stepCalls() {
		if !c.countable(a, kind, calls, again, most) {
			return false
		}
	}
	if !c.shadowable(a, t.Shadow, again, most) {
		return false
	}
	before := c.counts[a]
	if t.Calls == 0 || t.Calls == before.all && t.FailedCalls == before.failed {
		return true // it does not run there any more, or was not called
	}
	if again && (t.Calls < before.all || t.FailedCalls < before.failed) {
		return false
	}
	return t.Calls <= most && c.members.has(a.slot)
}

// setWaiting replaces why it is not tested yet on the agent, and reports whether that is
// another reason; "" if there is none.
func (c *candidacy) setWaiting(a *agent, why string) bool {
	switch before := c.held[a]; {
	case before == why:
		return false
	case why == "":
		delete(c.held, a)
		return true
	case why != c.hold:
		c.hold = why
	}
	c.held[a] = c.hold
	return true
}

// fail replaces why the tests failed on the agent; nil if they did not. Agents that say
// the same share one error: a test mostly fails in one way on all.
func (c *candidacy) fail(a *agent, err *script.Error) bool {
	before, ok := c.failed[a]
	switch {
	case err == nil && !ok:
		return false
	case err == nil:
		delete(c.failed, a)
	case ok && sameError(before, err):
		return false
	default:
		if c.reason == nil || !sameError(c.reason, err) {
			c.reason = err
		}
		err = c.reason
		c.failed[a] = err
		i, _ := slices.BinarySearchFunc(c.first, a.report.Agent, byAgent)
		if !ok && c.first != nil {
			c.first = insertFailure(c.first, i, AgentFailure{Agent: a.report.Agent, Err: err})
			return true
		}
	}
	c.first = nil
	return true
}

func sameError(a, b *script.Error) bool {
	return a.Kind == b.Kind && a.Field == b.Field && a.Message == b.Message && a.Line == b.Line && a.Column == b.Column
}

// failures are the first of those of its tests, by the agents' names.
func (c *candidacy) failures() []AgentFailure {
	if c.first == nil {
		for a, err := range c.failed {
			i, _ := slices.BinarySearchFunc(c.first, a.report.Agent, byAgent)
			c.first = insertFailure(c.first, i, AgentFailure{Agent: a.report.Agent, Err: err})
		}
	}
	return c.first
}

func byAgent(x AgentFailure, name string) int { return strings.Compare(x.Agent, name) }

// insertFailure inserts the failure at i, if that is among the first MaxFailures.
func insertFailure(list []AgentFailure, i int, failure AgentFailure) []AgentFailure {
	if i >= MaxFailures {
		return list
	}
	list = slices.Insert(list, i, failure)
	return list[:min(len(list), MaxFailures)]
}

// trackCandidate notes what has become of the release's candidate.
func (f *Fleet) trackCandidate(r *script.Release) {
	c, next := f.candidacies[r.Name], r.Candidate
	if c != nil && (next == nil || !c.is(next.Version.Number, next.Attempt)) {
		c.end()
		delete(f.candidacies, r.Name) // what agents have of it goes with their next report
		if _, ok := f.memory.gates.known[r.Name]; ok {
			f.noteGate(r.Name)
		}
		c = nil
	}
	if next == nil {
		return
	}
	isNew := c == nil
	if isNew {
		c = f.newCandidacy(r)
		f.candidacies[r.Name] = c
	}
	for _, agent := range next.Lost {
		c.lose(agent)
	}
	c.testing = next.Failed == "" && next.Frozen == "" && next.Step == 0 && len(next.Spec.Tests) > 0
	if c.choose(r) {
		for _, a := range f.agents {
			if !a.unknown {
				c.enroll(a)
			}
		}
	}
	c.compares(r)
	c.shadows(r)
	if isNew {
		f.takeEarly(c)
	}
}

// takeEarly takes in what agents said of the candidate before it was known here.
func (f *Fleet) takeEarly(c *candidacy) {
	for a := range f.early {
		a.early = slices.DeleteFunc(a.early, func(t Trial) bool {
			if t.Name != c.name || !c.is(t.Version, t.Attempt) {
				return false
			}
			if !c.possible(a, &t, false, f.now()) {
				t.Calls, t.FailedCalls, t.StepCalls, t.ActiveCalls, t.Shadow = 0, 0, nil, nil, nil // the next report tells
			}
			c.take(a, &t)
			a.trials = append(a.trials, c)
			return true
		})
		if len(a.early) == 0 {
			delete(f.early, a)
		}
	}
}

// updateTrials replaces what the agent, which is connected, said of candidates, and
// reports whether that is news, but for calls. Of calls that there cannot be, it takes in none:
// what was said before stays. again says whether the same incarnation has said it.
func (f *Fleet) updateTrials(a *agent, trials []Trial, again bool) bool {
	if len(trials) == 0 && len(a.trials) == 0 && len(a.early) == 0 {
		return false
	}
	f.round++
	news, taken, early := false, f.taken[:0], a.early[:0]
	for i := range trials[:min(len(trials), MaxTrials)] {
		t := &trials[i]
		c := f.candidacies[t.Name]
		switch {
		case !a.group.selector.Matches(t.Name.Tenant):
		case c != nil && c.is(t.Version, t.Attempt):
			if c.seen != f.round {
				c.seen = f.round
				taken = append(taken, c)
			}
			if !c.possible(a, t, again, f.now()) {
				f.ignored.Impossible++
				t.Calls, t.FailedCalls, t.StepCalls, t.ActiveCalls, t.Shadow = c.counts[a].all, c.counts[a].failed, nil, nil, nil
			}
			more, counts := c.take(a, t)
			news, f.counted = news || more, f.counted || counts
		case f.mayCome(t):
			one := *t
			one.StepCalls, one.ActiveCalls, one.Shadow = nil, nil, nil // the next report tells
			early = append(early, one)
		}
	}
	for _, c := range a.trials {
		if c.seen != f.round {
			more, counts := c.take(a, nil)
			news, f.counted = news || more, f.counted || counts
		}
	}
	if !slices.Equal(a.trials, taken) {
		a.trials = slices.Clone(taken)
	}
	clear(taken)
	f.taken = taken
	f.setEarly(a, early)
	return news
}

// mayCome reports whether the trial may be one of a candidate that is not known here yet:
// attempts are numbered by the revision that they follow.
func (f *Fleet) mayCome(t *Trial) bool {
	p := f.scripts[t.Name]
	return p == nil || t.Attempt > uint64(p.release.Revision)
}

func (f *Fleet) setEarly(a *agent, early []Trial) {
	if len(early) == 0 {
		a.early = nil
		delete(f.early, a)
		return
	}
	clear(early[len(early):cap(early)])
	a.early = early
	f.early[a] = true
}

// dropTrials forgets what the agent said of candidates, and that it runs them.
func (f *Fleet) dropTrials(a *agent) {
	f.updateTrials(a, nil, false)
	for _, c := range f.candidacies {
		c.dismiss(a)
	}
}
