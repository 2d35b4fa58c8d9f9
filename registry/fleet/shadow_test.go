package fleet_test

import (
	"fmt"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// inShadow is a release whose candidate shadows one percent of the calls in the step.
func (b *bench) inShadow(revision script.Revision, step int) script.Release {
	r := b.candidate(route, revision, 1, 0)
	r.Settings.Rollout = script.Plan{Steps: []script.Step{{By: script.ByShadow, Percent: 1}, {By: script.ByShadow, Percent: 2}, {Percent: 50}}}
	r.Candidate.Step = step
	for _, s := range r.Settings.Rollout.Steps[:step] {
		r.Candidate.Select(s, script.ShadowThreshold(s.Percent))
	}
	return r
}

// found is a report of an agent on what it found.
func (b *bench) found(agent, incarnation string, knows bool, calls *script.ShadowCalls) {
	r := b.report(agent, 12)
	r.Shadows, r.Keys = knows, knows
	if incarnation != "" {
		r.Incarnation = incarnation
	}
	r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 1, Shadow: calls}}
	b.Heard(r)
}

// TestShadowsAddUp: what agents of the step found is added up. Of agents that are not of it, of another
// step, and of counts that there cannot be, nothing is.
func TestShadowsAddUp(t *testing.T) {
	b := newBench(t)
	want := func(when, text string) {
		t.Helper()
		got := "nothing"
		if s := b.route().Trials.Shadow; s != nil {
			got = fmt.Sprintf("%d: %d equal, %d differ, %d failed, %d slower, %d dropped", s.Step, s.Equal, s.Different, s.Failed, s.Slower, s.Dropped)
		}
		if got != text {
			t.Errorf("%s: %s, want %s", when, got, text)
		}
	}
	for _, agent := range []string{"a", "b"} {
		b.found(agent, "", true, nil)
	}
	b.found("old", "", false, nil)
	b.apply(b.inShadow(12, 1))
	b.found("a", "", true, &script.ShadowCalls{Step: 1, Equal: 10, Different: 2, Slower: 1})
	b.found("b", "", true, &script.ShadowCalls{Step: 1, Equal: 5, Failed: 1, Dropped: 7})
	b.found("old", "", false, &script.ShadowCalls{Step: 1, Equal: 99})
	want("both", "1: 15 equal, 2 differ, 1 failed, 1 slower, 7 dropped")
	if c := b.candidacy(); c.Members != 2 || c.TooOld != 1 || c.Shadow == nil || c.Shadow.Equal != 15 {
		t.Errorf("%d members, %d too old, %+v", c.Members, c.TooOld, c.Shadow)
	}
	b.found("a", "", true, &script.ShadowCalls{Step: 1, Equal: 12, Different: 1})
	want("fewer differ than before", "1: 15 equal, 2 differ, 1 failed, 1 slower, 7 dropped")
	b.found("a", "", true, &script.ShadowCalls{Step: 2, Equal: 90})
	want("another step", "1: 15 equal, 2 differ, 1 failed, 1 slower, 7 dropped")
	b.found("a", "", true, &script.ShadowCalls{Step: 1, Equal: 1 << 47})
	want("more than there can be", "1: 15 equal, 2 differ, 1 failed, 1 slower, 7 dropped")
	b.found("a", "", true, &script.ShadowCalls{Step: 1, Equal: 20, Different: 3})
	want("more", "1: 25 equal, 3 differ, 1 failed, 0 slower, 7 dropped")
	b.found("a", "later", true, &script.ShadowCalls{Step: 1, Equal: 1})
	want("another process", "1: 26 equal, 3 differ, 1 failed, 0 slower, 7 dropped")

	kept := b.Counts().Reported
	b.apply(b.inShadow(13, 2))
	want("the next step", "2: 0 equal, 0 differ, 0 failed, 0 slower, 0 dropped")
	b.apply(b.inShadow(14, 3))
	want("a step that is none", "nothing")
	if got := b.Counts().Reported; got >= kept {
		t.Errorf("%d bytes are kept of what agents said, %d during the step", got, kept)
	}
}
