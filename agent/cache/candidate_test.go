package cache_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// withCandidate returns a release of version 1 with version 2 on its way, to the share of
// the agents.
func withCandidate(attempt uint64, share uint32) script.Release {
	r := script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 7, Enabled: true, Latest: 2}
	for i := range 2 {
		r.Retained = append(r.Retained, script.Version{
			Number: uint64(i + 1), Digest: script.DigestOf(fmt.Append(nil, i)), Engine: "lua", Entrypoint: "handle", Size: 1,
		})
	}
	r.Active = r.Retained[0]
	r.Candidate = &script.Candidate{Version: r.Retained[1], Spec: r.Settings.Spec, Attempt: attempt, Threshold: share}
	return r
}

const everywhere = 1<<32 - 1

func TestWhatRunsOnAnAgent(t *testing.T) {
	r := withCandidate(3, 1<<31)
	runs := map[uint64]int{}
	for i := range 100 {
		agent := fmt.Sprint("node-", i)
		live := cache.NewReleaseOn(script.Agent{Name: agent}, r)
		if live.Runs.Number != r.RunsOn(script.Agent{Name: agent}).Number {
			t.Errorf("%s runs %d, and the release says %d", agent, live.Runs.Number, r.RunsOn(script.Agent{Name: agent}).Number)
		}
		if got := live.Calls != nil; got != (live.Runs.Number == 2) {
			t.Errorf("%s runs %d; calls are counted: %v", agent, live.Runs.Number, got)
		}
		// Whatever runs, the release is what the registry has, and comes to the same again.
		if live.Fingerprint() != wire.Fingerprint(r) {
			t.Errorf("%s, which runs %d, has another fingerprint than the registry", agent, live.Runs.Number)
		}
		again := cache.NewReleaseOn(script.Agent{Name: agent}, live.Script())
		if again.Runs.Number != live.Runs.Number || again.Untried() || again.Candidate.Attempt != 3 {
			t.Errorf("%s: of its own copy %+v", agent, again)
		}
		runs[live.Runs.Number]++
	}
	if runs[1] == 0 || runs[2] == 0 {
		t.Errorf("of 100 agents %v run each version", runs)
	}
	if got := cache.NewRelease(withCandidate(1, everywhere)).Runs.Number; got != 1 {
		t.Errorf("where no candidates run, %d does", got)
	}
	r.Active = r.Retained[1]
	if live := cache.NewReleaseOn(script.Agent{Name: "n"}, r); !live.Untried() || live.Calls != nil {
		t.Errorf("the first version is %+v", live)
	}
}

func TestAFlippedBitInACandidateThatRunsShows(t *testing.T) {
	r := withCandidate(1, everywhere)
	r.Candidate.Spec = script.Spec{
		Limits: script.Limits{Instructions: 1000}, Trigger: script.Trigger{Event: "http"}, Config: json.RawMessage(`{"n":1}`), OnError: script.OnError{Status: 429},
		Tests: []script.Test{{Name: "one"}},
	}
	r.Candidate.Version = r.Candidate.Version.With(r.Candidate.Spec)
	r.Retained[1] = r.Candidate.Version
	if cache.NewReleaseOn(script.Agent{Name: "n"}, r).Fingerprint() != wire.Fingerprint(r) {
		t.Error("a release as it is has another fingerprint")
	}
	for name, flip := range map[string]func(*cache.Release){
		"limits":       func(r *cache.Release) { r.Limits.Instructions ^= 8 },
		"other limits": func(r *cache.Release) { r.Limits.Concurrency ^= 8 },
		"config": func(r *cache.Release) {
			flipped := bytes.Clone(r.Config)
			flipped[5] ^= 2
			r.Config, r.Candidate.Spec.Config = flipped, flipped
		},
		"onError":    func(r *cache.Release) { r.OnError = &script.OnError{Status: 428} },
		"trigger":    func(r *cache.Release) { r.Trigger.Event = "Http" },
		"number":     func(r *cache.Release) { r.Runs.Number ^= 8 },
		"digest":     func(r *cache.Release) { r.Runs.Digest[31] ^= 128 },
		"entrypoint": func(r *cache.Release) { r.Runs.Entrypoint = "oTher" },
	} {
		live := cache.NewReleaseOn(script.Agent{Name: "n"}, r)
		if flip(live); live.Fingerprint() == wire.Fingerprint(r) {
			t.Errorf("%s: does not show", name)
		}
	}
}

