package fleet_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

const fleetID = "F1"

var route = script.Name{Tenant: "acme", Script: "route"}

// bench is a fleet with a clock that tests turn.
type bench struct {
	*fleet.Fleet
	t         *testing.T
	now       time.Time
	sequence  uint64
	converged []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOf(t, fleet.Config{})
}

func newBenchOf(t *testing.T, cfg fleet.Config) *bench {
	t.Helper()
	b := &bench{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	cfg.Clock, cfg.DropAfter = func() time.Time { return b.now }, time.Hour
	cfg.Converged = func(name script.Name, took time.Duration) {
		b.converged = append(b.converged, fmt.Sprintf("%s %v", name, took))
	}
	b.Fleet = fleet.New(cfg)
	b.reset(fleetID, 10, b.release(route, 10))
	b.RollCalled()
	b.pass(time.Second)
	return b
}

func (b *bench) release(name script.Name, revision script.Revision) script.Release {
	return script.Release{Name: name, Revision: revision, Latest: 1, Active: script.Version{Number: 1}, Enabled: true, ChangedAt: b.now}
}

// commit makes a release known as the watch does.
func (b *bench) commit(name script.Name, revision script.Revision) {
	b.Apply(registry.Transaction{Revision: revision, Releases: []script.Release{b.release(name, revision)}})
}

func (b *bench) reset(id string, head script.Revision, releases ...script.Release) {
	b.Reset(registry.State{Fleet: id, Head: head, Releases: releases})
}

func (b *bench) agents() []fleet.Agent { return b.Agents(fleet.AgentFilter{}).Agents }

func (b *bench) pass(d time.Duration) { b.now = b.now.Add(d) }

// report is a report of an agent that says that all is well.
func (b *bench) report(agent string, activated script.Revision) fleet.Report {
	b.sequence++
	return fleet.Report{Fleet: fleetID, Agent: agent, Incarnation: agent + "-1", Sequence: b.sequence, Activated: activated}
}

func (b *bench) hear(agent string, activated script.Revision) { b.Heard(b.report(agent, activated)) }

func (b *bench) fail(agent string, activated, failed script.Revision) {
	r := b.report(agent, activated)
	r.Failures = []fleet.Failure{{Name: route, Revision: failed, Err: &script.Error{Kind: script.Script, Message: "boom"}}}
	b.Heard(r)
}

func (b *bench) route() fleet.ScriptStatus {
	b.t.Helper()
	s := b.Status(fleet.Filter{Tenant: route.Tenant, Script: route.Script})
	if len(s.Scripts) != 1 {
		b.t.Fatalf("%d scripts, want 1", len(s.Scripts))
	}
	return s.Scripts[0]
}

// took is how long the slowest agent of route's rollout took; -1 if there is none.
func (b *bench) took() time.Duration {
	b.t.Helper()
	if r := b.route().Rollout; r != nil {
		return r.Slowest
	}
	return -1
}

// want checks "active/failed/unknown of desired", convergence and the slowest.
func (b *bench) want(counts string, converged bool, slowest string) {
	b.t.Helper()
	s := b.route()
	got := fmt.Sprintf("%d/%d/%d of %d", s.Active, s.Failed, s.Unknown, s.Desired)
	if got != counts || s.Converged != converged || s.SlowestAgent != slowest {
		b.t.Errorf("%s, converged %v, slowest %q; want %s, %v, %q", got, s.Converged, s.SlowestAgent, counts, converged, slowest)
	}
}

func TestConverges(t *testing.T) {
	b := newBench(t)
	b.want("0/0/0 of 0", false, "") // nobody is nobody
	for _, agent := range []string{"a", "b", "c"} {
		b.hear(agent, 10)
	}
	b.want("3/0/0 of 3", true, "") // from before this process: no time is known
	b.commit(route, 11)
	b.want("0/0/0 of 3", false, "a")
	b.pass(3 * time.Millisecond)
	b.hear("b", 11)
	b.hear("c", 11)
	b.want("2/0/0 of 3", false, "a")
	b.pass(2 * time.Millisecond)
	b.hear("a", 11)
	b.want("3/0/0 of 3", true, "a")
	if took := b.took(); took != 5*time.Millisecond {
		t.Errorf("took %v; want 5ms", took)
	}
	b.pass(5 * time.Second)
	b.hear("a", 11) // a heartbeat is not news
	if took := b.took(); took != 5*time.Millisecond {
		t.Errorf("after a heartbeat: took %v", took)
	}
	b.hear("late", 10)
	b.want("3/0/0 of 4", false, "late")
	b.hear("late", 11)
	b.want("4/0/0 of 4", true, "a")
	if len(b.converged) != 1 {
		t.Errorf("converged: %v; want it said once", b.converged)
	}
}

// TestReportAheadOfTheWatch: agents may know of a release before this replica does.
func TestReportAheadOfTheWatch(t *testing.T) {
	b := newBench(t)
	b.hear("a", 10)
	b.hear("b", 10)
	committed := b.release(route, 11)
	b.pass(2 * time.Millisecond)
	b.hear("a", 11)
	b.pass(2 * time.Millisecond)
	b.hear("b", 11)
	b.want("2/0/0 of 2", true, "") // of revision 10, which is what is known here
	if s := b.route(); s.Release.Revision != 10 {
		t.Errorf("release %d, want 10", s.Release.Revision)
	}
	b.pass(2 * time.Millisecond)
	b.Apply(registry.Transaction{Revision: 11, Releases: []script.Release{committed}})
	b.want("2/0/0 of 2", true, "b")
	if s := b.route(); b.took() != 4*time.Millisecond || s.Release.Revision != 11 {
		t.Errorf("took %v for revision %d; want 4ms, when the last reported, for 11", b.took(), s.Release.Revision)
	}
	// An agent that failed what comes next has not come as far as this.
	b.fail("c", 12, 12)
	b.want("2/0/0 of 2", true, "b") // what c says is taken in once there is such a revision
	b.commit(script.Name{Tenant: "acme", Script: "other"}, 12)
	b.want("2/1/0 of 3", false, "")
}

func TestFailures(t *testing.T) {
	b := newBench(t)
	b.hear("a", 10)
	b.hear("b", 10)
	b.commit(route, 11)
	b.hear("a", 11)
	b.fail("b", 11, 11)
	b.want("1/1/0 of 2", false, "")
	if s := b.route(); len(s.Failures) != 1 || s.Failures[0].Agent != "b" || s.Failures[0].Err.Message != "boom" {
		t.Errorf("failures: %+v", s.Failures)
	}
	b.commit(route, 12)
	b.want("0/0/0 of 2", false, "a") // the failure was of what came before
	b.pass(time.Millisecond)
	b.hear("a", 12)
	b.fail("b", 12, 12)
	b.want("1/1/0 of 2", false, "")
	b.pass(time.Second)
	b.hear("b", 12) // it tried again
	b.want("2/0/0 of 2", true, "b")
	if took := b.took(); took != time.Second+time.Millisecond {
		t.Errorf("took %v, want until the last got over it", took)
	}
	for i := range 9 {
		b.fail(fmt.Sprint("f", i), 12, 12)
	}
	if s := b.route(); s.Failed != 9 || len(s.Failures) != fleet.MaxFailures || s.Failures[0].Agent != "f0" {
		t.Errorf("%d failed, %d named, first %q", s.Failed, len(s.Failures), s.Failures[0].Agent)
	}
}

func TestUnknownAndDropped(t *testing.T) {
	b := newBench(t)
	b.hear("a", 10)
	b.fail("b", 10, 10)
	b.commit(route, 11)
	b.pass(14 * time.Second)
	b.hear("a", 11)
	b.Sweep()
	b.want("1/0/0 of 2", false, "b")
	b.pass(time.Second)
	b.Sweep()
	b.want("1/0/1 of 2", true, "a")
	if agents := b.agents(); !agents[1].Unknown || agents[1].UnheardFor != 15*time.Second || agents[0].Unknown {
		t.Errorf("agents: %+v", agents)
	}
	if c := b.Counts(); c.Connected != 1 || c.Unknown != 1 {
		t.Errorf("counts: %+v", c)
	}
	b.hear("b", 10)
	b.want("1/0/0 of 2", false, "b")
	b.pass(time.Hour + 15*time.Second)
	b.hear("a", 11)
	b.Sweep()
	b.Sweep()
	b.want("1/0/0 of 1", true, "a")
}

func TestLeaving(t *testing.T) {
	b := newBench(t)
	b.hear("a", 10)
	b.hear("b", 10)
	b.commit(route, 11)
	b.hear("a", 11)
	late := b.report("b", 10)
	leave := b.report("b", 10)
	leave.Leaving = true
	b.Heard(leave)
	b.want("1/0/0 of 1", true, "a")
	late.Sequence = leave.Sequence + 1
	b.Heard(late) // still under way when it left
	b.want("1/0/0 of 1", true, "a")
	back := b.report("b", 11)
	back.Incarnation = "b-2"
	b.Heard(back)
	b.want("2/0/0 of 2", true, "a")
}

func TestIgnored(t *testing.T) {
	b := newBench(t)
	b.commit(script.Name{Tenant: "acme", Script: "other"}, 12)
	first := b.report("a", 10)
	b.hear("a", 11)
	b.Heard(first) // overtaken
	again := b.report("a", 11)
	b.Heard(again)
	b.Heard(again) // doubled
	foreign := b.report("z", 11)
	foreign.Fleet = "F2"
	b.Heard(foreign)
	restarted := b.report("a", 12)
	restarted.Incarnation, restarted.Sequence = "a-2", 1
	b.Heard(restarted) // numbers start again with an incarnation
	b.hear("a", 5)     // of the incarnation before
	agents := b.agents()
	if len(agents) != 2 || agents[0].Activated != 12 || agents[0].Fleet != "" {
		t.Errorf("agents: %+v; want a at 12, and z", agents)
	}
	if got := b.Counts().Ignored; got.Foreign != 1 || got.Stale != 3 {
		t.Errorf("ignored: %+v, want 1 foreign and 3 stale", got)
	}
	b.pass(16 * time.Second)
	b.hear("a", 12) // the other of the name is gone
	if agents := b.agents(); agents[0].UnheardFor != 0 {
		t.Errorf("agents: %+v; want a heard", agents)
	}
}

func TestReset(t *testing.T) {
	b := newBench(t)
	b.hear("a", 10)
	b.commit(route, 11)
	b.pass(time.Second)
	other := script.Name{Tenant: "acme", Script: "other"}
	b.reset(fleetID, 12, b.release(other, 12), script.Release{Name: route, Revision: 11, ChangedAt: b.now.Add(-time.Second)})
	b.hear("a", 12)
	b.want("1/0/0 of 1", true, "a")
	if took := b.took(); took != time.Second {
		t.Errorf("took %v; a reset that brings nothing new forgets nothing", took)
	}
	b.reset("F2", 3)
	if s := b.Status(fleet.Filter{}); len(b.agents()) != 0 || len(s.Scripts) != 0 || s.Fleet != "F2" || s.Head != 3 {
		t.Errorf("after another fleet: %+v", s)
	}
}

func TestFilter(t *testing.T) {
	b := newBench(t)
	b.commit(script.Name{Tenant: "shop", Script: "cart"}, 11)
	b.commit(script.Name{Tenant: "acme", Script: "auth"}, 12)
	gone := script.Release{Name: script.Name{Tenant: "acme", Script: "gone"}, Revision: 13, Deleted: true, ChangedAt: b.now}
	b.Apply(registry.Transaction{Revision: 13, Releases: []script.Release{gone}})
	b.hear("a", 13)
	for _, test := range []struct {
		filter fleet.Filter
		want   string
	}{
		{fleet.Filter{}, "[acme/auth acme/route shop/cart]"},
		{fleet.Filter{Tenant: "acme"}, "[acme/auth acme/route]"},
		{fleet.Filter{Tenant: "acme", Script: "auth"}, "[acme/auth]"},
		{fleet.Filter{Tenant: "acme", Script: "gone"}, "[acme/gone]"},
		{fleet.Filter{Tenant: "acme", Script: "never"}, "[]"},
		{fleet.Filter{Tenant: "never"}, "[]"},
	} {
		names := []string{}
		for _, s := range b.Status(test.filter).Scripts {
			names = append(names, s.Release.Name.String())
		}
		if fmt.Sprint(names) != test.want {
			t.Errorf("%+v: %v, want %s", test.filter, names, test.want)
		}
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(fleet.Config{})
		f.Reset(registry.State{Fleet: fleetID, Head: 10})
		ctx, cancel := context.WithCancel(t.Context())
		statuses := make(chan fleet.Status)
		go func() {
			defer close(statuses)
			for s := range f.Watch(ctx, fleet.Filter{}) {
				statuses <- s
			}
		}()
		start := time.Now()
		if s := <-statuses; s.Connected != 0 || time.Since(start) != 0 {
			t.Errorf("the first came after %v: %+v", time.Since(start), s)
		}
		for i := range 1000 {
			f.Heard(fleet.Report{Fleet: fleetID, Agent: fmt.Sprint(i), Incarnation: "1", Sequence: 1, Activated: 10})
		}
		if s := <-statuses; s.Connected != 1000 || time.Since(start) != 20*time.Millisecond {
			t.Errorf("the second came after %v with %d agents; want all in one, 20 ms later", time.Since(start), s.Connected)
		}
		synctest.Wait()
		select {
		case s := <-statuses:
			t.Errorf("nothing changed, and yet: %+v", s)
		case <-time.After(time.Minute):
		}
		f.Sweep()
		if s := <-statuses; s.Unknown != 1000 {
			t.Errorf("after a minute: %+v", s)
		}
		cancel()
		if _, more := <-statuses; more {
			t.Error("the watch went on")
		}
	})
}

func TestReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(fleet.Config{})
		done := make(chan error, 1)
		go func() { done <- f.Reached(t.Context(), 3) }()
		f.Reset(registry.State{Fleet: fleetID, Head: 1})
		f.Apply(registry.Transaction{Revision: 2})
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("reached 3 at 2: %v", err)
		default:
		}
		f.Apply(registry.Transaction{Revision: 3})
		if err := <-done; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.Reached(ctx, 4); script.KindOf(err) != script.Unavailable {
			t.Errorf("got %v, want Unavailable", err)
		}
	})
}

// TestAgainstPlainCount compares the counts with those of a plain walk over all
// reports, after each step of a random run.
func TestAgainstPlainCount(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	type known struct {
		activated script.Revision
		failed    script.Revision // of route
		heard     time.Time
	}
	b := newBench(t)
	agents := map[string]known{}
	release, head := script.Revision(10), script.Revision(10)
	for step := range 3000 {
		agent := fmt.Sprint("agent-", random.IntN(12))
		switch random.IntN(20) {
		case 0:
			head++
			release = head
			b.commit(route, head)
		case 1:
			head++
			b.commit(script.Name{Tenant: "acme", Script: "other"}, head)
		case 2:
			r := b.report(agent, head)
			r.Leaving, r.Incarnation = true, fmt.Sprint(step)
			b.Heard(r)
			delete(agents, agent)
		case 3:
			b.pass(time.Duration(random.IntN(8)) * time.Second)
			b.Sweep()
		default:
			k := known{activated: head - script.Revision(random.IntN(4)), heard: b.now}
			r := b.report(agent, k.activated)
			r.Incarnation = fmt.Sprint(step)
			if random.IntN(3) == 0 {
				k.failed = release - script.Revision(random.IntN(2))
				r.Failures = []fleet.Failure{{Name: route, Revision: k.failed, Err: &script.Error{}}}
			}
			b.Heard(r)
			agents[agent] = k
		}
		b.Sweep()
		var active, failed, unknown int
		for _, k := range agents {
			switch {
			case b.now.Sub(k.heard) >= 15*time.Second:
				unknown++
			case k.failed >= release:
				failed++
			case k.activated >= release:
				active++
			}
		}
		s := b.route()
		connected := len(agents) - unknown
		if s.Active != active || s.Failed != failed || s.Unknown != unknown || s.Desired != len(agents) || s.Converged != (connected > 0 && active == connected) {
			t.Fatalf("step %d: %+v; want active %d, failed %d, unknown %d of %d", step, s, active, failed, unknown, len(agents))
		}
	}
}

