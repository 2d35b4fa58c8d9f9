package fleet_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// candidate is a release of the script whose version 2 is on its way.
func (b *bench) candidate(name script.Name, revision script.Revision, attempt uint64, share uint32) script.Release {
	r := b.release(name, revision)
	r.Latest = 2
	r.Candidate = &script.Candidate{Version: script.Version{Number: 2}, Attempt: attempt, Threshold: share, Since: b.now}
	if share > 0 {
		r.Candidate.Step = 1
	}
	return r
}

func (b *bench) apply(releases ...script.Release) {
	for _, r := range releases {
		b.Apply(registry.Transaction{Revision: r.Revision, Releases: []script.Release{r}})
	}
}

// trial is a report on route's candidate, version 2.
func (b *bench) trial(agent string, activated script.Revision, attempt uint64, err string, calls ...uint64) {
	t := fleet.Trial{Name: route, Version: 2, Attempt: attempt, Tested: true}
	if err != "" {
		t.Err = script.Errorf(script.Script, "tests[it works]", "%s", err)
	}
	if len(calls) == 2 {
		t.Calls, t.FailedCalls = calls[0], calls[1]
	}
	r := b.report(agent, activated)
	r.Trials = []fleet.Trial{t}
	b.Heard(r)
}

// tried is "passed/failed/running calls/failed" of route's candidate.
func (b *bench) tried(want string) {
	b.t.Helper()
	got := "none"
	if t := b.route().Trials; t != nil {
		got = fmt.Sprintf("%d/%d/%d %d/%d", t.Passed, t.Failed, t.Running, t.Calls, t.FailedCalls)
	}
	if got != want {
		b.t.Errorf("trials %s, want %s", got, want)
	}
}

const half = 1 << 31

// aboveAndBelow are agents that are not among the half of route's that run a candidate
// first, and that are.
func aboveAndBelow(n int) (above, below []string) {
	for i := 0; len(above) < n || len(below) < n; i++ {
		agent := fmt.Sprint("n", i)
		if script.Bucket(agent, route) < half {
			below = append(below, agent)
		} else {
			above = append(above, agent)
		}
	}
	return above[:n], below[:n]
}

// TestACandidate: it never converges. Agents that run the active version meanwhile count as
// active, and those that it fails on as failed. Once it is promoted, the release converges as any.
func TestACandidate(t *testing.T) {
	b := newBench(t)
	above, below := aboveAndBelow(2)
	all := slices.Concat(above, below)
	for _, a := range all {
		b.hear(a, 10)
	}
	b.tried("none")
	b.apply(b.candidate(route, 11, 11, 0))
	b.tried("0/0/0 0/0")
	b.want("4/0/0 of 4", false, slices.Min(all)) // they have yet to hear of it, and run version 1
	for _, a := range all {
		b.trial(a, 11, 11, "")
	}
	b.want("4/0/0 of 4", false, "")
	b.tried("4/0/0 0/0")
	b.trial(above[0], 11, 7, "an older attempt")
	b.tried("3/0/0 0/0")
	b.trial(above[0], 11, 11, "boom")
	b.want("4/1/0 of 4", false, "")
	b.tried("3/1/0 0/0")
	if f := b.route().Failures; len(f) != 1 || f[0].Agent != above[0] || f[0].Err.Error() != "tests[it works]: boom" {
		t.Errorf("failures: %+v", f)
	}
	b.trial(above[0], 11, 11, "")
	b.apply(b.candidate(route, 12, 11, half)) // the next step: what was said stands
	b.tried("4/0/0 0/0")
	b.trial(below[0], 12, 11, "", 30, 1)
	b.want("3/0/0 of 4", false, slices.Min([]string{above[0], above[1], below[1]}))
	b.tried("4/0/1 30/1")
	b.trial(below[1], 12, 11, "", 10, 11) // no more can fail than there were
	b.trial(above[0], 12, 11, "")
	b.trial(above[1], 12, 11, "")
	b.want("2/0/0 of 4", false, "")
	b.tried("4/0/2 40/11")
	b.trial(below[1], 12, 11, "late", 10, 10)
	b.want("3/1/0 of 4", false, "")
	r := b.report(below[1], 12) // and it could not activate it either: that is one agent
	r.Failures = []fleet.Failure{{Name: route, Revision: 12, Err: script.Errorf(script.Invalid, "", "does not compile")}}
	r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 11, Tested: true, Err: script.Errorf(script.Script, "", "late")}}
	b.Heard(r)
	b.want("2/1/0 of 4", false, "")
	b.tried("3/1/1 40/11") // what was counted stays counted
	if f := b.route().Failures; len(f) != 1 || f[0].Err.Message != "does not compile" {
		t.Errorf("failures: %+v", f)
	}
	b.trial(below[1], 12, 11, "")
	b.tried("4/0/2 40/11")
	b.pass(16 * time.Second)
	for _, a := range all[:3] {
		b.trial(a, 12, 11, "")
	}
	b.Sweep()
	b.want("2/0/1 of 4", false, "") // nobody knows what it runs
	b.tried("3/0/1 40/11")
	b.trial(below[1], 12, 11, "")
	b.tried("4/0/2 40/11")
	if b.took() != -1 || len(b.converged) != 0 {
		t.Errorf("converged: %v", b.converged)
	}
	b.commit(route, 13)
	b.tried("none")
	b.pass(time.Millisecond)
	for _, a := range all {
		b.trial(a, 13, 11, "gone")
	}
	b.want("4/0/0 of 4", true, slices.Min(all))
	if b.took() != time.Millisecond || len(b.converged) != 1 {
		t.Errorf("took %v, converged: %v", b.took(), b.converged)
	}
}