func TestCountsGoOnWithinAnAttempt(t *testing.T) {
	table := cache.NewTable()
	put := func(r script.Release) *cache.Release {
		t.Helper()
		table.Update([]*cache.Release{cache.NewReleaseOn(script.Agent{Name: "n"}, r)}, nil)
		return table.Get("acme/route")
	}
	want := func(live *cache.Release, calls, failed uint64) {
		t.Helper()
		if c, f := live.Calls.Read(); c != calls || f != failed {
			t.Errorf("%d calls, %d failed; want %d and %d", c, f, calls, failed)
		}
	}
	first := put(withCandidate(1, everywhere))
	for _, kind := range []script.Kind{"", "", script.Script, script.Limit, script.Timeout, script.Overloaded, script.Unavailable, script.Internal} {
		first.Note(kind, time.Millisecond)
	}
	want(first, 5, 3)
	second := put(withCandidate(1, everywhere))
	want(second, 5, 3)
	first.Note(script.Script, 0) // a call that began before
	want(second, 6, 4)
	second.Calls.Add(10, 1)
	if c, f := second.Calls.Take(); c != 16 || f != 5 {
		t.Errorf("took %d and %d", c, f)
	}
	second.Note("", 0)
	want(second, 1, 0)
	want(put(withCandidate(2, everywhere)), 0, 0)
	if got := table.Candidates(); len(got) != 1 || got[0].Candidate.Attempt != 2 {
		t.Errorf("candidates %+v", got)
	}
	if put(withCandidate(2, 0)).Calls != nil {
		t.Error("calls are counted where the candidate does not run")
	}
	want(put(withCandidate(2, everywhere)), 0, 0)
	put(withCandidate(2, everywhere)).Note(script.Script, 0)
	other := withCandidate(2, everywhere) // of the fleet that the agent has adopted
	other.Retained[1].Digest = script.DigestOf([]byte("other"))
	other.Candidate.Version = other.Retained[1]
	want(put(other), 0, 0)
	put(withCandidate(2, everywhere)).Note(script.Script, 0)
	other = withCandidate(2, everywhere) // the same program, that runs with something else
	other.Candidate.Version = other.Candidate.Version.With(script.Spec{Config: []byte(`{"n":2}`)})
	want(put(other), 0, 0)
	r := withCandidate(2, 0)
	r.Active, r.Candidate = r.Retained[1], nil
	if put(r); len(table.Candidates()) != 0 {
		t.Errorf("candidates %+v", table.Candidates())
	}
	put(withCandidate(4, 0))
	if table.Update(nil, []script.Name{r.Name}); len(table.Candidates()) != 0 {
		t.Errorf("candidates %+v of what is gone", table.Candidates())
	}
}

// TestStepCallsAreTakenOnce: however calls and those who take them come together, each failure is
// taken once.
func TestStepCallsAreTakenOnce(t *testing.T) {
	release := withCandidate(1, everywhere)
	release.Candidate.Step = 1
	release.Settings.Rollout = script.Plan{Steps: []script.Step{{Percent: 50}}, MaxErrorIncrease: new(1.0)}
	live := cache.NewReleaseOn(script.Agent{Name: "n"}, release)
	const callers, each = 4, 100_000
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			for range each {
				live.Note(script.Script, time.Millisecond)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		calling.Wait()
		close(done)
	}()
	var calls, failed uint64
	take := func() {
		if c := live.StepCalls.Take(); c != nil {
			calls, failed = calls+c.Calls(), failed+c.FailedCalls
		}
	}
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		take()
	}
	// A failure may come after its call was taken: it goes with the next one.
	live.Note("", time.Millisecond)
	take()
	live.Note("", time.Millisecond)
	take()
	if calls != callers*each+2 || failed > callers*each || failed < callers*(each-1) {
		t.Errorf("of %d calls that failed, and 2 that did not, %d of %d are taken as failed", callers*each, failed, calls)
	}
}
