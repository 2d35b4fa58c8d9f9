package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// in returns the report as one of another incarnation, in a session with the number.
func in(r fleet.Report, incarnation string, session script.Revision) fleet.Report {
	r.Incarnation, r.Session = incarnation, session
	return r
}

// TestSessionsOrderIncarnations: what an older process of an agent has said changes nothing,
// whether the newer one is heard, away, or has left.
func TestSessionsOrderIncarnations(t *testing.T) {
	b := newBench(t)
	b.Heard(in(b.report("a", 10), "2", 20))
	older := func(when string) {
		t.Helper()
		stale := b.Counts().Ignored.Stale
		b.Heard(in(b.report("a", 5), "1", 19))
		if got := b.Counts().Ignored.Stale; got != stale+1 {
			t.Errorf("%s: an older process is heard", when)
		}
	}
	older("while the newer one is heard")
	b.pass(16 * time.Second)
	b.Sweep()
	older("when the newer one is away")
	b.Heard(in(b.report("a", 10), "3", 20)) // of the same moment
	if agents := b.agents(); len(agents) != 1 || agents[0].Unknown || agents[0].Activated != 10 {
		t.Errorf("agents: %+v", agents)
	}
	leaving := in(b.report("a", 10), "3", 21)
	leaving.Leaving = true
	b.Heard(leaving)
	b.pass(25 * time.Minute)
	b.Sweep()
	older("when the newer one has left")
	b.Heard(in(b.report("a", 10), "4", 22))
	if agents := b.agents(); len(agents) != 1 {
		t.Errorf("agents: %+v", agents)
	}
}

// TestImpossibleReports: a report of what there is not waits for a while, and then is gone.
func TestImpossibleReports(t *testing.T) {
	b := newBench(t)
	b.hear("a", 10)
	lie := func(change func(*fleet.Report)) {
		r := b.report("a", 10)
		change(&r)
		b.Heard(r)
		b.want("1/0/0 of 1", true, "")
		b.pass(16 * time.Second)
		b.hear("b", 10)
		b.Sweep()
		if agents := b.agents(); agents[0].Activated != 10 || agents[0].Failed != 0 {
			t.Errorf("agents: %+v", agents)
		}
		r = b.report("b", 10)
		r.Leaving = true
		r.Incarnation = fmt.Sprint(r.Sequence)
		b.Heard(r)
		b.hear("a", 10)
	}
	lie(func(r *fleet.Report) { r.Activated = 11 })
	lie(func(r *fleet.Report) {
		r.Failures = []fleet.Failure{{Name: route, Revision: 1 << 60, Err: &script.Error{Kind: script.Script}}}
	})
	lie(func(r *fleet.Report) { r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 1 << 63}} })
	if got := b.Counts().Ignored.Impossible; got != 3 {
		t.Errorf("%d reports were impossible, want 3", got)
	}
}

// TestAnAgentThatWasForeign: what it said in its fleet before, and somebody repeats, does not
// make it one of that fleet again.
func TestAnAgentThatWasForeign(t *testing.T) {
	b := newBench(t)
	before := in(b.report("a", 10), "1", 20)
	before.Fleet = "other"
	b.Heard(before)
	if agents := b.agents(); len(agents) != 1 || agents[0].Fleet != "other" {
		t.Fatalf("agents: %+v", agents)
	}
	b.Heard(in(b.report("a", 10), "2", 21))
	b.pass(time.Second)
	b.Heard(before)
	if agents := b.agents(); len(agents) != 1 || agents[0].Fleet != "" {
		t.Errorf("agents: %+v", agents)
	}
	if got := b.Counts().Ignored.Stale; got != 1 {
		t.Errorf("%d reports were stale, want 1", got)
	}
	b.pass(time.Second)
	again := in(b.report("a", 10), "3", 22) // it changes its fleet once more
	again.Fleet = "other"
	b.Heard(again)
	if agents := b.agents(); len(agents) != 1 || agents[0].Fleet != "other" {
		t.Errorf("agents: %+v", agents)
	}
}

// TestImpossibleForLong: an agent that goes on to claim what there is not is counted again and
// again.
func TestImpossibleForLong(t *testing.T) {
	b := newBench(t)
	b.hear("a", 10)
	for range 12 { // a minute
		b.pass(5 * time.Second)
		b.hear("a", 1<<60)
		b.Sweep()
	}
	if got := b.Counts().Ignored.Impossible; got < 2 {
		t.Errorf("%d reports were impossible, want 2 or more", got)
	}
}

