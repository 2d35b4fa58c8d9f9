package fleet_test

import (
	"context"
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

// nodes returns the first that a watch brings.
func (b *bench) nodes(filter fleet.NodesFilter) fleet.Nodes {
	b.t.Helper()
	for n := range b.WatchNodes(b.t.Context(), filter) {
		return n
	}
	b.t.Fatal("a watch brings nothing")
	return fleet.Nodes{}
}

func sum(n *fleet.Nodes) (all [fleet.NodeStates]int) {
	for _, g := range append(slices.Clone(n.Groups), n.Others) {
		for state, count := range g.Count {
			all[state] += count
		}
	}
	return all
}

// TestNodesAreWhatTheStatusCounts: of random fleets, whatever agents said, left out, took back or ended in.
func TestNodesAreWhatTheStatusCounts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 30 {
		b := newBench(t)
		revision, attempt, lives := script.Revision(10), uint64(0), map[string]int{}
		for range 150 {
			switch r.IntN(12) {
			case 0:
				revision++
				attempt = uint64(revision)
				release := b.candidate(route, revision, attempt, []uint32{0, half}[r.IntN(2)])
				release.Candidate.Spec.Tests = make([]script.Test, r.IntN(2))
				b.apply(release)
			case 1:
				revision++
				b.commit([]script.Name{route, {Tenant: "acme", Script: "other"}}[r.IntN(2)], revision)
			case 2:
				b.pass(time.Duration(r.IntN(20)) * time.Second)
				b.Sweep()
			default:
				name := fmt.Sprint("n", r.IntN(70))
				report := b.report(name, script.Revision(10+r.IntN(int(revision)-9)))
				if r.IntN(20) == 0 {
					lives[name]++
				}
				report.Incarnation = fmt.Sprint(name, lives[name])
				report.Labels, report.Selects = map[string]string{"zone": fmt.Sprint("z", len(name)%3)}, true
				if r.IntN(5) == 0 {
					report.Failures = []fleet.Failure{{Name: route, Revision: report.Activated, Err: script.Errorf(script.Script, "", "boom")}}
				}
				if r.IntN(5) == 0 {
					report.Lags = map[string]script.Revision{"acme": report.Activated - 1}
				}
				if attempt > 0 && r.IntN(2) == 0 {
					trial := fleet.Trial{Name: route, Version: 2, Attempt: attempt, Tested: r.IntN(2) == 0}
					if trial.Tested && r.IntN(3) == 0 {
						trial.Err = script.Errorf(script.Script, "", "boom")
					}
					report.Trials = []fleet.Trial{trial}
				}
				b.Heard(report)
			}
		}
		n := b.nodes(fleet.NodesFilter{Script: route, Label: "zone", Agents: 1000})
		s, all := b.route(), sum(&n)
		if all[fleet.AnyNode] != s.Desired || all[fleet.NodeUnknown]+all[fleet.NodeLost] != s.Unknown || all[fleet.NodeFailed] != s.Failed ||
			s.Trials != nil && all[fleet.NodeCandidate] != s.Trials.Running || s.Trials == nil && all[fleet.NodeActive] != s.Active {
			t.Fatalf("%v, want the nodes of %+v, %+v", all, s, s.Trials)
		}
		counted := map[string]*fleet.NodeGroup{}
		for i := range n.Groups {
			counted[n.Groups[i].Value] = &n.Groups[i]
		}
		for i := range n.Agents {
			counted[n.Agents[i].Group].Count[n.Agents[i].State]--
			counted[n.Agents[i].Group].Count[fleet.AnyNode]--
		}
		for _, g := range n.Groups {
			if g.Count != [fleet.NodeStates]int{} {
				t.Fatalf("group %q counts others than there are: %v", g.Value, g.Count)
			}
		}
		if n.Total != len(n.Agents) || !slices.IsSortedFunc(n.Agents, func(x, y fleet.Node) int { return strings.Compare(x.Agent, y.Agent) }) {
			t.Fatalf("%d of %d agents: %+v", len(n.Agents), n.Total, n.Agents)
		}
		for _, state := range []fleet.NodeState{fleet.NodeFailed, fleet.NodeWaiting, fleet.NodeUnknown} {
			group := fmt.Sprint("z", r.IntN(4))
			want := slices.DeleteFunc(slices.Clone(n.Agents), func(a fleet.Node) bool { return a.State != state || a.Group != group })
			some := b.nodes(fleet.NodesFilter{Script: route, Label: "zone", Agents: 2, Offset: 1, Group: &group, State: state})
			if some.Total != len(want) || len(some.Agents) != max(0, min(2, len(want)-1)) || len(some.Agents) > 0 && some.Agents[0].Agent != want[1].Agent {
				t.Fatalf("of %s in state %d: %d of %d: %+v, want of %+v", group, state, len(some.Agents), some.Total, some.Agents, want)
			}
		}
	}
}

