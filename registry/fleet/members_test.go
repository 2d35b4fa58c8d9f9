package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// zoned is a report of an agent in the zone, which knows selectors unless it is old.
func (b *bench) zoned(agent, zone string, old bool) fleet.Report {
	r := b.report(agent, 11)
	r.Labels, r.Selects = map[string]string{"zone": zone}, !old
	r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 11, Tested: true}}
	return r
}

// inZone is a release whose candidate is in the first of two steps: on zone a, and then on half of
// zone b.
func (b *bench) inZone() script.Release {
	r := b.candidate(route, 11, 11, 0)
	r.Settings.Rollout.Steps = []script.Step{{Selector: "zone=a"}, {Selector: "zone=b", Percent: 50}}
	r.Candidate.Step = 1
	r.Candidate.Select(r.Settings.Rollout.Steps[0], script.AllSelected)
	return r
}

func (b *bench) wantMembers(want string) {
	b.t.Helper()
	c := b.candidacy()
	if got := fmt.Sprintf("%d/%d own %d/%d eligible %d, too old %d", c.Running, c.Members, c.Own.Running, c.Own.Members, c.Eligible, c.Outdated); got != want {
		b.t.Errorf("members: %s, want %s", got, want)
	}
}

// TestMembersByLabels: who is a member goes by what the agent says last of its labels, and none is
// that does not know selectors.
func TestMembersByLabels(t *testing.T) {
	b := newBench(t)
	b.apply(b.inZone())
	b.Heard(b.zoned("a1", "a", false))
	b.Heard(b.zoned("a2", "a", false))
	b.Heard(b.zoned("a3", "a", true))
	b.Heard(b.zoned("b1", "b", false))
	b.Heard(b.zoned("b2", "b", true))
	b.Heard(b.zoned("c1", "c", false))
	b.wantMembers("2/2 own 2/2 eligible 1, too old 1")
	if c, buckets, ok := b.Buckets(route); !ok || !slices.Equal(buckets, []uint32{script.Bucket("b1", route)}) || c.Followers != 6 {
		t.Errorf("the next step selects from %v of %d", buckets, c.Followers)
	}

	// As liars do: the labels of a process do not change.
	b.Heard(b.zoned("a1", "b", false))
	b.Heard(b.zoned("a2", "a", true))
	b.Heard(b.zoned("b1", "a", false))
	b.wantMembers("2/2 own 2/2 eligible 1, too old 1")
	if got := b.Counts().Ignored.Impossible; got != 3 {
		t.Errorf("%d reports of other labels are counted, want 3", got)
	}

	next := b.inZone()
	next.Revision, next.Candidate.Step = 12, 2
	next.Candidate.Select(next.Settings.Rollout.Steps[1], script.Bucket("b1", route)+1)
	b.apply(next)
	b.wantMembers("0/3 own 0/1 eligible 0, too old 0") // they have yet to activate it
	for _, agent := range []string{"a1", "a2", "b1"} {
		r := b.zoned(agent, agent[:1], false)
		r.Activated = 12
		b.Heard(r)
	}
	b.wantMembers("3/3 own 1/1 eligible 0, too old 0")
	r := b.zoned("b1", "b", false)
	r.Leaving = true
	b.Heard(r)
	b.wantMembers("2/2 own 0/0 eligible 0, too old 0")
}

// TestAnAgentMovesToAnotherZone: its next process has other labels, though the agent was heard all
// the time. It is lost as a member, and is none any more.
func TestAnAgentMovesToAnotherZone(t *testing.T) {
	b := newBench(t)
	b.apply(b.inZone())
	b.Heard(b.zoned("n1", "a", false))
	b.Heard(b.zoned("n2", "b", false))
	b.wantMembers("1/1 own 1/1 eligible 1, too old 0")
	for agent, zone := range map[string]string{"n1": "b", "n2": "a"} {
		r := b.zoned(agent, zone, false)
		r.Incarnation = "2"
		b.Heard(r)
	}
	b.wantMembers("1/1 own 1/1 eligible 1, too old 0")
	b.wantLost(false, "n1")
}