// TestImpossibleCalls: calls that there cannot be are not counted; what was said before stays.
func TestImpossibleCalls(t *testing.T) {
	b := newBench(t)
	above, below := aboveAndBelow(1)
	b.apply(b.candidate(route, 11, 11, half))
	b.trial(below[0], 11, 11, "", 100, 90)
	for _, lie := range []struct {
		agent string
		calls []uint64
	}{
		{below[0], []uint64{1 << 39, 0}},  // less failed than before,
		{below[0], []uint64{1 << 39, 90}}, // more than there is time for,
		{below[0], []uint64{99, 90}},      // fewer than before,
		{above[0], []uint64{10_000, 0}},   // on an agent that does not run it
	} {
		before := b.Counts().Ignored.Impossible
		b.trial(lie.agent, 11, 11, "", lie.calls...)
		if s := b.route().Trials; s.Calls != 100 || s.FailedCalls != 90 || b.Counts().Ignored.Impossible != before+1 {
			t.Errorf("%v: %d of %d calls failed, want 90 of 100", lie, s.FailedCalls, s.Calls)
		}
	}
	b.trial(below[0], 11, 11, "", 200, 95)
	restarted := b.report(below[0], 11)
	restarted.Incarnation = "2"
	restarted.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 11, Calls: 3}}
	b.Heard(restarted)
	if s := b.route().Trials; s.Calls != 203 || s.FailedCalls != 95 {
		t.Errorf("after a restart %d of %d calls failed, want 95 of 203", s.FailedCalls, s.Calls)
	}
}

// TestTooManyAgents: agents are bounded, those of one identity too.
func TestTooManyAgents(t *testing.T) {
	f := fleet.New(fleet.Config{MaxAgents: 10})
	f.Reset(registry.State{Fleet: fleetID, Head: 10})
	sequence := uint64(0)
	hear := func(agent, identity string, activated script.Revision, leaving bool) {
		sequence++
		f.Heard(fleet.Report{
			Fleet: fleetID, Agent: agent, Identity: identity, Incarnation: "1", Sequence: sequence, Activated: activated, Leaving: leaving,
		})
	}
	want := func(known int, tooMany uint64) {
		t.Helper()
		if got := f.Counts(); got.Connected != known || got.Ignored.TooMany != tooMany {
			t.Errorf("%+v; want %d agents, and %d reports of too many", got, known, tooMany)
		}
	}
	for i := range 8 {
		hear(fmt.Sprint("greedy-", i), "greedy", 10, false)
	}
	want(5, 3)
	for i := range 8 {
		hear(fmt.Sprint("other-", i), fmt.Sprint("other-", i), 10, false)
	}
	want(10, 6)
	hear("ahead", "ahead", 11, false)
	want(10, 7)
	hear("greedy-0", "greedy", 10, true)
	hear("greedy-7", "greedy", 10, false)
	want(10, 7)
}

// hearLarge has the agent say as much as it can.
func hearLarge(f *fleet.Fleet, agent string, sequence int) {
	r := fleet.Report{
		Fleet: fleetID, Agent: agent, Incarnation: "1", Sequence: uint64(sequence), Activated: 10,
		DiskKeys: []string{fmt.Sprint(sequence)}, Labels: map[string]string{"large": strings.Repeat("x", 4000)},
	}
	for i := range 20 {
		name := script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}
		r.Failures = append(r.Failures, fleet.Failure{Name: name, Revision: 10, Err: &script.Error{Kind: script.Script, Message: strings.Repeat("y", 1000)}})
	}
	f.Heard(r)
}

// keeping runs the test with a fleet that is kept in a memory.
func keeping(t *testing.T, cfg fleet.Config, do func(f *fleet.Fleet, m *sharedMemory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f, m := fleet.New(cfg), newSharedMemory()
		f.Reset(registry.State{Fleet: fleetID, Head: 10})
		ctx, cancel := context.WithCancel(t.Context())
		go f.Keep(ctx, m, func() bool { return true }, slog.New(slog.DiscardHandler))
		do(f, m)
		cancel()
		synctest.Wait()
	})
}