// TestNodesSayWhy: an agent that failed, waits, or runs the candidate says so, and who is gone is lost.
func TestNodesSayWhy(t *testing.T) {
	b := newBench(t)
	for _, agent := range []string{"fails", "gone", "held", "old", "runs"} {
		b.hear(agent, 10)
	}
	release := b.candidate(route, 11, 11, 1<<32-1)
	release.Candidate.Spec.Tests = make([]script.Test, 1)
	b.apply(release)
	b.trial("gone", 11, 11, "", 1, 0)
	b.pass(20 * time.Second)
	b.Sweep()
	b.pass(10 * time.Second)
	b.trial("fails", 11, 11, "expected 1")
	b.trial("runs", 11, 11, "", 5, 2)
	b.hear("old", 10)
	r := b.report("held", 11)
	r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 11, Waiting: "busy"}}
	b.Heard(r)
	n := b.nodes(fleet.NodesFilter{Script: route, Agents: 10})
	var got []string
	for _, a := range n.Agents {
		got = append(got, fmt.Sprint(a.Agent, " ", a.State, " ", a.Err, " ", a.Why, " ", a.Activated, " ", a.Calls, "/", a.FailedCalls))
	}
	want := []string{
		fmt.Sprint("fails ", fleet.NodeFailed, " tests[it works]: expected 1  11 0/0"),
		fmt.Sprint("gone ", fleet.NodeLost, " <nil>  11 1/0"),
		fmt.Sprint("held ", fleet.NodeCandidate, " <nil>  11 0/0"),
		fmt.Sprint("old ", fleet.NodeWaiting, " <nil>  10 0/0"),
		fmt.Sprint("runs ", fleet.NodeCandidate, " <nil>  11 5/2"),
	}
	if !slices.Equal(got, want) || !slices.Equal(n.Lost, []string{"gone"}) {
		t.Errorf("%s\nlost: %v\nwant %s", strings.Join(got, "\n"), n.Lost, strings.Join(want, "\n"))
	}
	release = b.candidate(route, 12, 12, 0)
	release.Candidate.Spec.Tests = make([]script.Test, 1)
	b.apply(release)
	r = b.report("held", 12)
	r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 12, Waiting: "busy"}}
	b.Heard(r)
	b.trial("runs", 12, 12, "")
	n = b.nodes(fleet.NodesFilter{Script: route, Agents: 10})
	if held, runs := n.Agents[2], n.Agents[4]; held.State != fleet.NodeWaiting || held.Why != "busy" || runs.State != fleet.NodePassed {
		t.Errorf("in tests: %+v, %+v", held, runs)
	}
}

// TestManyGroups checks that the smallest groups are added up.
func TestManyGroups(t *testing.T) {
	b := newBench(t)
	for i := range 1000 {
		r := b.report(fmt.Sprint("n", i), 10)
		if i%2 == 0 {
			r.Labels = map[string]string{"host": fmt.Sprint("h", i), "rack": fmt.Sprint(i % 7)}
		}
		b.Heard(r)
	}
	n := b.nodes(fleet.NodesFilter{Script: route, Label: "host"})
	if len(n.Groups) != fleet.MaxNodeGroups || n.OtherNo != 301 || n.Others.Count[fleet.NodeActive] != 301 || n.Groups[0].Value != "" || n.Groups[0].Count[fleet.AnyNode] != 500 || len(n.Agents) != 0 {
		t.Errorf("%d groups, %d others: %v; first %+v", len(n.Groups), n.OtherNo, n.Others.Count, n.Groups[0])
	}
	if n := b.nodes(fleet.NodesFilter{Script: route, Label: "rack"}); len(n.Groups) != 8 || n.OtherNo != 0 {
		t.Errorf("by rack: %+v", n.Groups)
	}
	if n := b.nodes(fleet.NodesFilter{Script: route}); len(n.Groups) != 1 || n.Groups[0].Count[fleet.NodeActive] != 1000 {
		t.Errorf("together: %+v", n.Groups)
	}
	if n := b.nodes(fleet.NodesFilter{Script: script.Name{Tenant: "acme", Script: "none"}}); len(n.Scripts) != 0 || len(n.Groups) != 0 {
		t.Errorf("no script: %+v", n)
	}
}

// TestNodesGoOn: a watch brings what comes, also agents with labels that it did not know, and ends.
func TestNodesGoOn(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks := 0
	for n := range b.WatchNodes(ctx, fleet.NodesFilter{Script: route, Label: "zone"}) {
		if len(n.Groups) != looks || looks > 0 && n.Groups[looks-1].Value != fmt.Sprint("z", looks-1) {
			t.Fatalf("look %d: %+v", looks, n.Groups)
		}
		if looks == 4 {
			cancel()
		}
		r := b.report(fmt.Sprint("n", looks), 10)
		r.Labels = map[string]string{"zone": fmt.Sprint("z", looks)}
		b.Heard(r)
		looks++
	}
	if looks != 5 {
		t.Errorf("%d looks", looks)
	}
}

// BenchmarkNodes is the cost of a look at a rollout on 10,000 agents, of which one has changed.
func BenchmarkNodes(b *testing.B) {
	f := fleet.New(fleet.Config{Settle: time.Nanosecond})
	r := script.Release{Name: route, Revision: 1, Active: script.Version{Number: 1}, Latest: 2, Candidate: &script.Candidate{Version: script.Version{Number: 2}, Attempt: 1, Threshold: half, Step: 1}}
	r.Settings.Rollout.Steps = []script.Step{{Percent: 50}}
	f.Reset(registry.State{Fleet: fleetID, Head: 1, Releases: []script.Release{r}})
	hear := func(agent int, sequence uint64) {
		f.Heard(fleet.Report{
			Fleet: fleetID, Agent: fmt.Sprint("n", agent), Incarnation: "1", Sequence: sequence, Activated: 1, Labels: map[string]string{"zone": fmt.Sprint(agent % 40)},
			Trials: []fleet.Trial{{Name: route, Version: 2, Attempt: 1, Tested: sequence%2 == 0}},
		})
	}
	for i := range 10_000 {
		hear(i, 1)
	}
	for _, agents := range []int{0, 1000} {
		b.Run(fmt.Sprint(agents), func(b *testing.B) {
			look := f.Look(fleet.NodesFilter{Script: route, Label: "zone", Agents: agents})
			for n := uint64(2); b.Loop(); n++ {
				hear(7, n)
				look()
			}
		})
	}
}
