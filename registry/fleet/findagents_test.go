package fleet_test

import (
	"cmp"
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

func (b *bench) findAgents(s fleet.AgentSearch) fleet.FoundAgents {
	b.t.Helper()
	s.Limit = cmp.Or(s.Limit, 1_000_000)
	found, err := b.FindAgents(b.t.Context(), s)
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

func agentNames(agents []fleet.Agent) []string {
	names := make([]string, 0, len(agents))
	for i := range agents {
		names = append(names, agents[i].Name)
	}
	return names
}

// manyAgents is a fleet of so many agents that are in any state.
func manyAgents(t *testing.T, r *rand.Rand, agents int) *bench {
	t.Helper()
	b := newBench(t)
	for i := range 5 {
		b.pass(time.Second)
		b.commit(script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, script.Revision(11+i))
	}
	for _, late := range []bool{true, false} {
		for i := range agents {
			if r.IntN(10) > 0 && late { // others are not heard any more
				continue
			}
			report := b.report(fmt.Sprint("n", i), script.Revision(10+r.IntN(6)))
			report.Software = fmt.Sprint("1.", r.IntN(3))
			report.Labels = map[string]string{"zone": fmt.Sprint("Z", r.IntN(3)), "rack": fmt.Sprint(r.IntN(20))}
			if r.IntN(10) == 0 {
				report.Fleet = "another"
			}
			if r.IntN(10) == 0 {
				report.Held = "too many removals"
			}
			if r.IntN(3) == 0 {
				report.Disk = &fleet.Disk{Free: 1, Size: 2, Fault: []string{"", "full"}[r.IntN(2)]}
			}
			for n := range r.IntN(8) - 4 {
				failure := fleet.Failure{Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", n)}, Revision: 11, Err: script.Errorf(script.Script, "", "boom")}
				if r.IntN(2) == 0 {
					failure.Err = script.Errorf(script.Unavailable, "script", "in quarantine")
				}
				report.Failures = append(report.Failures, failure)
			}
			b.Heard(report)
		}
		b.pass(10 * time.Second)
		b.Sweep()
	}
	return b
}

func agentIn(a *fleet.Agent, state fleet.AgentState) bool {
	full := a.Disk != nil && a.Disk.Fault != ""
	switch state {
	case fleet.TroubledAgent:
		return a.Fleet != "" || a.Held != "" || a.Unknown || a.Behind > 0 || a.Failed > 0 || full
	case fleet.UnknownAgent:
		return a.Unknown
	case fleet.BehindAgent:
		return a.Behind > 0
	case fleet.FailingAgent:
		return a.Failed > 0
	case fleet.HeldAgent:
		return a.Held != ""
	case fleet.ForeignAgent:
		return a.Fleet != ""
	case fleet.FleetAgent:
		return a.Fleet == ""
	case fleet.QuarantinedAgent:
		return a.Quarantined > 0
	case fleet.DiskAgent:
		return full
	}
	return true
}

// TestFindsWhatTheListHas: of random fleets, FindAgents returns what a look at the list of all agents does.
func TestFindsWhatTheListHas(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 10 {
		b := manyAgents(t, r, 600)
		all := b.agents()
		for range 40 {
			s := fleet.AgentSearch{
				Words: [][]string{nil, {"n1"}, {"zone=z1"}, {"1.2", "z"}, {"rack=7", "zone=z0"}, {"nobody"}}[r.IntN(6)],
				State: fleet.AgentState(r.IntN(int(fleet.DiskAgent) + 1)), Order: fleet.AgentOrder(r.IntN(int(fleet.AgentsByFailed) + 1)), Descending: r.IntN(2) == 0,
			}
			want := slices.DeleteFunc(slices.Clone(all), func(a fleet.Agent) bool {
				text := strings.ToLower(fmt.Sprint(a.Name, " ", a.Software, " zone=", a.Labels["zone"], " rack=", a.Labels["rack"]))
				return !agentIn(&a, s.State) || slices.ContainsFunc(s.Words, func(word string) bool { return !strings.Contains(text, word) })
			})
			slices.SortStableFunc(want, func(x, y fleet.Agent) int {
				if s.Descending {
					x, y = y, x
				}
				lag := func(a *fleet.Agent) time.Duration {
					if a.Unknown {
						return a.UnheardFor
					}
					return a.Lag
				}
				switch s.Order {
				case fleet.AgentsByLag:
					return cmp.Compare(lag(&x), lag(&y))
				case fleet.AgentsBySoftware:
					return cmp.Compare(x.Software, y.Software)
				case fleet.AgentsByFailed:
					return cmp.Compare(x.Failed, y.Failed)
				}
				return cmp.Compare(x.Name, y.Name)
			})
			got := b.findAgents(s)
			if !slices.Equal(agentNames(got.Agents), agentNames(want)) || got.Total != len(want) {
				t.Fatalf("%+v: %d of %d: %v\nwant %v", s, len(got.Agents), got.Total, agentNames(got.Agents), agentNames(want))
			}
			s.Offset, s.Limit = r.IntN(700), 1+r.IntN(50)
			page, from := b.findAgents(s), min(s.Offset, len(want))
			if part := want[from:min(from+s.Limit, len(want))]; !slices.Equal(agentNames(page.Agents), agentNames(part)) || page.Total != len(want) {
				t.Fatalf("%+v: %v of %d, want %v of %d", s, agentNames(page.Agents), page.Total, agentNames(part), len(want))
			}
		}
	}
}

// TestOneAgentHasAllFailures: of one agent there are all failures, and how its disk is.
func TestOneAgentHasAllFailures(t *testing.T) {
	b := newBench(t)
	r := b.report("n1", 10)
	r.Disk = &fleet.Disk{Free: 7, Size: 9, Fault: "no space left", Corrupt: 2}
	r.Lags = map[string]script.Revision{"acme": 3}
	for i := range 30 {
		r.Failures = append(r.Failures, fleet.Failure{Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Revision: 10, Err: script.Errorf(script.Unavailable, "script", "in quarantine")})
	}
	b.Heard(r)
	b.hear("n10", 10)
	list := b.findAgents(fleet.AgentSearch{})
	if got := list.Agents[0]; list.Connected != 2 || list.Total != 2 || len(got.Failures) != fleet.MaxAgentFailures || got.Failed != 30 {
		t.Errorf("in the list: %d failures of %d; %+v", len(got.Failures), got.Failed, list)
	}
	one := b.findAgents(fleet.AgentSearch{Name: "n1"})
	if one.Total != 1 || len(one.Agents) != 1 {
		t.Fatalf("%+v", one)
	}
	if got := one.Agents[0]; len(got.Failures) != 30 || got.Quarantined != 30 || got.Lagging != 1 || *got.Disk != *r.Disk {
		t.Errorf("alone: %+v", got)
	}
	if none := b.findAgents(fleet.AgentSearch{Name: "n"}); none.Total != 0 || len(none.Agents) != 0 {
		t.Errorf("an agent that is not there: %+v", none)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.FindAgents(ended, fleet.AgentSearch{}); err == nil {
		t.Error("a search that nobody waits for goes on")
	}
}

// BenchmarkFindAgents is the cost of a window of 100 agents of 10,000, of which each is at one of 100 revisions.
func BenchmarkFindAgents(b *testing.B) {
	f := fleet.New(fleet.Config{Settle: time.Nanosecond})
	state := registry.State{Fleet: fleetID, Head: 100}
	for i := range 100 {
		state.Releases = append(state.Releases, script.Release{Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Revision: script.Revision(i + 1)})
	}
	f.Reset(state)
	for i := range 10_000 {
		f.Heard(fleet.Report{
			Fleet: fleetID, Agent: fmt.Sprint("n", i), Incarnation: "1", Sequence: 1, Activated: state.Head - script.Revision(i%100),
			Labels: map[string]string{"topology.kubernetes.io/zone": fmt.Sprint("eu-", i%3), "rack": fmt.Sprint(i % 100), "kernel": "6.1"},
		})
	}
	for name, s := range map[string]fleet.AgentSearch{
		"names": {}, "search": {Words: []string{"zone=eu-1"}}, "troubled": {State: fleet.TroubledAgent, Order: fleet.AgentsByLag, Descending: true},
	} {
		b.Run(name, func(b *testing.B) {
			s.Limit = 100
			for b.Loop() {
				if _, err := f.FindAgents(b.Context(), s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
