package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestRolloutTimes: the times of a rollout are those of its agents: the slowest
// exactly, the median and the 99th percentile to 1.6 %.
func TestRolloutTimes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, agents := range []int{1, 2, 3, 100, 5000} {
		b := newBench(t)
		for i := range agents {
			b.hear(fmt.Sprint("n", i), 10)
		}
		b.commit(route, 11)
		committed := b.now
		took := make([]time.Duration, agents)
		slowest := 0
		for i := range took {
			// From microseconds to minutes, and heard late: the agent says since when.
			took[i] = time.Duration(random.ExpFloat64() * float64(time.Millisecond) * float64(int64(1)<<random.IntN(12)))
			if took[i] > took[slowest] {
				slowest = i
			}
			late := min(took[i]/3, time.Second)
			b.now = committed.Add(took[i] + late)
			r := b.report(fmt.Sprint("n", i), 11)
			r.Activations = []fleet.Activation{{Revision: 9, Ago: time.Hour}, {Revision: 11, Ago: late}}
			b.Heard(r)
			b.Heard(b.report(fmt.Sprint("n", i), 11)) // again counts once
		}
		r := b.route().Rollout
		slices.Sort(took)
		if r == nil || r.Agents != agents || r.Revision != 11 || r.Slowest != took[agents-1] || r.SlowestAgent != fmt.Sprint("n", slowest) {
			t.Fatalf("%d agents: %+v; want the slowest to be n%d at %v", agents, r, slowest, took[agents-1])
		}
		near := func(what string, got, want time.Duration) {
			t.Helper()
			if off := (got - want).Abs(); off > want*16/1000+time.Microsecond {
				t.Errorf("%d agents: %s is %v, want %v", agents, what, got, want)
			}
		}
		near("the median", r.Median, took[(agents*50+99)/100-1])
		near("the 99th percentile", r.P99, took[(agents*99+99)/100-1])
	}
}

// TestRolloutsOfOneTransaction: scripts of one transaction have one revision. When one that no
// agent has activated yet is replaced, the others go on, and it is measured no more.
func TestRolloutsOfOneTransaction(t *testing.T) {
	names := []script.Name{route, {Tenant: "acme", Script: "cart"}, {Tenant: "acme", Script: "price"}}
	for _, replaced := range names {
		b := newBench(t)
		b.hear("a", 10)
		var all []script.Release
		for _, name := range names {
			all = append(all, b.release(name, 11))
		}
		b.Apply(registry.Transaction{Revision: 11, Releases: all})
		b.commit(replaced, 12)
		b.pass(time.Second)
		b.hear("a", 12)
		for _, s := range b.Status(fleet.Filter{Tenant: "acme"}).Scripts {
			if r := s.Rollout; r == nil || r.Revision != s.Release.Revision || r.Slowest != time.Second || !s.Converged {
				t.Errorf("%s is replaced: %s converged: %t, %+v", replaced, s.Release.Name, s.Converged, r)
			}
		}
	}
}

// TestRolloutOfSeveral: a report that brings several releases says when each of them
// went live.
func TestRolloutOfSeveral(t *testing.T) {
	b := newBench(t)
	b.hear("a", 10)
	other := script.Name{Tenant: "acme", Script: "other"}
	b.commit(route, 11)
	b.pass(time.Second)
	b.commit(other, 12)
	b.pass(time.Second)
	r := b.report("a", 12)
	r.Activations = []fleet.Activation{{Revision: 11, Ago: 1998 * time.Millisecond}, {Revision: 12, Ago: 997 * time.Millisecond}}
	b.Heard(r)
	if took := b.took(); took != 2*time.Millisecond {
		t.Errorf("the first took %v, want 2ms", took)
	}
	if s := b.Status(fleet.Filter{Tenant: "acme", Script: "other"}).Scripts[0]; s.Rollout.Slowest != 3*time.Millisecond {
		t.Errorf("the second took %v, want 3ms", s.Rollout.Slowest)
	}
	// What makes no sense is not believed: at most ten seconds are.
	b.commit(route, 13)
	b.pass(time.Minute)
	r = b.report("a", 13)
	r.Activations = []fleet.Activation{{Revision: 13, Ago: 1 << 62}}
	b.Heard(r)
	if took := b.took(); took != 50*time.Second {
		t.Errorf("took %v, want 50s", took)
	}
}