// bytes is what the memory has of agents, in what they can make large.
func (m *sharedMemory) bytes() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, memo := range m.agents {
		for key, value := range memo.Report.Labels {
			n += len(key) + len(value)
		}
		for _, failure := range memo.Report.Failures {
			n += len(failure.Err.Message)
		}
	}
	return n
}

// TestAnAgentIsRememberedSeldom, and little of it, however often it says something else.
func TestAnAgentIsRememberedSeldom(t *testing.T) {
	keeping(t, fleet.Config{}, func(f *fleet.Fleet, m *sharedMemory) {
		for i := range 600 { // in a minute
			hearLarge(f, "a", i+1)
			<-time.After(100 * time.Millisecond)
		}
		synctest.Wait()
		m.set(func() {
			if m.writes > 7 {
				t.Errorf("one agent was stored %d times in a minute", m.writes)
			}
		})
		if one := m.bytes(); one > 6500 {
			t.Errorf("one agent takes %d bytes", one)
		}
	})
}

// TestManyAgentsAreRememberedSlowly: a flood of agents does not become one of writes.
func TestManyAgentsAreRememberedSlowly(t *testing.T) {
	keeping(t, fleet.Config{UnknownAfter: time.Hour}, func(f *fleet.Fleet, m *sharedMemory) {
		for i := range 5000 {
			hearLarge(f, fmt.Sprint("n", i), 1)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		atOnce := m.bytes()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if after := m.bytes() - atOnce; atOnce > 18<<20 || after < 8<<20 || after > 11<<20 {
			t.Errorf("%d bytes were stored at once, and %d in the ten minutes after", atOnce, after)
		}
	})
}

// TestNotAllAgentsAreRemembered: the memory has a bound, and the agents are known all the same.
func TestNotAllAgentsAreRemembered(t *testing.T) {
	keeping(t, fleet.Config{MaxMemory: 1 << 20, UnknownAfter: time.Hour}, func(f *fleet.Fleet, m *sharedMemory) {
		for i := range 500 {
			hearLarge(f, fmt.Sprint("n", i), 1)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if got := f.Counts(); m.bytes() > 2<<20 || m.bytes() < 1<<19 || got.Remembered > 2<<20 || got.Connected != 500 {
			t.Errorf("the memory has %d bytes; %+v", m.bytes(), got)
		}
	})
}

// by returns the report as one of the identity.
func by(r fleet.Report, identity string) fleet.Report {
	r.Identity = identity
	return r
}

// TestAnotherIdentity: while an agent is heard, nobody else has its name, whatever he says.
func TestAnotherIdentity(t *testing.T) {
	b := newBench(t)
	b.Heard(by(b.report("a", 10), "agents"))
	lies := map[string]func(r *fleet.Report){
		"older":            func(*fleet.Report) {},
		"newer":            func(r *fleet.Report) { r.Incarnation, r.Session = "x", 100 },
		"huge":             func(r *fleet.Report) { r.Sequence = 1 << 63 },
		"leaving":          func(r *fleet.Report) { r.Leaving = true },
		"leaving, newer":   func(r *fleet.Report) { r.Leaving, r.Incarnation, r.Session = true, "x", 100 },
		"ahead":            func(r *fleet.Report) { r.Activated, r.Sequence, r.Session = 11, 1<<63, 100 },
		"of another fleet": func(r *fleet.Report) { r.Fleet, r.Sequence = "F2", 1<<63 },
	}
	for what, lie := range lies {
		before := b.Counts().Ignored.OtherIdentity
		r := by(b.report("a", 5), "ci")
		lie(&r)
		b.Heard(r)
		if got := b.Counts().Ignored.OtherIdentity; got != before+1 {
			t.Errorf("%s: it is not ignored as one of another identity", what)
		}
		b.Heard(by(b.report("a", 10), "agents"))
		if agents := b.agents(); len(agents) != 1 || agents[0].Activated != 10 || agents[0].Unknown || agents[0].Fleet != "" {
			t.Errorf("%s: agents: %+v", what, agents)
		}
	}
	if stale := b.Counts().Ignored.Stale; stale != 0 {
		t.Errorf("%d reports of the agent itself are stale", stale)
	}
	b.commit(route, 11)
	b.pass(time.Second)
	b.Sweep()
	if agents := b.agents(); len(agents) != 1 || agents[0].Activated != 10 {
		t.Errorf("agents: %+v", agents)
	}
}

// TestANameIsFreeAgain: who is not heard loses the name, and has it back when the other is not
// heard, whatever that one has said meanwhile.
func TestANameIsFreeAgain(t *testing.T) {
	for what, lie := range map[string]func(r *fleet.Report){
		"huge":    func(r *fleet.Report) { r.Sequence = 1 << 63 },
		"leaving": func(r *fleet.Report) { r.Leaving = true },
		"ahead":   func(r *fleet.Report) { r.Sequence, r.Activated = 1<<63, 1000 },
	} {
		b := newBench(t)
		b.Heard(by(in(b.report("a", 10), "1", 20), "agents"))
		b.pass(16 * time.Second)
		b.Heard(by(in(b.report("a", 9), "1", 20), "ci"))
		r := by(in(b.report("a", 9), "1", 21), "ci")
		lie(&r)
		b.Heard(r)
		b.pass(16 * time.Second)
		b.Sweep()
		b.Heard(by(in(b.report("a", 10), "1", 21), "agents"))
		if agents := b.agents(); len(agents) != 1 || agents[0].Activated != 10 || agents[0].Unknown {
			t.Errorf("%s: agents: %+v", what, agents)
		}
	}
}

// TestHugeSequence: a sequence orders what was said in one session, and nothing later.
func TestHugeSequence(t *testing.T) {
	b := newBench(t)
	for _, activated := range []script.Revision{9, 1000} {
		r := in(b.report("a", activated), "1", 20)
		r.Sequence = 1 << 63
		b.Heard(r)
		b.Heard(in(b.report("a", 10), "1", 21))
		if agents := b.agents(); len(agents) != 1 || agents[0].Activated != 10 {
			t.Errorf("agents: %+v", agents)
		}
		b.Heard(in(b.report("a", 9), "1", 20))
		if agents := b.agents(); agents[0].Activated != 10 {
			t.Error("what was said in an earlier session is news")
		}
	}
}

// TestANameIsKeptOverARestart: replicas remember whose agent it is.
func TestANameIsKeptOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newSharedMemory()
		ctx, cancel := context.WithCancel(t.Context())
		start := func() *fleet.Fleet {
			f := fleet.New(fleet.Config{})
			f.Reset(registry.State{Fleet: fleetID, Head: 10})
			go f.Keep(ctx, m, func() bool { return true }, slog.New(slog.DiscardHandler))
			<-f.Recalled()
			synctest.Wait()
			return f
		}
		report := fleet.Report{Fleet: fleetID, Agent: "a", Identity: "agents", Incarnation: "1", Sequence: 1, Activated: 10}
		start().Heard(report)
		synctest.Wait()
		second := start()
		second.Heard(by(in(report, "2", 1), "ci"))
		if got := second.Counts(); got.Ignored.OtherIdentity != 1 || got.Connected != 0 {
			t.Errorf("another identity: %+v", got)
		}
		report.Sequence++
		second.Heard(report)
		if got := second.Counts(); got.Connected != 1 {
			t.Errorf("its own: %+v", got)
		}
		report.Agent, report.Identity = "b", "" // as an older edition has remembered it
		second.Heard(report)
		synctest.Wait()
		third := start()
		third.Heard(by(in(report, "2", 1), "ci"))
		if got := third.Counts(); got.Connected != 1 {
			t.Errorf("one that nobody knows the identity of: %+v", got)
		}
		cancel()
		synctest.Wait()
	})
}

