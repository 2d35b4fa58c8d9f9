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

// candidacy returns the one of route's candidate.
func (b *bench) candidacy() fleet.Candidacy {
	b.t.Helper()
	for _, c := range b.Candidacies() {
		if c.Release.Name == route {
			return c
		}
	}
	b.t.Fatal("there is no candidate")
	return fleet.Candidacy{}
}

// wantLost compares which agents are lost, and whether others may be.
func (b *bench) wantLost(missing bool, lost ...string) {
	b.t.Helper()
	if c := b.candidacy(); !slices.Equal(c.Lost, lost) || c.Missing.IsZero() == missing {
		b.t.Errorf("lost: %v, missing until %v; want %v, %t", c.Lost, c.Missing, lost, missing)
	}
}

// another is the report of the agent's next process.
func (b *bench) another(agent string, activated script.Revision, life string) {
	r := b.report(agent, activated)
	r.Incarnation = life
	b.Heard(r)
}

// TestWhatWasDownBefore a candidate began is not the candidate's doing: neither by starting
// again, nor by coming back.
func TestWhatWasDownBefore(t *testing.T) {
	b := newBench(t)
	_, below := aboveAndBelow(3)
	for _, agent := range below {
		b.hear(agent, 10)
	}
	b.pass(time.Minute)
	b.hear(below[0], 10)
	b.Sweep()
	b.apply(b.candidate(route, 11, 11, half))
	b.trial(below[0], 11, 11, "")
	b.another(below[1], 11, "2")
	b.trial(below[2], 11, 11, "")
	b.wantLost(false)
	b.another(below[1], 11, "3") // now it ran it
	b.wantLost(false, below[1])
}

// TestAgentsComeBackOneAfterTheOther: when NATS was away from most agents, the last that
// comes back is not lost because it is the last.
func TestAgentsComeBackOneAfterTheOther(t *testing.T) {
	b := newBench(t)
	above, below := aboveAndBelow(5)
	all := slices.Concat(above, below)
	b.apply(b.candidate(route, 11, 11, half))
	for _, agent := range all {
		b.trial(agent, 11, 11, "")
	}
	for range 60 { // a minute
		b.pass(time.Second)
		b.Sweep()
	}
	for _, agent := range all[:len(all)-1] {
		b.trial(agent, 11, 11, "")
		b.pass(500 * time.Millisecond)
		b.Sweep()
	}
	last := all[len(all)-1]
	b.wantLost(true)
	b.pass(5 * time.Second)
	b.Sweep()
	b.trial(last, 11, 11, "")
	b.wantLost(false)
}

// TestAnotherIdentityOfOneProcess: an access policy that names it otherwise ends no agent.
func TestAnotherIdentityOfOneProcess(t *testing.T) {
	b := newBench(t)
	_, below := aboveAndBelow(1)
	b.apply(b.candidate(route, 11, 11, half))
	b.trial(below[0], 11, 11, "", 7, 2)
	r := by(b.report(below[0], 11), "node")
	r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 11, Tested: true, Calls: 9, FailedCalls: 2}}
	b.Heard(r)
	b.wantLost(false)
	b.tried("1/0/1 9/2")
}

// TestWhoLeavesIsNotLost, also if it was away before; but a process that left does not speak for
// the one before.
func TestWhoLeavesIsNotLost(t *testing.T) {
	b := newBench(t)
	above, below := aboveAndBelow(3)
	b.apply(b.candidate(route, 11, 11, half))
	for _, agent := range slices.Concat(above, below) {
		b.trial(agent, 11, 11, "")
	}
	b.pass(16 * time.Second)
	for _, agent := range slices.Concat(above, below[1:]) {
		b.trial(agent, 11, 11, "")
	}
	b.Sweep()
	b.wantLost(true)
	leave := func(agent, life string) {
		r := b.report(agent, 11)
		r.Leaving, r.Incarnation = true, life
		b.Heard(r)
	}
	leave(below[0], below[0]+"-1")
	b.wantLost(false)
	b.pass(12 * time.Second)
	b.wantLost(false)
	leave(below[1], "2")
	b.wantLost(false, below[1])
}

// TestARestartedRegistryWaits for agents that others heard: what has become of them meanwhile may
// be the candidate's doing. That somebody has ended a pause since changes nothing.
func TestARestartedRegistryWaits(t *testing.T) {
	t.Run("in a step", func(t *testing.T) { testRestartedRegistry(t, false) })
	t.Run("after a pause has ended", func(t *testing.T) { testRestartedRegistry(t, true) })
}

