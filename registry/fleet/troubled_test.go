package fleet_test

import (
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestTroubled: agents that are behind, failed or held are counted while they are connected.
func TestTroubled(t *testing.T) {
	b := newBench(t)
	want := func(what string, want fleet.Troubled) {
		t.Helper()
		b.Sweep()
		if got := b.Troubled(); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	want("without agents", fleet.Troubled{})
	b.hear("a", 10)
	b.hear("b", 10)
	b.pass(time.Minute)
	b.hear("a", 10)
	b.hear("b", 10)
	want("all is well", fleet.Troubled{})

	b.commit(script.Name{Tenant: "shop", Script: "cart"}, 11)
	b.pass(3 * time.Second)
	b.commit(route, 12)
	b.pass(4 * time.Second)
	b.hear("a", 12)
	b.hear("b", 10)
	want("b has activated nothing for 7 s", fleet.Troubled{Behind: 7 * time.Second})
	b.hear("b", 11)
	want("b is behind by the last change", fleet.Troubled{Behind: 4 * time.Second})
	b.fail("b", 12, 12)
	held := b.report("a", 12)
	held.Held = "the registry has no record of 12 scripts"
	b.Heard(held)
	want("b failed, a keeps what it has", fleet.Troubled{Failed: 1, Held: 1})
	b.pass(time.Minute)
	want("both are unknown", fleet.Troubled{})
}

// TestBehindByOtherTenants: an agent is not behind by what it does not follow.
func TestBehindByOtherTenants(t *testing.T) {
	b := newBench(t)
	b.follow("a", 10, "shop")
	b.commit(route, 11)
	b.pass(time.Second)
	if got := b.Troubled(); got.Behind != 0 {
		t.Errorf("behind by %v", got.Behind)
	}
	b.commit(script.Name{Tenant: "shop", Script: "cart"}, 12)
	b.pass(time.Second)
	if got := b.Troubled(); got.Behind != time.Second {
		t.Errorf("behind by %v, want 1s", got.Behind)
	}
}

// TestTheLongestWait: the pause of a step does not count, and neither does a candidate that failed.
func TestTheLongestWait(t *testing.T) {
	b := newBench(t)
	want := func(what string, want time.Duration) {
		t.Helper()
		if got := b.CandidateCounts().Longest; got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	want("without a candidate", 0)
	r := b.candidate(route, 11, 11, 0)
	r.Settings.Rollout.Steps = []script.Step{{Percent: 50, Pause: time.Minute}}
	r.Candidate.Since = b.now
	b.apply(r)
	b.pass(5 * time.Second)
	want("before the first step", 5*time.Second)

	next := r
	candidate := *r.Candidate
	next.Revision, next.Candidate = 12, &candidate
	candidate.Step, candidate.Since, candidate.Running = 1, b.now, b.now
	b.apply(next)
	b.pass(time.Minute)
	want("its pause is over", 0)
	b.pass(time.Hour)
	want("an hour later", time.Hour)

	failed := next
	end := candidate
	failed.Revision, failed.Candidate, end.Failed = 13, &end, "boom"
	b.apply(failed)
	want("it failed", 0)
}
