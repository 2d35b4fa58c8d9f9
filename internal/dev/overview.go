package dev

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// overview is the fleet as the registry has told it, change by change.
type overview struct {
	connected int // agents
	scripts   map[script.Name]registryclient.ScriptStatus
	open      map[script.Name]bool // those that are still on their way
}

func newOverview() *overview {
	return &overview{scripts: map[script.Name]registryclient.ScriptStatus{}, open: map[script.Name]bool{}}
}

func (o *overview) take(c registryclient.StatusChange) {
	if c.Full {
		clear(o.scripts)
		clear(o.open)
	}
	o.connected = c.Connected
	for i := range c.Scripts {
		s := &c.Scripts[i]
		name := s.Release.Name
		o.scripts[name] = *s
		if settled(s) {
			delete(o.open, name)
		} else {
			o.open[name] = true
		}
	}
	for _, name := range c.Gone {
		delete(o.scripts, name)
		delete(o.open, name)
	}
}

// settled reports whether there is nothing more to wait for: the release is live, or it is
// known why not, or a candidate waits for time to pass.
func settled(s *registryclient.ScriptStatus) bool {
	switch s.Release.CandidateState() {
	case script.CandidateFailed, script.CandidateFrozen:
		return true
	case script.CandidateRollingOut:
		return s.Trials != nil && s.Trials.Waiting == 0
	case script.CandidateTesting:
		return false
	}
	return s.Converged || s.Failed > 0 && s.Waiting() == 0
}

// fewNames are as many scripts as are named in one line.
const fewNames = 3

// waitsFor says what the start of so many agents waits for; "" if for nothing.
func (o *overview) waitsFor(agents int) string {
	switch {
	case o.connected < agents:
		return fmt.Sprintf("waiting for %d agents: %d are connected", agents, o.connected)
	case len(o.open) == 0:
		return ""
	case len(o.open) > fewNames:
		return fmt.Sprintf("waiting for %d agents: %d of %d scripts are not live yet", agents, len(o.open), len(o.scripts))
	}
	var lines []string
	for _, name := range sorted(o.open) {
		s := o.scripts[name]
		lines = append(lines, whereItIs(&s))
	}
	return fmt.Sprintf("waiting for %d agents: %s", agents, strings.Join(lines, "; "))
}

// maxTroubles is how many scripts that are not live are named at the start.
const maxTroubles = 5

// printTroubles says of the scripts that are not live why they are not.
func (o *overview) printTroubles(out io.Writer) {
	troubles := map[script.Name]bool{}
	for name := range o.scripts {
		if !o.scripts[name].Converged {
			troubles[name] = true
		}
	}
	for i, name := range sorted(troubles) {
		if i == maxTroubles {
			fmt.Fprintf(out, "and %d more are not live: see scriptctl status\n", len(troubles)-maxTroubles)
			return
		}
		s := o.scripts[name]
		fmt.Fprintln(out, whereItIs(&s))
	}
}

func sorted(names map[script.Name]bool) []script.Name {
	return slices.SortedFunc(maps.Keys(names), func(a, b script.Name) int { return strings.Compare(a.String(), b.String()) })
}

// whereItIs says how far a release has come, in a line.
func whereItIs(s *registryclient.ScriptStatus) string {
	r := &s.Release
	switch r.CandidateState() {
	case script.CandidateFailed:
		return candidateFailure(s)
	case script.CandidateFrozen:
		return fmt.Sprintf("%s v%d is stored; %s", r.Name, r.Candidate.Version.Number, r.HeldBack())
	case script.CandidateTesting:
		passed := 0
		if s.Trials != nil {
			passed = s.Trials.Passed
		}
		return fmt.Sprintf("%s v%d is tested, and passed on %d/%d agents", r.Name, r.Candidate.Version.Number, passed, s.Desired) + testFailures(s)
	case script.CandidateRollingOut:
		step, ok := r.StepOf()
		if !ok {
			return fmt.Sprintf("%s v%d is about to be rolled out", r.Name, r.Candidate.Version.Number)
		}
		return fmt.Sprintf("%s v%d is rolled out to %s", r.Name, r.Candidate.Version.Number, step.Agents())
	}
	if s.Active == s.Desired {
		return fmt.Sprintf("%s v%d runs on %d/%d agents, which have yet to confirm it", r.Name, r.Active.Number, s.Active, s.Desired)
	}
	return fmt.Sprintf("%s v%d is on its way, and runs on %d/%d agents", r.Name, r.Active.Number, s.Active, s.Desired) + failures(s)
}

// candidateFailure says why a candidate was given up, and what runs.
func candidateFailure(s *registryclient.ScriptStatus) string {
	r := &s.Release
	runs := fmt.Sprintf("v%d stays active", r.Active.Number)
	if r.Untried() {
		runs = "nothing is active"
	}
	return fmt.Sprintf("%s v%d was given up, and %s: %s", r.Name, r.Candidate.Version.Number, runs, r.Candidate.Failed)
}

func testFailures(s *registryclient.ScriptStatus) string {
	var b strings.Builder
	for _, f := range s.Failures {
		fmt.Fprintf(&b, "; it failed on %s: %v", f.Agent, f.Err)
	}
	return b.String()
}