// TestMeasuresEachAgent: the fleet reports each agent's time when it learns it, for agents
// that follow the script only.
func TestMeasuresEachAgent(t *testing.T) {
	var took []time.Duration
	b := &bench{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.Fleet = fleet.New(fleet.Config{Clock: func() time.Time { return b.now }, Activated: func(d time.Duration) { took = append(took, d) }})
	b.reset(fleetID, 10, b.release(route, 10))
	b.RollCalled()
	b.hear("a", 10)
	b.hear("b", 10)
	b.follow("shop", 10, "shop")
	b.commit(route, 11)
	b.pass(time.Millisecond)
	b.follow("shop", 11, "shop")
	b.hear("a", 11)
	b.pass(time.Second)
	b.hear("b", 11)
	b.hear("c", 11) // it is late: that is no part of the rollout
	if fmt.Sprint(took) != "[1ms 1.001s]" {
		t.Errorf("took %v, want those of a and b", took)
	}
}

// follow is a report of an agent that follows some tenants.
func (b *bench) follow(agent string, activated script.Revision, globs ...string) {
	b.t.Helper()
	r := b.report(agent, activated)
	var err error
	if r.Tenants, err = script.ParseSelector(globs); err != nil {
		b.t.Fatal(err)
	}
	b.Heard(r)
}

// TestRolloutsAreBounded: rollouts under way on 10,000 agents take 4.8 KiB each.
func TestRolloutsAreBounded(t *testing.T) {
	const agents, scripts, most = 10_000, 100, 5 << 10
	b := newBench(t)
	for i := range agents {
		b.hear(fmt.Sprint("n", i), 10)
	}
	b.hear("stuck", 10)
	for i := range scripts {
		b.commit(script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, script.Revision(i+11))
	}
	before := memtest.Heap()
	for i := range agents {
		b.pass(time.Microsecond)
		b.hear(fmt.Sprint("n", i), scripts+10)
	}
	grown := (memtest.Heap() - before) / scripts
	if s := b.Status(fleet.Filter{}).Scripts; s[0].Active != agents && s[1].Active != agents {
		t.Fatalf("%+v", s[0])
	}
	if grown > most {
		t.Errorf("a rollout takes %d bytes more once it is reported, want at most %d", grown, most)
	}
	runtime.KeepAlive(b)
}

// TestGroups: an agent counts for the scripts of the tenants that it follows, and for
// no others.
func TestGroups(t *testing.T) {
	b := newBench(t)
	cart := script.Name{Tenant: "shop", Script: "cart"}
	counts := func(name script.Name) string {
		s := b.Status(fleet.Filter{Tenant: name.Tenant, Script: name.Script}).Scripts[0]
		return fmt.Sprintf("%d/%d/%d of %d %v", s.Active, s.Failed, s.Unknown, s.Desired, s.Converged)
	}
	want := func(acme, shop string) {
		t.Helper()
		if got := counts(route) + ", " + counts(cart); got != acme+", "+shop {
			t.Errorf("%s; want %s, %s", got, acme, shop)
		}
	}
	b.commit(cart, 11)
	b.hear("all", 10)
	b.follow("acme", 10, "acme")
	b.follow("a-to-z", 10, "a*", "z*")
	want("3/0/0 of 3 true", "0/0/0 of 1 false")
	b.hear("all", 11)
	want("3/0/0 of 3 true", "1/0/0 of 1 true") // whatever those say that do not follow it
	b.commit(route, 12)
	b.follow("acme", 12, "acme")
	b.hear("all", 12)
	want("2/0/0 of 3 false", "1/0/0 of 1 true")
	b.follow("a-to-z", 12, "shop") // its tenants were changed
	want("2/0/0 of 2 true", "2/0/0 of 2 true")
	if acme, other := b.Connected("acme"), b.Connected("other"); len(acme) != 2 || !slices.Equal(other, []string{"all"}) {
		t.Errorf("%v follow acme, and %v follow another tenant", acme, other)
	}
	if acme, all := b.Answerers("acme"), b.Answerers(""); len(acme) != 2 || len(all) != 3 {
		t.Errorf("queries ask %v of those that follow acme, and %v of all", acme, all)
	}
	b.commit(cart, 13)
	b.pass(16 * time.Second)
	b.hear("all", 13)
	b.Sweep()
	want("1/0/1 of 2 true", "1/0/1 of 2 true")
	if acme := b.Connected("acme"); !slices.Equal(acme, []string{"all"}) {
		t.Errorf("of those that follow acme, %v are heard", acme)
	}
	if groups := b.Groups(); len(groups) != 3 {
		t.Errorf("groups: %v", groups)
	}
	b.pass(2 * time.Hour)
	b.Sweep()
	b.hear("all", 13)
	if groups := b.Groups(); len(groups) != 1 || !groups[0].All() {
		t.Errorf("groups: %v", groups)
	}
	want("1/0/0 of 1 true", "1/0/0 of 1 true")
}

// TestAgents: an agent is behind by the releases that it follows.
func TestAgents(t *testing.T) {
	b := newBench(t)
	b.hear("current", 12)
	b.hear("behind", 10)
	b.follow("elsewhere", 10, "shop")
	b.fail("failed", 12, 9)
	b.hear("lost", 12)
	b.commit(route, 11)
	b.pass(14 * time.Second)
	b.commit(script.Name{Tenant: "acme", Script: "auth"}, 12)
	for range 200 { // replaced releases do not count
		b.commit(script.Name{Tenant: "acme", Script: "auth"}, 12)
	}
	b.hear("current", 12)
	b.hear("behind", 10)
	b.follow("elsewhere", 10, "shop")
	b.fail("failed", 12, 9)
	b.pass(time.Second)
	b.Sweep()
	got := map[string]string{}
	for _, a := range b.agents() {
		got[a.Name] = fmt.Sprint(a.Behind, " ", a.Lag, " ", a.Failed, len(a.Failures), " ", a.Unknown)
	}
	for name, want := range map[string]string{
		"current": "0 0s 0 0 false", "behind": "2 15s 0 0 false", "elsewhere": "0 0s 0 0 false", "failed": "0 0s 1 1 false", "lost": "0 0s 0 0 true",
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	var names []string
	filter := fleet.AgentFilter{Troubled: true, Limit: 2}
	for {
		page := b.Agents(filter)
		for _, a := range page.Agents {
			names = append(names, a.Name)
		}
		if !page.More {
			break
		}
		filter.After = names[len(names)-1]
	}
	if fmt.Sprint(names) != "[behind failed lost]" {
		t.Errorf("troubled: %v", names)
	}
}

// TestTombstones: a deleted script has a status for a day.
func TestTombstones(t *testing.T) {
	b := newBench(t)
	gone := b.release(route, 11)
	gone.Deleted = true
	b.Apply(registry.Transaction{Revision: 11, Releases: []script.Release{gone}})
	b.hear("a", 11)
	if !b.route().Release.Deleted || !b.route().Converged {
		t.Errorf("%+v", b.route())
	}
	b.pass(23 * time.Hour)
	b.Sweep()
	b.route()
	b.pass(time.Hour)
	b.Sweep()
	if s := b.Status(fleet.Filter{Tenant: route.Tenant, Script: route.Script}).Scripts; len(s) != 0 {
		t.Errorf("after a day: %+v", s)
	}
}

// TestReportInterval: a fleet is asked for no more reports than a registry can bear.
func TestReportInterval(t *testing.T) {
	b := newBench(t)
	if got := b.ReportInterval(); got != 100*time.Millisecond {
		t.Errorf("of nobody: %v", got)
	}
	for i := range 10_000 {
		b.hear(fmt.Sprint(i), 10)
	}
	if got := b.ReportInterval(); got != 2*time.Second {
		t.Errorf("of 10,000 agents: %v", got)
	}
}

// BenchmarkStatus is the cost of a status of 1,000 scripts on 10,000 agents.
func BenchmarkStatus(b *testing.B) {
	f := fleet.New(fleet.Config{})
	state := registry.State{Fleet: fleetID, Head: 1000}
	for i := range 1000 {
		state.Releases = append(state.Releases, script.Release{Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Revision: script.Revision(i + 1)})
	}
	f.Reset(state)
	for i := range 10_000 {
		f.Heard(fleet.Report{Fleet: fleetID, Agent: fmt.Sprint(i), Incarnation: "1", Sequence: 1, Activated: script.Revision(990 + i%11)})
	}
	for b.Loop() {
		f.Status(fleet.Filter{})
	}
}