// TestTrialsAheadOfTheWatch: agents may speak of a candidate before this replica knows of
// it, and go on to speak of one that is gone.
func TestTrialsAheadOfTheWatch(t *testing.T) {
	b := newBench(t)
	b.hear("a", 10)
	b.trial("b", 11, 11, "")
	b.trial("c", 11, 11, "boom")
	b.trial("gone", 11, 11, "boom")
	r := b.report("gone", 11)
	r.Leaving = true
	b.Heard(r)
	b.tried("none")
	b.apply(b.candidate(route, 11, 11, 0))
	b.tried("1/1/0 0/0")
	b.hear("c", 11)
	b.tried("1/0/0 0/0")
	b.apply(b.candidate(route, 12, 12, 0)) // tried anew
	b.tried("0/0/0 0/0")
	b.trial("a", 12, 12, "")
	b.tried("1/0/0 0/0")
	// Another fleet's agents say nothing here.
	b.reset("F2", 12, b.candidate(route, 12, 12, 0))
	b.tried("0/0/0 0/0")
}

// TestCandidacies: what the controller asks for.
func TestCandidacies(t *testing.T) {
	b := newBench(t)
	one := func() fleet.Candidacy {
		t.Helper()
		list := b.Candidacies()
		if len(list) != 1 {
			t.Fatalf("%d candidacies, want 1", len(list))
		}
		return list[0]
	}
	if len(b.Candidacies()) != 0 {
		t.Error("there is a candidate")
	}
	b.apply(b.candidate(route, 11, 11, 0))
	if _, buckets, ok := b.Buckets(route); !ok || len(buckets) != 0 {
		t.Errorf("buckets: %v %v", buckets, ok)
	}
	changed := b.Changed()
	b.trial("b", 10, 11, "")
	<-changed
	b.follow("elsewhere", 11, "shop")
	b.trial("a", 11, 11, "")
	b.fail("c", 11, 11)
	b.pass(16 * time.Second)
	b.trial("a", 11, 11, "", 8, 2) // which it does not run yet
	b.trial("b", 10, 11, "boom")
	b.Sweep()
	c := one()
	if c.Followers != 2 || c.Activated != 1 || c.Passed != 1 || c.Calls != 0 || c.FailedCalls != 0 || b.Counts().Ignored.Impossible != 1 || c.Gathering || c.Release.Revision != 11 {
		t.Errorf("%+v", c)
	}
	if c.Failure == nil || c.Failure.Agent != "b" || c.Failure.Err.Message != "boom" {
		t.Errorf("failure: %+v", c.Failure)
	}
	b.fail("a", 11, 11)
	if c = one(); c.Failure == nil || c.Failure.Agent != "a" {
		t.Errorf("failure: %+v", c.Failure)
	}
	_, buckets, _ := b.Buckets(route)
	if want := []uint32{script.Bucket("a", route), script.Bucket("b", route)}; len(buckets) != 2 || buckets[0] != min(want[0], want[1]) || buckets[1] != max(want[0], want[1]) {
		t.Errorf("buckets: %v, want %v in order", buckets, want)
	}
	b.RollCalled()
	if !one().Gathering {
		t.Error("the roll was called")
	}
	failed := b.candidate(route, 12, 11, 0)
	failed.Candidate.Failed = "boom"
	b.apply(failed)
	if _, _, ok := b.Buckets(route); ok || len(b.Candidacies()) != 0 {
		t.Error("what was given up is on its way")
	}
	if n := b.CandidateCounts(); n != (fleet.CandidateCounts{Failed: 1}) {
		t.Errorf("%+v", n)
	}
	untested := b.candidate(script.Name{Tenant: "acme", Script: "cart"}, 15, 15, 0)
	untested.Settings.Rollout.Steps = []script.Step{{Percent: 10}}
	b.apply(b.candidate(script.Name{Tenant: "acme", Script: "auth"}, 13, 13, 0), b.candidate(route, 14, 14, half), untested)
	if n := b.CandidateCounts(); n != (fleet.CandidateCounts{Testing: 1, RollingOut: 2}) {
		t.Errorf("%+v", n)
	}
	b.reset(fleetID, 20)
	if n := b.CandidateCounts(); n != (fleet.CandidateCounts{}) {
		t.Errorf("%+v", n)
	}
}