// TestOneIdentityOfMany: reports that wait, and departures, of one identity leave room for
// those of others; and its agents can go on to report.
func TestOneIdentityOfMany(t *testing.T) {
	b := newBench(t)
	b.Fleet = fleet.New(fleet.Config{MaxAgents: 10, Clock: func() time.Time { return b.now }})
	b.reset(fleetID, 10)
	hear := func(agent, identity string, change func(r *fleet.Report)) (ignored bool) {
		before := b.Counts().Ignored
		r := by(b.report(agent, 10), identity)
		change(&r)
		b.Heard(r)
		return b.Counts().Ignored != before
	}
	ahead := func(r *fleet.Report) { r.Activated = 1000 }
	leaves := func(r *fleet.Report) { r.Leaving = true }
	current := func(*fleet.Report) {}
	for i := range 8 {
		if ignored := hear(fmt.Sprint("greedy-", i), "greedy", ahead); ignored != (i >= 5) {
			t.Errorf("ahead: agent %d of an identity that has five at most is ignored: %v", i, ignored)
		}
	}
	for _, what := range []func(*fleet.Report){ahead, current, ahead, current} {
		for _, name := range []string{"greedy-0", "modest"} {
			if hear(name, strings.TrimSuffix(name, "-0"), what) {
				t.Errorf("%s is ignored", name)
			}
		}
	}
	for i := range 50 {
		hear(fmt.Sprint("gone-", i), "greedy", leaves)
	}
	hear("modest", "modest", leaves)
	if !hear("modest", "modest", func(r *fleet.Report) { r.Sequence = 0 }) {
		t.Error("what came late brings an agent back that has left")
	}
	b.pass(time.Hour)
	b.Sweep()
	b.pass(time.Hour)
	b.Sweep()
	for i := range 5 {
		if hear(fmt.Sprint("greedy-", i), "greedy", current) {
			t.Errorf("after an hour, agent %d has no room", i)
		}
	}
}

