package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestWaitingFor names the first agents that a candidate waits for, however many there are,
// and whatever for.
func TestWaitingFor(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b := newBench(t)
	waits := func(agents []string) {
		t.Helper()
		slices.Sort(agents)
		got, want := b.route().Trials, agents[:min(len(agents), fleet.MaxWaitingFor)]
		if got.Waiting != len(agents) || !slices.Equal(got.WaitingFor, want) {
			t.Errorf("waits for %d agents, %v; want %d, %v", got.Waiting, got.WaitingFor, len(agents), want)
		}
	}
	var agents []string
	for i := range 300 {
		agents = append(agents, fmt.Sprint("n", i))
	}
	for _, i := range random.Perm(300) { // in no order
		b.hear(agents[i], 10)
	}
	b.follow("elsewhere", 10, "shop")
	tested := b.candidate(route, 11, 11, 0)
	tested.Candidate.Spec.Tests = make([]script.Test, 1)
	b.apply(tested)
	waits(agents)
	for _, a := range agents { // to activate it is not all that there is to it
		b.hear(a, 11)
	}
	waits(agents)
	var left []string
	for _, i := range random.Perm(300) {
		if i >= 293 {
			left = append(left, agents[i])
			continue
		}
		b.trial(agents[i], 11, 11, "")
	}
	waits(left)
	for _, a := range left[2:] {
		b.trial(a, 11, 11, "")
	}
	waits(left[:2])
	b.trial(left[1], 11, 11, "boom") // that ends it, and is not waited for
	waits(left[:1])
	b.trial(left[1], 11, 11, "")
	b.pass(16 * time.Second)
	for _, a := range agents {
		if a != left[0] {
			b.trial(a, 11, 11, "")
		}
	}
	b.Sweep() // nobody waits for one that is unknown
	waits(nil)
	r := b.report("n9", 11)
	r.Leaving = true
	b.Heard(r)
	b.trial("again", 10, 11, "") // it has the place of one that is gone
	waits([]string{"again"})
	given := tested
	given.Revision, given.Candidate = 12, &script.Candidate{Version: script.Version{Number: 2}, Attempt: 11, Failed: "boom"}
	b.apply(given)
	waits(nil)
}

// TestThoseThatDoNotSay that they know the candidate count for nothing, and are waited for
// where they are to run it.
func TestThoseThatDoNotSay(t *testing.T) {
	b := newBench(t)
	above, below := aboveAndBelow(1)
	changed := b.Changed()
	b.apply(b.candidate(route, 11, 11, half))
	for _, a := range []string{above[0], below[0]} {
		b.hear(a, 11)
	}
	b.tried("0/0/0 0/0")
	b.want("2/0/0 of 2", false, "")
	if s := b.route().Trials; s.Waiting != 1 || s.WaitingFor[0] != below[0] {
		t.Errorf("%+v, want it to wait for %s", s, below[0])
	}
	if c := b.Candidacies()[0]; c.Members != 1 || c.Running != 0 || c.Known != 2 || c.Followers != 2 {
		t.Errorf("%+v", c)
	}
	<-changed
	changed = b.Changed()
	r := b.report(below[0], 11) // without tests, that it runs it is all that it says
	r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 11}}
	b.Heard(r)
	select {
	case <-changed:
	default:
		t.Error("that it runs somewhere is no news")
	}
	b.tried("0/0/1 0/0")
	if c := b.Candidacies()[0]; c.Members != 1 || c.Running != 1 {
		t.Errorf("%+v", c)
	}
	b.hear(below[0], 11) // it is another software now
	b.tried("0/0/0 0/0")
	b.pass(16 * time.Second)
	b.hear(above[0], 11)
	b.Sweep()
	if c := b.Candidacies()[0]; c.Members != 0 || c.Running != 0 || c.Known != 2 || c.Followers != 1 {
		t.Errorf("%+v", c)
	}
}

// TestWhatMayPass: a failure that may pass fails no candidate. The status reports it, and
// the rollout waits.
func TestWhatMayPass(t *testing.T) {
	b := newBench(t)
	b.apply(b.candidate(route, 11, 11, 0))
	b.trial("a", 11, 11, "")
	r := b.report("b", 11)
	r.Failures = []fleet.Failure{{Name: route, Revision: 11, Err: script.Errorf(script.Unavailable, "disk", "it is full")}}
	b.Heard(r)
	s := b.route()
	if s.Failed != 1 || len(s.Failures) != 1 || s.Trials.Waiting != 1 || s.Trials.WaitingFor[0] != "b" || s.Trials.WaitingWhy != "disk: it is full" {
		t.Errorf("%+v, %+v", s, s.Trials)
	}
	if c := b.Candidacies()[0]; c.Failure != nil || c.Followers != 2 || c.Activated != 1 {
		t.Errorf("%+v", c)
	}
	b.fail("b", 11, 11) // now it is the script that is wrong
	if c := b.Candidacies()[0]; c.Failure == nil || c.Failure.Agent != "b" || c.Activated != 1 {
		t.Errorf("%+v", c)
	}
	if s := b.route(); s.Trials.Waiting != 0 {
		t.Errorf("%+v", s.Trials)
	}
}

