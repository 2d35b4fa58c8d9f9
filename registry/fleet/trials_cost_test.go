package fleet_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestTrialsAreBounded: what agents say of a candidate takes at most 200 bytes for each,
// though its tests fail and it is called on all; and of what is unknown or gone no more
// than an agent may say.
func TestTrialsAreBounded(t *testing.T) {
	const agents, scripts = 1000, 20
	b := newBench(t)
	names := make([]script.Name, scripts)
	for i := range names {
		names[i] = script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}
	}
	report := func(n int, attempt func(i int) uint64, trials int, err *script.Error) {
		for i := range agents {
			r := b.report(fmt.Sprint("n", i), script.Revision(n))
			for s := range trials {
				trial := fleet.Trial{Name: names[s%scripts], Version: 2, Attempt: attempt(s), Tested: true}
				if script.Bucket(fmt.Sprint("n", i), trial.Name) < half {
					trial.Calls, trial.FailedCalls = 1<<30, 1<<30
				}
				if err != nil {
					trial.Err = script.Errorf(err.Kind, err.Field, "%s", err.Message)
				}
				r.Trials = append(r.Trials, trial)
			}
			b.Heard(r)
		}
	}
	report(10, func(int) uint64 { return 0 }, 0, nil)
	for i, name := range names {
		b.apply(b.candidate(name, script.Revision(11+i), uint64(11+i), half))
	}
	b.commit(script.Name{Tenant: "acme", Script: "other"}, 100)
	before := memtest.Heap()
	attempt := func(i int) uint64 { return uint64(11 + i%scripts) }
	report(100, attempt, scripts, &script.Error{Kind: script.Script, Message: string(make([]byte, 1000))})
	if grown := (memtest.Heap() - before) / agents / scripts; grown > 200 {
		t.Errorf("what an agent says of a candidate takes %d bytes", grown)
	}
	called := 0
	for i := range agents {
		if script.Bucket(fmt.Sprint("n", i), names[0]) < half {
			called++
		}
	}
	only := fleet.Filter{Tenant: names[0].Tenant, Script: names[0].Script}
	if s := b.Status(only).Scripts[0].Trials; s.Calls != uint64(called)<<30 || s.FailedCalls != s.Calls || s.Failed != agents {
		t.Errorf("%+v", s)
	}
	// Of candidates that are not known here as many are kept as an agent may name.
	r := b.report("early", 100)
	for i := range 5 * fleet.MaxTrials {
		r.Trials = append(r.Trials, fleet.Trial{Name: script.Name{Tenant: "acme", Script: fmt.Sprint("e", i)}, Version: 2, Attempt: 90, Tested: true})
	}
	b.Heard(r)
	for _, at := range []int{0, fleet.MaxTrials} {
		b.apply(b.candidate(r.Trials[at].Name, script.Revision(200+at), 90, 0))
		s := b.Status(fleet.Filter{Tenant: "acme", Script: r.Trials[at].Name.Script}).Scripts[0].Trials
		if want := 1 - at/fleet.MaxTrials; s.Passed != want {
			t.Errorf("the trial number %d: %+v, want %d to have passed", at, s, want)
		}
	}
	// And nothing of those that are gone.
	for i, name := range names {
		b.commit(name, script.Revision(5000+i))
	}
	b.commit(script.Name{Tenant: "acme", Script: "other"}, 6000)
	report(6000, attempt, scripts, nil)
	b.hear("early", 6000)
	if grown := memtest.Heap() - before; grown > 4<<20 {
		t.Errorf("what is gone takes %d bytes", grown)
	}
	runtime.KeepAlive(b)
}

// manyCandidates is a fleet and what has an agent report, of candidates each of which half
// of the agents run and all have tested, or have yet to.
func manyCandidates(scripts int, tested bool) (*fleet.Fleet, func(agent int, activated script.Revision)) {
	f := fleet.New(fleet.Config{})
	releases, trials := make([]script.Release, scripts), make([]fleet.Trial, scripts)
	for i := range releases {
		releases[i] = script.Release{
			Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Revision: script.Revision(i + 1), Active: script.Version{Number: 1},
			Candidate: &script.Candidate{Version: script.Version{Number: 2}, Attempt: uint64(i + 1), Step: 1, Threshold: half},
			Settings:  script.Settings{Spec: script.Spec{Tests: make([]script.Test, 1)}},
		}
		trials[i] = fleet.Trial{Name: releases[i].Name, Version: 2, Attempt: uint64(i + 1), Tested: tested}
	}
	f.Reset(registry.State{Fleet: fleetID, Head: script.Revision(scripts), Releases: releases})
	sequence := uint64(0)
	return f, func(agent int, activated script.Revision) {
		sequence++
		f.Heard(fleet.Report{Fleet: fleetID, Agent: fmt.Sprint("n", agent), Incarnation: "1", Sequence: sequence, Activated: activated, Trials: trials})
	}
}