// TestWaitingReportsCostNothing until what they claim is known.
func TestWaitingReportsCostNothing(t *testing.T) {
	fastest := func(agents int) time.Duration {
		b := newBench(t)
		for i := range agents {
			b.hear(fmt.Sprint("n", i), 1<<40)
		}
		took := time.Duration(1 << 62)
		for run := range 5 {
			start := time.Now()
			for i := range 200 {
				b.commit(route, script.Revision(11+200*run+i))
			}
			took = min(took, time.Since(start))
		}
		return took
	}
	few, many := fastest(10), fastest(20_000)
	if many > 20*few {
		t.Errorf("200 changes take %v while 20,000 reports wait, and %v while 10 do", many, few)
	}
}

// TestReportedBytesAreBounded: those of one identity leave room for others. A report that is too
// much changes nothing, and one that is no larger than the last is always taken in.
func TestReportedBytesAreBounded(t *testing.T) {
	const bound = 1 << 20
	f := fleet.New(fleet.Config{MaxReported: bound})
	f.Reset(registry.State{Fleet: fleetID, Head: 10})
	sequence := uint64(0)
	hear := func(agent, identity string, size int, change func(r *fleet.Report)) (taken bool) {
		sequence++
		before := f.Counts()
		r := fleet.Report{Fleet: fleetID, Agent: agent, Identity: identity, Incarnation: "1", Sequence: sequence, Activated: 10}
		r.Failures = []fleet.Failure{{Name: route, Revision: 10, Err: &script.Error{Kind: script.Script, Message: strings.Repeat("x", size)}}}
		change(&r)
		f.Heard(r)
		after := f.Counts()
		if after.Reported > bound {
			t.Errorf("%d bytes are kept, at most %d are allowed", after.Reported, bound)
		}
		return after.Ignored.TooLarge == before.Ignored.TooLarge
	}
	plain := func(*fleet.Report) {}
	ahead := func(r *fleet.Report) { r.Activated = 1000 }
	fill := func(identity string, change func(*fleet.Report)) (n int) {
		for n < 1000 && hear(fmt.Sprint(identity, "-", n), identity, 10<<10, change) {
			n++
		}
		return n
	}
	if n := fill("greedy", plain); n < 40 || n > 52 {
		t.Errorf("one identity has %d agents of 10 KiB in 1 MiB; half of it is for others", n)
	}
	if !hear("greedy-0", "greedy", 10<<10, plain) || hear("greedy-0", "greedy", 20<<10, plain) || !hear("greedy-0", "greedy", 9<<10, plain) {
		t.Error("an agent of an identity that has no room cannot report as much as before, or can report more")
	}
	if n := fill("waits", ahead); n < 40 || n > 52 {
		t.Errorf("%d reports of 10 KiB wait", n)
	}
	if hear("third", "third", 40<<10, plain) {
		t.Error("there is room beyond the bound")
	}
	for i := range 60 {
		hear(fmt.Sprint("greedy-", i), "greedy", 0, func(r *fleet.Report) { r.Leaving = true })
		hear(fmt.Sprint("waits-", i), "waits", 0, func(r *fleet.Report) { r.Leaving = true })
	}
	if got := f.Counts().Reported; got != 0 {
		t.Errorf("of nobody, %d bytes are kept", got)
	}
}