// TestWhatHoldsATestUp: the status has the reason of the first agent.
func TestWhatHoldsATestUp(t *testing.T) {
	b := newBench(t)
	r := b.candidate(route, 11, 11, 0)
	r.Candidate.Spec.Tests = make([]script.Test, 1)
	b.apply(r)
	say := func(agent, why string) {
		report := b.report(agent, 11)
		report.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 11, Waiting: why}}
		b.Heard(report)
	}
	told := func(want string) {
		t.Helper()
		if got := b.route().Trials; fmt.Sprint(got.Waiting, got.WaitingFor, " ", got.WaitingWhy) != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	say("b", "busy")
	told("1 [b] busy")
	b.Sweep()
	b.pass(time.Second)
	changed := b.Changed()
	say("b", "busy")
	b.Sweep()
	select {
	case <-changed:
		t.Error("it said the same")
	default:
	}
	say("b", strings.Repeat("€", 100))
	b.Sweep()
	<-changed
	told("1 [b] " + strings.Repeat("€", 66) + "…")
	say("a", "")
	told("2 [a b] ")
	b.trial("a", 11, 11, "")
	say("b", "busy")
	told("1 [b] busy")
	b.hear("b", 11)
	told("1 [b] ")
	b.trial("b", 11, 11, "")
	told("0 [] ")
}

// TestAgentsThatDoNotKnowChangeSets: the status names those that a change set waits for, also without
// tests and before any step.
func TestAgentsThatDoNotKnowChangeSets(t *testing.T) {
	b := newBench(t)
	r := b.candidate(route, 11, 11, 0)
	r.Candidate.Set = &script.Membership{Name: "cart-2", Attempt: 11, Scripts: []string{route.Script}}
	b.apply(r)
	knows := b.report("new", 11)
	knows.Sets = true
	b.Heard(knows)
	b.Heard(b.report("old", 11))
	got := b.route().Trials
	if got.Waiting != 1 || fmt.Sprint(got.WaitingFor) != "[old]" || got.WaitingWhy != "its software does not know change sets: upgrade agentd" {
		t.Errorf("%+v", got)
	}
	upgraded := b.report("old", 11)
	upgraded.Sets, upgraded.Incarnation = true, "old-2"
	b.Heard(upgraded)
	if got := b.route().Trials; got.Waiting != 0 {
		t.Errorf("after the upgrade %+v", got)
	}
}

// TestAgentsThatAreTooOld: what an agent says of a candidate counts for nothing if it does not
// run the candidate with the candidate's own settings, and the status says so.
func TestAgentsThatAreTooOld(t *testing.T) {
	b := newBench(t)
	r := b.candidate(route, 11, 11, 1<<32-1)
	r.Candidate.Spec.Tests = make([]script.Test, 1)
	r.Candidate.Version = r.Candidate.Version.With(r.Candidate.Spec)
	b.apply(r)
	say := func(agent string, spec script.Digest) {
		report := b.report(agent, 11)
		report.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 11, Spec: spec, Tested: true, Calls: 7, FailedCalls: 7}}
		b.Heard(report)
	}
	say("new", r.Candidate.Version.Spec)
	say("old", script.Digest{})
	got := b.route().Trials
	if got.Passed != 1 || got.Calls != 7 || got.FailedCalls != 7 || fmt.Sprint(got.WaitingFor) != "[old]" || !strings.Contains(got.WaitingWhy, "upgrade agentd") {
		t.Errorf("%+v", got)
	}
	b.pass(2 * time.Second)
	b.Sweep()
	changed := b.Changed()
	say("old", script.Digest{})
	b.pass(2 * time.Second)
	b.Sweep()
	select {
	case <-changed:
		t.Error("an old agent that says the same again is news")
	default:
	}
	say("old", r.Candidate.Version.Spec) // upgraded
	if got := b.route().Trials; got.Passed != 2 || got.Calls != 14 || got.WaitingWhy != "" {
		t.Errorf("after the upgrade: %+v", got)
	}
}