// TestStatusOfManyCandidates takes nothing of the time to rank the agents, though one of
// them changed, and another is stuck.
func TestStatusOfManyCandidates(t *testing.T) {
	const agents, scripts = 2000, 200
	f, report := manyCandidates(scripts, true)
	for i := range agents {
		report(i, scripts)
	}
	report(0, 0)
	ranking := least(func() {
		for i := range agents * scripts / 4 {
			script.Bucket("n1", script.Name{Tenant: "acme", Script: "s" + string(rune('a'+i%20))})
		}
	})
	n := script.Revision(0)
	status := least(func() {
		n++
		report(1, scripts-n)
		f.Status(fleet.Filter{})
		f.Candidacies()
	})
	if status > ranking {
		t.Errorf("the status of %d candidates on %d agents took %v; to rank a quarter of them takes %v", scripts, agents, status, ranking)
	}
	t.Logf("status %v, a quarter of the ranks %v", status, ranking)
}

// TestStatusOfLags takes nothing of the time to look at each agent for each script, though the tenant's
// process lacks all of them everywhere, as after a restart of the fleet.
func TestStatusOfLags(t *testing.T) {
	const agents, scripts = 2000, 500
	releases := make([]script.Release, scripts)
	for i := range releases {
		releases[i] = script.Release{Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Revision: script.Revision(i + 1)}
	}
	f := fleet.New(fleet.Config{})
	f.Reset(registry.State{Fleet: fleetID, Head: scripts, Releases: releases})
	for i := range agents {
		f.Heard(fleet.Report{Fleet: fleetID, Agent: fmt.Sprint("n", i), Incarnation: "1", Sequence: 1, Activated: scripts, Lags: map[string]script.Revision{"acme": 0}})
	}
	looking := least(func() {
		for i := range agents * scripts / 4 {
			script.Bucket("n1", releases[i%scripts].Name)
		}
	})
	status := least(func() {
		for _, s := range f.Status(fleet.Filter{}).Scripts {
			if s.Lagging != agents || s.Active != 0 || s.SlowestAgent != "n0" {
				t.Fatalf("%+v", s)
			}
		}
	})
	if status > looking {
		t.Errorf("the status of %d scripts on %d agents took %v; to look at a quarter of them takes %v", scripts, agents, status, looking)
	}
	t.Logf("status %v, a quarter of the looks %v", status, looking)
}

// least returns how long it takes to do something. Others are at work, too.
func least(do func()) time.Duration {
	took := time.Hour
	for range 10 {
		began := time.Now()
		do()
		took = min(took, time.Since(began))
	}
	return took
}

// BenchmarkCandidates is the cost of what is asked and said of 1,000 candidates on 10,000
// agents.
func BenchmarkCandidates(b *testing.B) {
	const agents, scripts = 10_000, 1000
	f, report := manyCandidates(scripts, true)
	for i := range agents {
		report(i, scripts)
	}
	b.Run("status", func(b *testing.B) {
		for b.Loop() {
			f.Status(fleet.Filter{})
		}
	})
	b.Run("candidacies", func(b *testing.B) {
		for b.Loop() {
			f.Candidacies()
		}
	})
	b.Run("report", func(b *testing.B) { // with all that was said before
		for b.Loop() {
			report(1, scripts)
		}
	})
	b.Run("join", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			report(agents+i, scripts)
			f.Heard(fleet.Report{Fleet: fleetID, Agent: fmt.Sprint("n", agents+i), Incarnation: "1", Sequence: 1 << 62, Leaving: true})
		}
	})
	b.Run("ranked", func(b *testing.B) {
		for b.Loop() {
			f.Buckets(script.Name{Tenant: "acme", Script: "s1"})
		}
	})
	b.Run("status with 100 behind", func(b *testing.B) {
		for i := range 100 {
			report(i, 1)
		}
		for b.Loop() {
			f.Status(fleet.Filter{})
		}
	})
	b.Run("status with all behind", func(b *testing.B) {
		for i := range agents {
			report(i, script.Revision(i%scripts))
		}
		for b.Loop() {
			f.Status(fleet.Filter{})
		}
	})
	f, report = manyCandidates(scripts, false)
	for i := range agents {
		report(i, scripts)
	}
	b.Run("status with all waited for", func(b *testing.B) {
		for b.Loop() {
			f.Status(fleet.Filter{})
		}
	})
}