// BenchmarkHeard is the cost of a report in a fleet of 10,000 agents and as many
// scripts.
func BenchmarkHeard(b *testing.B) {
	const agents, scripts = 10_000, 10_000
	f := fleet.New(fleet.Config{})
	releases := make([]script.Release, scripts)
	for i := range releases {
		releases[i] = script.Release{Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Revision: script.Revision(i + 1)}
	}
	f.Reset(registry.State{Fleet: fleetID, Head: scripts, Releases: releases})
	names := make([]string, agents)
	for i := range names {
		names[i] = fmt.Sprint("agent-", i)
	}
	sequence, revision := uint64(0), script.Revision(scripts)
	i := 0
	for b.Loop() {
		if i%agents == 0 {
			revision++
			f.Apply(registry.Transaction{Revision: revision, Releases: []script.Release{{Name: releases[i%scripts].Name, Revision: revision}}})
		}
		sequence++
		f.Heard(fleet.Report{Fleet: fleetID, Agent: names[i%agents], Incarnation: "1", Sequence: sequence, Activated: revision})
		i++
	}
}

// TestForeignAgents: an agent of another fleet is listed as such and counts for nothing.
func TestForeignAgents(t *testing.T) {
	b := newBench(t)
	foreign := func(agent string, activated script.Revision) fleet.Report {
		r := b.report(agent, activated)
		r.Fleet = "F2"
		return r
	}
	b.hear("a", 10)
	b.Heard(foreign("z", 500))
	b.want("1/0/0 of 1", true, "")
	if got := b.Counts(); got.Connected != 1 || got.Unknown != 0 || got.Foreign != 1 {
		t.Errorf("counts: %+v", got)
	}
	if got := b.agents(); len(got) != 2 || got[1].Name != "z" || got[1].Fleet != "F2" || got[1].Activated != 500 || got[0].Fleet != "" {
		t.Errorf("agents: %+v", got)
	}
	if got := b.Agents(fleet.AgentFilter{Troubled: true}).Agents; len(got) != 1 || got[0].Name != "z" {
		t.Errorf("in trouble: %+v; want z", got)
	}
	if got := b.Agents(fleet.AgentFilter{Limit: 1}); len(got.Agents) != 1 || !got.More {
		t.Errorf("the first page: %+v", got)
	}
	if got := b.Agents(fleet.AgentFilter{After: "a"}).Agents; len(got) != 1 || got[0].Name != "z" {
		t.Errorf("the second page: %+v", got)
	}

	b.pass(time.Second)
	b.Heard(foreign("a", 500)) // it has changed its fleet
	if got := b.agents(); len(got) != 2 || got[0].Fleet != "F2" {
		t.Errorf("agents: %+v; want a to be foreign", got)
	}
	b.pass(time.Second)
	b.hear("a", 10) // and back
	b.hear("z", 10)
	if got := b.agents(); len(got) != 2 || got[0].Fleet != "" || got[1].Fleet != "" || b.Counts().Foreign != 0 {
		t.Errorf("agents: %+v; want none to be foreign", got)
	}

	b.Heard(foreign("y", 1))
	fresh := b.report("x", 0)
	fresh.Fleet = "" // it has no fleet yet
	b.Heard(fresh)
	if got := b.Counts().Foreign; got != 1 {
		t.Errorf("%d foreign, want y", got)
	}
	b.pass(16 * time.Second)
	b.Sweep()
	if got := b.Counts().Foreign; got != 0 {
		t.Errorf("%d foreign, of which none was heard of lately", got)
	}
	for i := range 2000 {
		b.Heard(foreign(fmt.Sprint("n", i), 1))
	}
	if got := b.Counts().Foreign; got != 1000 {
		t.Errorf("%d are known by name, want 1000", got)
	}
}
