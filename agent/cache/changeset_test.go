package cache_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// withChangeSet is withCandidate of a change set, whose plan compares.
func withChangeSet(attempt uint64, share uint32, content string) script.Release {
	r := withCandidate(attempt, share)
	r.Candidate.Step = 1
	r.Candidate.Set = &script.Membership{
		Name: "cart-2", Attempt: 3, Scripts: []string{"cart", "route"},
		Plan:   script.Plan{Steps: []script.Step{{Percent: 50}}, MaxErrorIncrease: new(1.0)},
		Values: []script.StagedValue{{Key: "flags", Digest: script.DigestOf([]byte(content)), Size: len(content)}},
	}
	return r
}

func TestTheCandidateOfAChangeSet(t *testing.T) {
	r := withChangeSet(1, everywhere, "on")
	live := cache.NewReleaseOn(script.Agent{Name: "n"}, r)
	if live.Candidate.Set != r.Candidate.Set {
		t.Error("the change set is copied")
	}
	if live.Staged(2) != r.Candidate.Set || live.Staged(1) != nil || live.Staged(7) != nil {
		t.Errorf("staged is %v for version 2, %v for version 1", live.Staged(2), live.Staged(1))
	}
	if live.StepCalls == nil {
		t.Error("the plan of the change set compares, and no calls are counted for it")
	}
	if live.Fingerprint() != wire.Fingerprint(r) || live.Fingerprint() != wire.Fingerprint(withCandidate(1, 0)) {
		t.Error("the change set is in the fingerprint")
	}
	// The copy that the process of an isolated tenant gets comes to the same.
	copied, err := wire.ToRelease(wire.FromRelease(live.Script()))
	if err != nil {
		t.Fatal(err)
	}
	again := cache.NewReleaseOn(script.Agent{Name: "n"}, copied)
	if again.Runs.Number != 2 || again.StepCalls == nil || again.Candidate.Threshold != everywhere {
		t.Errorf("of its copy %+v", again)
	}
	if diff := cmp.Diff(r.Candidate.Set, again.Staged(2)); diff != "" {
		t.Errorf("its copy has another change set (-want +got):\n%s", diff)
	}
	r.Candidate.Set.Plan.MaxErrorIncrease = nil
	r.Settings.Rollout = script.Plan{Steps: []script.Step{{Percent: 50}}, MaxErrorIncrease: new(1.0)}
	if live := cache.NewReleaseOn(script.Agent{Name: "n"}, r); live.StepCalls != nil {
		t.Error("the plan of the script applies to a candidate of a change set")
	}
}

// TestCountsGoOnWithinAChangeSet: not with other values, nor by itself. Another fleet gives the same
// numbers to other candidates.
func TestCountsGoOnWithinAChangeSet(t *testing.T) {
	for name, tt := range map[string]struct {
		next  script.Release
		calls uint64
	}{
		"the same":       {withChangeSet(1, everywhere, "on"), 1},
		"other values":   {withChangeSet(1, everywhere, "off"), 0},
		"another number": {withChangeSet(2, everywhere, "on"), 0},
		"by itself":      {withCandidate(1, everywhere), 0},
	} {
		table := cache.NewTable()
		put := func(r script.Release) *cache.Release {
			table.Update([]*cache.Release{cache.NewReleaseOn(script.Agent{Name: "n"}, r)}, nil)
			return table.Get("acme/route")
		}
		put(withChangeSet(1, everywhere, "on")).Note("", time.Millisecond)
		live := put(tt.next)
		if calls, _ := live.Calls.Read(); calls != tt.calls {
			t.Errorf("%s: %d calls are counted, want %d", name, calls, tt.calls)
		}
		if counted := live.StepCalls != nil && live.StepCalls.Read() != nil; counted != (tt.calls > 0) {
			t.Errorf("%s: calls of the step are counted: %v", name, counted)
		}
	}
}

func TestStagedContents(t *testing.T) {
	var d depot
	v := cache.NewValues(&d, 1<<20)
	live := d.value("acme", "flags", "shared", 1)
	v.Update([]script.Value{live}, nil)
	other := d.value("acme", "flags", "staged", 2) // which is not live
	for digest, want := range map[script.Digest]string{live.Digest: "shared", other.Digest: "staged"} {
		for range 3 {
			if got, err := v.Staged(digest); err != nil || string(got) != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
	}
	wants(t, v, "acme", "flags", "shared")
	if n := d.count(); n != 2 {
		t.Errorf("two contents are read %d times", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = v.Staged(other.Digest) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	d.err = script.Errorf(script.Unavailable, "", "it was lost")
	if _, err := v.Staged(script.DigestOf([]byte("lost"))); script.KindOf(err) != script.Unavailable {
		t.Errorf("what is lost: %v", err)
	}
	// What is staged has to give way as what is live.
	small := cache.NewValues(&d, 1)
	d.err = nil
	_, _ = small.Staged(other.Digest)
	_, _ = small.Staged(live.Digest)
	d.err = script.Errorf(script.Unavailable, "", "it was lost")
	if _, err := small.Staged(other.Digest); err == nil {
		t.Error("it is kept above the budget")
	}
}
