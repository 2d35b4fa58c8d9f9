package fleet

import (
	"github.com/scriptorium-dev/scriptorium/script"
)

// Comparison is what agents have counted in a candidate's step: those of the step call the
// candidate, and all others the active version. In a step by key, or in the shadow, those of the step
// call both, and others count nothing.
type Comparison struct{ Candidate, Active Tally }

// Tally counts calls.
type Tally struct {
	Calls, FailedCalls uint64
	Latencies          [script.LatencyBuckets]uint64
}

// comparison adds up what agents say of the calls in one step.
type comparison struct {
	step int
	Comparison
	counted [kindsOfCalls]map[*agent]counted // by processes that have not ended
}

// The kinds of calls that an agent says of one candidate.
const (
	ofRunning    = iota // of the version that it runs; of the candidate if that runs for a part of the calls
	besides             // of the active version besides, if the agent runs the candidate for a part
	kindsOfCalls        // is their number
)

// counted is the last that an agent said.
type counted struct {
	calls script.StepCalls
	of    *Tally // that it is part of
}

// compares begins to compare the versions anew at each step, if the plan does.
func (c *candidacy) compares(r *script.Release) {
	step := r.Candidate.Step
	switch {
	case !r.Plan().Compares() || step == 0 || r.Candidate.Failed != "":
		c.dropCompared()
	case c.compared == nil || c.compared.step != step:
		c.dropCompared()
		c.compared = &comparison{step: step, counted: [...]map[*agent]counted{ofRunning: {}, besides: {}}}
	}
}

func (c *candidacy) dropCompared() {
	if c.compared != nil {
		for _, of := range c.compared.counted {
			for a, last := range of {
				c.keep(a, -sizeOf(&last.calls))
			}
		}
		c.compared = nil
	}
}

// differs reports whether the calls count, and are others than the agent has said before.
func (c *candidacy) differs(a *agent, kind int, calls *script.StepCalls) bool {
	to := c.compared
	if to == nil || calls == nil || calls.Step != to.step {
		return false // of another step, which there was before or will be
	}
	if c.tallyOf(a, kind) == nil {
		return false
	}
	last := to.counted[kind][a].calls
	return last.FailedCalls != calls.FailedCalls || last.Calls() != calls.Calls()
}

// tallyOf returns what the agent's calls of the kind are part of; nil if they do not count.
func (c *candidacy) tallyOf(a *agent, kind int) *Tally {
	switch member := c.members.has(a.slot); {
	case kind == besides && !c.keyed.has(a.slot):
		return nil
	case kind == ofRunning && member:
		return &c.compared.Candidate
	case kind == ofRunning && c.step.By != script.ByAgent: // its calls have other keys, or no shadow
		return nil
	}
	return &c.compared.Active
}

// compare replaces what the agent has said of the step's calls, and reports whether that is news.
func (c *candidacy) compare(a *agent, kind int, calls *script.StepCalls) bool {
	if !c.differs(a, kind, calls) {
		return false
	}
	to := c.compared
	last, of := to.counted[kind][a], c.tallyOf(a, kind)
	if last.of != nil {
		last.of.add(&last.calls, ^uint64(0))
	}
	of.add(calls, 1)
	to.counted[kind][a] = counted{calls: *calls, of: of}
	return true
}

// add adds the calls so many times. ^0 takes them away.
func (t *Tally) add(calls *script.StepCalls, times uint64) {
	t.Calls += times * calls.Calls()
	t.FailedCalls += times * calls.FailedCalls
	for i, n := range calls.Buckets {
		t.Latencies[calls.First+i] += times * n
	}
}

// apart reports whether an unknown agent that follows the script is not to run the candidate for all
// calls.
func (f *Fleet) apart(c *candidacy) bool {
	for _, a := range f.agents {
		if !a.unknown || !a.group.selector.Matches(c.name.Tenant) {
			continue
		}
		if member, keyed := c.selects(a); !member || keyed {
			return true
		}
	}
	return false
}

// countable reports whether an agent that said others before, if that was the same incarnation,
// can have made so many calls of the step until now.
func (c *candidacy) countable(a *agent, kind int, calls *script.StepCalls, again bool, most uint64) bool {
	if c.compared == nil || calls == nil || calls.Step != c.compared.step {
		return true
	}
	last := c.compared.counted[kind][a].calls
	return calls.Calls() <= most && (!again || calls.Calls() >= last.Calls() && calls.FailedCalls >= last.FailedCalls)
}