func testRestartedRegistry(t *testing.T, resumed bool) {
	t.Helper()
	_, below := aboveAndBelow(6)
	dead, died, restarted, early, left, fine := below[0], below[1], below[2], below[3], below[4], below[5]
	synctest.Test(t, func(t *testing.T) {
		b, m := &bench{Fleet: fleet.New(fleet.Config{}), t: t, now: time.Now()}, newSharedMemory()
		for _, agent := range below {
			memo := fleet.Memo{Agent: agent, Report: fleet.Report{Fleet: fleetID, Agent: agent, Incarnation: "1", Activated: 11}}
			if agent == died {
				memo.Heard = b.now.Add(-time.Second)
			}
			if agent == died && resumed {
				memo.Heard = b.now.Add(-20 * time.Second)
			}
			m.agents[agent] = memo
		}
		r := b.candidate(route, 11, 11, half)
		if resumed {
			r.Candidate.Running = b.now.Add(-5 * time.Minute)
		}
		b.reset(fleetID, 11, r)
		b.another(early, 11, "2") // before the memory is known
		ctx, cancel := context.WithCancel(t.Context())
		go b.Keep(ctx, m, func() bool { return true }, slog.New(slog.DiscardHandler))
		<-b.Recalled()
		synctest.Wait()
		b.RollCalled()
		sweep := func(d time.Duration) {
			for ; d > 0; d -= time.Second {
				b.another(early, 11, "2")
				b.another(restarted, 11, "2")
				b.another(fine, 11, "1")
				<-time.After(time.Second)
				b.Sweep()
			}
		}
		check := func(missing bool, lost ...string) {
			t.Helper()
			c := b.candidacy()
			slices.Sort(c.Lost)
			slices.Sort(lost)
			if !slices.Equal(c.Lost, lost) || c.Missing.IsZero() == missing {
				t.Errorf("lost: %v, missing until %v; want %v, %t", c.Lost, c.Missing, lost, missing)
			}
		}
		sweep(3 * time.Second)
		check(true, early, restarted)
		_ = m.Remember(ctx, []fleet.Memo{{Agent: left, Gone: true}})
		sweep(27 * time.Second)
		check(false, early, restarted, dead, died)
		cancel()
		synctest.Wait()
	})
}

// TestNobodyTakesTheNameOfACanary: who may not report for the tenant cannot have its candidate given
// up, nor hide that it lost an agent, by the name of a canary that is away.
func TestNobodyTakesTheNameOfACanary(t *testing.T) {
	b := newBench(t)
	above, below := aboveAndBelow(3)
	heard := func(agents ...string) {
		for _, agent := range agents {
			r := by(b.report(agent, 11), "agents")
			r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 11, Tested: true}}
			b.Heard(r)
		}
		b.Sweep()
	}
	shop, err := script.ParseSelector([]string{"shop"})
	if err != nil {
		t.Fatal(err)
	}
	pose := func(as string) {
		for _, leaving := range []bool{false, true} {
			r := by(in(b.report(as, 11), "x", 12), "ci")
			r.Tenants, r.Leaving = shop, leaving
			b.Heard(r)
		}
	}
	b.apply(b.candidate(route, 11, 11, half))
	heard(slices.Concat(above, below)...)
	b.pass(16 * time.Second)
	heard(above[0], above[1]) // the network failed for most agents
	pose(below[0])
	heard(above...)
	heard(below...)
	b.wantLost(false)

	b.pass(16 * time.Second)
	heard(slices.Concat(above, below[1:])...)
	pose(below[0])
	b.wantLost(true)
	b.pass(11 * time.Second)
	b.wantLost(false, below[0])
	before := b.Counts().Ignored.OtherIdentity
	pose(below[0]) // it is lost, and the name free
	b.wantLost(false, below[0])
	if got := b.Counts().Ignored.OtherIdentity; got != before {
		t.Errorf("%d reports are ignored as those of another identity", got-before)
	}
}

// TestTheProcessOfATenantEnds: an agent that lost it while it ran the candidate is lost; one that
// does not run it cannot say so.
func TestTheProcessOfATenantEnds(t *testing.T) {
	b := newBench(t)
	above, below := aboveAndBelow(1)
	b.apply(b.candidate(route, 11, 11, half))
	for _, agent := range []string{above[0], below[0]} {
		b.trial(agent, 11, 11, "")
		r := b.report(agent, 11)
		r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 11, Tested: true, ProcessEnded: true}}
		b.Heard(r)
	}
	b.wantLost(false, below[0])
}

// TestEndedCallsAreTold: calls of a process that left are known as such.
func TestEndedCallsAreTold(t *testing.T) {
	b := newBench(t)
	_, below := aboveAndBelow(2)
	b.apply(b.candidate(route, 11, 11, half))
	for i, agent := range below {
		b.trial(agent, 11, 11, "", uint64(10*(i+1)), uint64(i))
	}
	r := b.report(below[1], 11)
	r.Leaving = true
	b.Heard(r)
	if c := b.candidacy(); fmt.Sprint(c.Calls, c.FailedCalls, c.EndedCalls, c.EndedFailedCalls) != "30 1 20 1" {
		t.Errorf("calls: %+v", c)
	}
}