// TestUnmet: publish says which selectors select nobody, once the agents had the time to report.
func TestUnmet(t *testing.T) {
	b := newBench(t)
	plan := script.Plan{Steps: []script.Step{{Percent: 1}, {Selector: "zone=a"}, {Selector: "zone=b"}, {Selector: "zone=c"}}}
	unmet := func(tenant string) []string {
		t.Helper()
		list, err := b.Unmet(t.Context(), "ann", script.Name{Tenant: tenant, Script: "route"}, plan)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if got := unmet("acme"); len(got) != 3 {
		t.Errorf("without agents: %q", got)
	}
	b.apply(b.inZone())
	b.Heard(b.zoned("a1", "a", true))
	b.Heard(b.zoned("a2", "a", false))
	b.Heard(b.zoned("b1", "b", true))
	r := b.zoned("c1", "c", false)
	r.Tenants, _ = script.ParseSelector([]string{"other"})
	b.Heard(r)
	want := []string{"step 3: 1 of the connected agents have the labels zone=b, and none of these is new enough for the step: upgrade agentd there", "step 4: no connected agent has the labels zone=c"}
	if got := unmet("acme"); !slices.Equal(got, want) {
		t.Errorf("publish warns %q, want %q", got, want)
	}
	b.RollCalled()
	if got := unmet("acme"); got != nil {
		t.Errorf("while agents report: %q", got)
	}
	b.pass(10 * time.Second)
	if got := unmet("acme"); !slices.Equal(got, want) {
		t.Errorf("later: %q", got)
	}
}

// TestAnAgentMovesWhileNoRegistryRuns: whether its process before ran the candidate goes by the
// labels and the tenants that this one had, also if a new registry hears of the next one first.
func TestAnAgentMovesWhileNoRegistryRuns(t *testing.T) {
	for _, first := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b, m := &bench{Fleet: fleet.New(fleet.Config{}), t: t, now: time.Now()}, newSharedMemory()
			shop, err := script.ParseSelector([]string{"shop"})
			if err != nil {
				t.Fatal(err)
			}
			was := map[string]string{"leaves": "a", "comes": "b", "stays": "a", "gone": "a"}
			is := map[string]string{"leaves": "b", "comes": "a", "stays": "a", "gone": "a"}
			for agent, zone := range was {
				r := b.zoned(agent, zone, false)
				r.Trials = nil
				m.agents[agent] = fleet.Memo{Agent: agent, Report: r}
			}
			next := func(calls uint64) {
				for agent, zone := range is {
					r := b.zoned(agent, zone, false)
					if r.Incarnation = "2"; agent == "gone" {
						r.Tenants, r.Trials = shop, nil
					}
					if zone == "a" && r.Trials != nil {
						r.Trials[0].Calls, r.Trials[0].FailedCalls = calls, calls/10
						r.Trials[0].StepCalls = &script.StepCalls{Step: 1, First: script.LatencyBucket(time.Millisecond), Buckets: []uint64{calls}}
					}
					b.Heard(r)
				}
			}
			release := b.inZone()
			release.Settings.Rollout.MaxErrorIncrease = new(1.0)
			b.reset(fleetID, 11, release)
			if first {
				next(10)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go b.Keep(ctx, m, func() bool { return true }, slog.New(slog.DiscardHandler))
			<-b.Recalled()
			synctest.Wait()
			next(10)
			next(20)
			c := b.candidacy()
			slices.Sort(c.Lost)
			if want := []string{"gone", "leaves", "stays"}; !slices.Equal(c.Lost, want) {
				t.Errorf("heard before the memory is known: %t: lost %v, want %v", first, c.Lost, want)
			}
			if got := fmt.Sprint(c.Calls, c.FailedCalls, c.EndedCalls); got != "40 4 0" {
				t.Errorf("heard before the memory is known: %t: calls %s, want those of two agents, each once", first, got)
			}
			if got := c.Compared.Candidate.Calls; got != 40 {
				t.Errorf("heard before the memory is known: %t: %d calls are compared, want 40", first, got)
			}
			cancel()
			synctest.Wait()
		})
	}
}
