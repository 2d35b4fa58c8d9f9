package fleet

import (
	"math/bits"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Trials is what connected agents say of a candidate.
type Trials struct {
	Passed, Failed     int // agents on which it passed all tests, and on which it did not
	Running            int // agents that run it, and say so
	Calls, FailedCalls uint64
	// Shadow is what agents found in a shadow step; nil in any other.
	Shadow *script.ShadowCalls
	// Waiting are the agents that a candidate on its way waits for: they have yet to
	// pass its tests, to activate the release, or to say that they run it. WaitingFor
	// names the first of them, and WaitingWhy is what holds up the first one, if it says
	// so; why others could not activate the release is among the failures.
	Waiting    int
	WaitingFor []string // at most MaxWaitingFor, in order
	WaitingWhy string   // at most 200 bytes or so
	Why        string   // what the rollout waits for, as Config.Judge says it
	Evidence   string   // what speaks for the candidate so far, as Config.Judge says it
}

// Candidacy is how far a candidate that is on its way has come on the connected agents
// that follow its script.
type Candidacy struct {
	Release   script.Release
	Gathering bool // the agents have yet to answer the roll: there may be more of them
	Known     int  // agents that follow the script, those included that are unknown
	Followers int
	Activated int // followers that have activated the release, if only to run what they ran before
	Passed    int // followers on which it passed all tests
	Members   int // followers that are to run it
	Running   int // members that do, and say so
	// Apart: an agent that follows the script is not to run the candidate in this step, or not for all
	// calls. It may be unknown.
	Apart bool
	// Own are those that the step itself selects of the Members; the others are of earlier steps.
	Own Members
	// Eligible are the followers that the next step can select, and Outdated those that it could
	// if their software was newer. Without a next step that has a selector both are 0.
	Eligible, Outdated int
	// TooOld are the followers that do not know what the candidate takes: change sets if it is part of
	// one, steps by key or shadow steps if it is in one, or comes to one next.
	TooOld int
	// Left says why the change set of the candidate cannot go live as a whole any more, and Unread
	// why nobody can tell; both are "" if it can.
	Left, Unread string
	// Rest are the other candidates of the change set.
	Rest []*script.Candidate
	// Failure is of the first follower, by the names, on which it did not pass them, or
	// that could not activate the release for a reason that does not pass; nil if there
	// is none.
	Failure *AgentFailure
	// Calls are all that were counted, and Ended those of them by processes that have ended.
	Calls, FailedCalls           uint64
	EndedCalls, EndedFailedCalls uint64
	// Lost are the agents that ended, or are not heard any more, while they were to run the
	// candidate or to test it. More of them may be: that is known by Missing, if it is not zero.
	// While most agents are unknown, those that are not heard are not among them.
	Lost    []string
	Missing time.Time
	// Confirmed are the members that were heard after the pause of the step.
	Confirmed int
	// Compared is what was counted in the step, if the plan compares the candidate with the active
	// version; nil otherwise.
	Compared *Comparison
	// Shadow is what agents found in the step, if that is a shadow step; nil otherwise.
	Shadow *script.ShadowCalls
	// After are the scripts that the candidate has to wait for before its first step, or before it is
	// live if there are no steps.
	After []Dependency
	// Freeze is the registry's. It is not to be changed.
	Freeze script.Freeze
	// Gate is the last that was heard of a gate in this attempt; nil if none was asked. It is not
	// to be changed.
	Gate *GateAnswer
}

// Members is how many agents are to run a candidate, and how far they are with it: as Candidacy
// has them.
type Members struct{ Members, Running, Confirmed int }

// Changed returns what is closed at the next change of what the fleet says of anything.
// Of calls of candidates it tells once a second.
func (f *Fleet) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wait()
}

// Candidacies returns those of all candidates that are on their way, in no order.
func (f *Fleet) Candidacies() []Candidacy {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gathered(f.now())
	list := make([]Candidacy, 0, len(f.candidacies))
	all := &survey{fleet: f}
	for _, c := range f.candidacies {
		if p := f.scripts[c.name]; f.moves(p) {
			list = append(list, f.candidacy(c, p, all))
		}
	}
	return list
}

// Buckets returns the candidacy of the script, with the buckets of the followers that its next
// step selects from, in order; ok is false if no candidate of it is on its way. It takes time by the number of agents.
func (f *Fleet) Buckets(name script.Name) (_ Candidacy, buckets []uint32, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gathered(f.now())
	c := f.candidacies[name]
	if c == nil || !f.moves(f.scripts[name]) {
		return Candidacy{}, nil, false
	}
	for _, a := range f.agents {
		if !a.unknown && a.group.selector.Matches(name.Tenant) && !c.old.has(a.slot) && (c.next == "" || c.eligible.has(a.slot)) {
			buckets = append(buckets, script.Bucket(a.report.Agent, c.of.BucketName(name)))
		}
	}
	slices.Sort(buckets)
	return f.candidacy(c, f.scripts[name], &survey{fleet: f}), buckets, true
}

// moves reports whether the candidate of the script is on its way. That of a script whose
// record cannot be read stays where it is.
func (f *Fleet) moves(p *progress) bool {
	return f.unreadableScript(p.release.Name) == nil && p.release.Candidate.Failed == ""
}