// TestCallsAreToldOnceASecond, tests at once, and heartbeats never.
func TestCallsAreToldOnceASecond(t *testing.T) {
	b := newBench(t)
	_, below := aboveAndBelow(1)
	b.apply(b.candidate(route, 11, 11, half))
	told := func(do func()) bool {
		changed := b.Changed()
		do()
		b.Sweep()
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	b.trial(below[0], 11, 11, "")
	b.pass(5 * time.Second)
	b.Sweep()
	for i, want := range []bool{true, false, false, false, true} {
		if got := told(func() { b.trial(below[0], 11, 11, "", uint64(i+1), 0) }); got != want {
			t.Errorf("call %d: told %v, want %v", i, got, want)
		}
		b.pass(250 * time.Millisecond)
	}
	b.pass(time.Second)
	if told(func() { b.trial(below[0], 11, 11, "", 5, 0) }) {
		t.Error("nothing is new")
	}
	if !told(func() { b.trial(below[0], 11, 11, "boom", 5, 0) }) {
		t.Error("a failure was not told at once")
	}
}

// firstActive is since when route's version 1 is active in TestTrialsAgainstPlainCount.
const firstActive = script.Revision(10)

// TestTrialsAgainstPlainCount compares the status of a candidate with a plain walk over
// all reports, after each step of a random run.
func TestTrialsAgainstPlainCount(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	type known struct {
		report fleet.Report
		heard  time.Time
	}
	b := newBench(t)
	agents := map[string]known{}
	lives := map[string]int{}                              // how often each agent was started anew
	type life struct{ all, failed uint64 }                 // calls
	counted, taken := map[string]life{}, map[string]life{} // by agent, life and attempt
	release, head, attempt := b.release(route, firstActive), firstActive, uint64(0)
	for step := range 3000 {
		agent := fmt.Sprint("agent-", random.IntN(12))
		switch random.IntN(24) {
		case 0:
			head++
			if release = b.candidate(route, head, uint64(head), 0); random.IntN(4) == 0 {
				release = b.release(route, head)
			}
			if tests := make([]script.Test, random.IntN(2)); release.Candidate != nil {
				release.Candidate.Spec.Tests = tests
			}
			attempt = uint64(head)
			b.apply(release)
		case 1, 2:
			if release.Candidate == nil {
				continue
			}
			head++
			tests := release.Candidate.Spec.Tests
			release = b.candidate(route, head, attempt, random.Uint32())
			release.Candidate.Spec.Tests = tests
			b.apply(release)
		case 3:
			head++
			b.commit(script.Name{Tenant: "acme", Script: "other"}, head)
		case 4:
			r := b.report(agent, head)
			r.Leaving, r.Incarnation = true, fmt.Sprint(lives[agent])
			b.Heard(r)
			delete(agents, agent)
			lives[agent]++
		case 5:
			b.pass(time.Duration(random.IntN(8)) * time.Second)
		case 6:
			b.reset(fleetID, head, release)
		default:
			r := b.report(agent, head-script.Revision(random.IntN(4)))
			if random.IntN(6) == 0 {
				lives[agent]++
			}
			r.Incarnation = fmt.Sprint(lives[agent])
			which := fmt.Sprint(agent, " ", lives[agent], " ", attempt)
			if random.IntN(8) == 0 {
				r.Tenants, _ = script.ParseSelector([]string{"shop"})
			}
			if random.IntN(4) == 0 {
				r.Failures = []fleet.Failure{{Name: route, Revision: release.Revision - script.Revision(random.IntN(2)), Err: whys[random.IntN(len(whys))]}}
			}
			if random.IntN(4) == 0 {
				r.Lags = map[string]script.Revision{route.Tenant: r.Activated - script.Revision(random.IntN(20))}
			}
			for range random.IntN(3) {
				trial := fleet.Trial{Name: route, Version: 2, Attempt: max(attempt, 1) - uint64(random.IntN(6)/5), Tested: random.IntN(3) > 0}
				if trial.Tested && random.IntN(3) == 0 {
					trial.Err = &script.Error{Message: fmt.Sprint(random.IntN(3))}
				}
				trial.Waiting = []string{"", "busy", "slow"}[random.IntN(3)]
				if release.Candidate != nil && release.RunsOn(script.Agent{Name: agent}).Number == 2 && trial.Attempt == attempt {
					n := counted[which]
					more := random.Uint64N(10)
					counted[which] = life{n.all + more, n.failed + random.Uint64N(more+1)}
					trial.Calls, trial.FailedCalls = counted[which].all, counted[which].failed
				}
				r.Trials = []fleet.Trial{trial}
			}
			if len(r.Trials) > 0 && r.Trials[0].Calls > 0 && r.Tenants.Matches(route.Tenant) {
				taken[which] = life{r.Trials[0].Calls, r.Trials[0].FailedCalls}
			}
			if random.IntN(10) == 0 {
				r.Trials = append(r.Trials, fleet.Trial{Name: script.Name{Tenant: "acme", Script: "unknown"}, Attempt: 9})
			}
			b.Heard(r)
			agents[agent] = known{r, b.now}
		}
		b.Sweep()
		want := plain{release: &release, first: "~", holds: map[string]string{}}
		for _, k := range agents {
			if b.now.Sub(k.heard) < 15*time.Second && k.report.Tenants.Matches(route.Tenant) {
				want.count(&k.report)
			}
		}
		for which, n := range taken {
			if release.Candidate != nil && strings.HasSuffix(which, fmt.Sprint(" ", attempt)) {
				want.trials.Calls += n.all
				want.trials.FailedCalls += n.failed
			}
		}
		want.compare(t, step, b)
	}
}

// whys are of failures that last, that may pass, and that last where it is the candidate's.
var whys = []*script.Error{
	{Kind: script.Script}, {Kind: script.Unavailable}, {Kind: script.Internal, Field: "script"}, {Kind: script.Unavailable, Field: "script"},
}

// plain is what reports say of route's release, found out in a plain way.
type plain struct {
	release                            *script.Release
	active, failed, members, activated int
	lagging                            int
	first                              string // of those that give the candidate up
	holds                              map[string]string
	trials                             fleet.Trials
}

// count takes in the report of an agent that is connected and follows route.
func (p *plain) count(r *fleet.Report) {
	c := p.release.Candidate
	could := len(r.Failures) == 0 || r.Failures[0].Revision < p.release.Revision
	member := c != nil && p.release.RunsOn(script.Agent{Name: r.Agent}).Number == 2
	var heard, passed, fails bool
	for i := range r.Trials {
		trial := &r.Trials[i]
		if c == nil || trial.Name != route || trial.Attempt != c.Attempt {
			continue
		}
		heard = true
		p.holds[r.Agent] = trial.Waiting
		switch {
		case trial.Err != nil:
			p.trials.Failed++
			fails = true
		case trial.Tested:
			p.trials.Passed++
			passed = true
		}
	}
	if member {
		p.members++
	}
	has := r.Activated >= p.release.Revision
	above, late := r.Lags[route.Tenant]
	lags := late && above < p.release.Revision
	if has && could && lags {
		p.lagging++
		p.holds[r.Agent] = "the tenant's own process does not have the change yet"
	}
	if has && could && !lags {
		p.activated++
	}
	runs := c != nil && member && heard && has && could && !lags && !fails
	if fails || !could {
		p.failed++
	}
	if runs {
		p.trials.Running++
	}
	since := p.release.Revision
	if c != nil {
		since = firstActive
	}
	if !runs && r.Activated >= since && (!late || above >= since) && (has && could || len(r.Failures) == 0 || r.Failures[0].Revision < since) {
		p.active++
	}
	lasts := !could && (r.Failures[0].Err == whys[0] || r.Failures[0].Err == whys[3] && member)
	switch {
	case fails || lasts:
		p.first = min(p.first, r.Agent)
	case !could || !has || lags || member && !heard || p.release.Candidate != nil && len(p.release.Candidate.Spec.Tests) > 0 && !passed:
		p.trials.WaitingFor = append(p.trials.WaitingFor, r.Agent)
		if !could {
			p.holds[r.Agent] = r.Failures[0].Err.Error()
		}
	}
}

func (p *plain) compare(t *testing.T, step int, b *bench) {
	t.Helper()
	s := b.route()
	if s.Active != p.active || s.Failed != p.failed || s.Lagging != p.lagging || len(s.Failures) != min(p.failed, fleet.MaxFailures) || (s.Trials == nil) != (p.release.Candidate == nil) {
		t.Fatalf("step %d: %+v; want %+v", step, s, p)
	}
	if !slices.IsSortedFunc(s.Failures, func(a, b fleet.AgentFailure) int { return cmp.Compare(a.Agent, b.Agent) }) {
		t.Fatalf("step %d: failures %+v", step, s.Failures)
	}
	list := b.Candidacies()
	if len(list) == 1 != (p.release.Candidate != nil) {
		t.Fatalf("step %d: %d candidacies", step, len(list))
	}
	if s.Trials == nil {
		return
	}
	want := &p.trials
	slices.Sort(want.WaitingFor)
	want.Waiting = len(want.WaitingFor)
	want.WaitingFor = want.WaitingFor[:min(want.Waiting, fleet.MaxWaitingFor)]
	if want.Waiting > 0 {
		want.WaitingWhy = p.holds[want.WaitingFor[0]]
	}
	if fmt.Sprint(*s.Trials) != fmt.Sprint(*want) {
		t.Fatalf("step %d: %+v; want %+v", step, *s.Trials, *want)
	}
	first := "~"
	c := list[0]
	if c.Failure != nil {
		first = c.Failure.Agent
	}
	if first != p.first || c.Running != want.Running || c.Members != p.members || c.Activated != p.activated {
		t.Fatalf("step %d: %+v; want %+v", step, c, p)
	}
}

// TestStarting: agents that have activated nothing are counted apart, while they are connected.
func TestStarting(t *testing.T) {
	b := newBench(t)
	want := func(want int) {
		t.Helper()
		if got := b.route().Starting; got != want {
			t.Errorf("%d are starting, want %d", got, want)
		}
	}
	want(0)
	b.hear("a", 10)
	want(0)
	b.hear("b", 0)
	want(1)
	before := b.route()
	b.hear("b", 3)
	want(0)
	if after := b.route(); before.Same(&after) {
		t.Error("watchers do not learn that it has started")
	}
	b.hear("c", 0)
	b.pass(16 * time.Second)
	b.hear("a", 10)
	b.Sweep()
	want(0)
}

// TestActiveBesideACandidate: what runs the active version does not change with what becomes
// of the candidate. An agent that failed the active version does not run it.
func TestActiveBesideACandidate(t *testing.T) {
	b := newBench(t)
	b.commit(route, 11)
	b.hear("a", 11)
	b.hear("b", 11)
	r := b.report("c", 11)
	r.Failures = []fleet.Failure{{Name: route, Revision: 11, Err: script.Errorf(script.Unavailable, "disk", "it is full")}}
	b.Heard(r)
	b.want("2/1/0 of 3", false, "")
	b.apply(b.candidate(route, 12, 12, 0))
	b.want("2/0/0 of 3", false, "a")
	failed := b.candidate(route, 13, 12, 0)
	failed.Candidate.Failed = "a: boom"
	b.apply(failed)
	b.want("2/0/0 of 3", false, "a")
	b.hear("a", 13)
	b.want("2/0/0 of 3", false, "b")
	b.hear("c", 13)
	b.want("3/0/0 of 3", false, "b")
	first := b.release(route, 14) // of a first version nothing runs until it passes
	first.Latest, first.Candidate = 1, &script.Candidate{Version: first.Active, Attempt: 14}
	b.apply(first)
	b.hear("a", 14)
	b.want("0/0/0 of 3", false, "b")
}