func (f *Fleet) candidacy(c *candidacy, p *progress, s *survey) Candidacy {
	view := Candidacy{
		Release: p.release, Gathering: f.gathering, Activated: f.reachedBy(p),
		Passed: c.tested, Members: c.members.size(), Running: f.running(p, c, c.members, s),
		Eligible: c.eligible.size(), Outdated: c.outdated.size(), TooOld: c.old.size(),
		Calls: c.calls.all, FailedCalls: c.calls.failed, EndedCalls: c.ended.all, EndedFailedCalls: c.ended.failed,
		Freeze: f.freeze, Gate: f.gateOf(c, p.release.Candidate.Step),
	}
	view.Left, view.Unread = f.rest(c.name, p.release.Candidate.Set)
	view.Rest = f.restCandidates(c.name, p.release.Candidate.Set)
	view.Confirmed, view.Own.Confirmed = f.confirmed(c, &p.release, f.now())
	view.Own.Members, view.Own.Running = view.Members, view.Running
	if c.mixed {
		view.Own.Members, view.Own.Running = c.own.size(), f.running(p, c, c.own, s)
	}
	for _, g := range f.followers(c.name.Tenant) {
		view.Known += g.known
		view.Followers += g.levels.total()
	}
	if c.compared != nil {
		compared := c.compared.Comparison
		view.Compared = &compared
		view.Apart = view.Members < view.Followers || c.keyed.size() > 0 || view.Followers < view.Known && f.apart(c)
	}
	if c.shadow != nil {
		found := c.shadow.calls
		view.Shadow = &found
	}
	if p.release.Candidate.Step == 0 {
		view.After = s.unmetAfter(p.release.Plan())
	}
	view.Lost = slices.Clone(c.lost)
	if 2*view.Followers >= view.Known { // else nobody asks who of so many is lost
		view.Lost, view.Missing = f.losses(c, f.now()), f.missing(c, f.now())
	}
	if first := c.failures(); len(first) > 0 {
		failure := first[0]
		view.Failure = &failure
	}
	for a, failed := range f.without(p) {
		if a.report.Activated >= p.release.Revision {
			view.Activated--
		}
		if failed && c.lasts(a) && (view.Failure == nil || a.report.Agent <= view.Failure.Agent) {
			view.Failure = &AgentFailure{Agent: a.report.Agent, Err: a.failures[c.name].Err}
		}
	}
	return view
}

// CandidateCounts is the number of scripts that have a candidate, by its state.
type CandidateCounts struct {
	Testing, RollingOut, Failed, Frozen int
	// Longest is how long the candidate that waits longest is in its step, without the step's pause.
	Longest time.Duration
}

// CandidateCounts counts the scripts that have a candidate.
func (f *Fleet) CandidateCounts() (n CandidateCounts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for name := range f.candidacies {
		n.Longest = max(n.Longest, waits(&f.scripts[name].release, now))
		switch f.scripts[name].release.CandidateState() {
		case script.CandidateFailed:
			n.Failed++
		case script.CandidateFrozen:
			n.Frozen++
		case script.CandidateRollingOut:
			n.RollingOut++
		case script.CandidateTesting:
			n.Testing++
		}
	}
	return n
}

// active counts the agents that run the active version of a release with a candidate, which
// runs on so many others. Agents that have yet to hear of the candidate are among them.
func (f *Fleet) active(p *progress, running int) int {
	if p.release.Untried() {
		return 0
	}
	n := -running
	for _, g := range f.followers(p.release.Name.Tenant) {
		n += g.levels.atLeast(p.since)
	}
	for a := range f.troubled(p) {
		if !a.group.selector.Matches(p.release.Name.Tenant) || a.report.Activated < p.since {
			continue
		}
		gotOver := a.report.Activated >= p.release.Revision && !a.couldNot(&p.release)
		above, lags := a.report.Lags[p.release.Name.Tenant]
		if !gotOver && a.failures[p.release.Name].Revision >= p.since || lags && above < p.since {
			n--
		}
	}
	return n
}

// addTrials adds what is known of the candidate, which runs on so many agents, to what
// is known of its release. As many as both of the agents that failed its tests are among
// those that failed.
func (s *ScriptStatus) addTrials(c *candidacy, running, both int) {
	s.Converged = false
	s.Trials = &Trials{Passed: c.tested, Failed: len(c.failed), Running: running, Calls: c.calls.all, FailedCalls: c.calls.failed}
	if c.shadow != nil {
		found := c.shadow.calls
		s.Trials.Shadow = &found
	}
	s.Failed += len(c.failed) - both
	for _, failure := range c.failures() {
		if i, known := slices.BinarySearchFunc(s.Failures, failure.Agent, byAgent); !known {
			s.Failures = insertFailure(s.Failures, i, failure)
		}
	}
}

// running counts the agents that run the candidate: of its members, or some of them, those that
// have activated the release, did not fail it, and say so. Others may not know what a candidate
// is.
func (f *Fleet) running(p *progress, c *candidacy, members slots, s *survey) int {
	n, late := 0, s.late(p)
	for i, word := range members {
		n += bits.OnesCount64(word & c.heard.word(i) &^ late.word(i))
	}
	if n == 0 {
		return 0
	}
	counted := func(a *agent) bool {
		return members.has(a.slot) && c.heard.has(a.slot) && a.report.Activated >= p.release.Revision
	}
	for a := range c.failed {
		if counted(a) {
			n--
		}
	}
	for a := range f.without(p) {
		if _, both := c.failed[a]; !both && counted(a) {
			n--
		}
	}
	return n
}

// lasts reports whether it is the candidate's fault that the agent could not activate the
// release, or keeps it from running. Agents get over whatever else it is: they try again
// until they do.
func (c *candidacy) lasts(a *agent) bool {
	err := a.failures[c.name].Err
	if err.Kind == script.Unavailable { // it may be in quarantine where it runs
		return err.Field == quarantined && c.members.has(a.slot)
	}
	return err.Kind.Deterministic()
}

// quarantined is the field of an agent's error that is for a script's own doing: what it
// ran in died of it.
const quarantined = "script"
