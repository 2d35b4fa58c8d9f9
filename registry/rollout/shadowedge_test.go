package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAStepWhoseAgentsAreTooOld: if the only agent with the labels of a step does not know shadow steps, the step
// waits for it and says so, whatever the plan tolerates.
func TestAStepWhoseAgentsAreTooOld(t *testing.T) {
	shadow := script.Step{By: script.ByShadow, Percent: 20}
	for name, c := range map[string]struct {
		steps         []script.Step
		waits, passes string
	}{
		"a shadow step":                    {[]script.Step{{By: script.ByShadow, Percent: 20, Selector: "zone=a"}, {Percent: 50}}, "step 0: 0 of 10 run 2", "10m2s step 1: 1 of 10 shadow 2"},
		"a share of agents after a shadow": {[]script.Step{shadow, {Selector: "zone=a", Percent: 50}}, "step 1: 9 of 10 shadow 2", "10m2s step 2: 1 of 10 run 2"},
		"agents after a shadow":            {[]script.Step{shadow, {Selector: "zone=a"}}, "step 1: 9 of 10 shadow 2", "10m2s step 2: 1 of 10 run 2"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 10, func(s *stage) {
				s.change(func() {
					s.divide(1)
					s.keyless = func(agent string) bool { return agent == s.agents[0] }
				})
				defer s.conduct()()
				s.publish(route, "1", nil)
				s.pass(2 * time.Second)
				settings := byZone(c.steps...)
				settings.Rollout.Tolerate = script.Amount{Count: 1}
				s.publish(route, "2", settings)
				s.pass(10 * time.Minute)
				if story, _, _ := s.soFar(); !strings.HasSuffix(story[len(story)-1], c.waits) {
					t.Fatalf("beside the old agent: %s, want %s", story[len(story)-1], c.waits)
				}
				if got, want := s.why(), "1 of the connected agents have the labels zone=a, and none of these is new enough for the step: upgrade agentd there"; got != want {
					t.Errorf("it waits: %q, want %q", got, want)
				}
				s.change(func() { s.keyless, s.lives[s.agents[0]] = nil, "upgraded" })
				s.pass(2 * time.Second)
				if story, _, _ := s.soFar(); story[len(story)-1] != c.passes {
					t.Errorf("once it is upgraded: %s, want %s", story[len(story)-1], c.passes)
				}
			})
		})
	}
}

// TestAFirstVersionWithShadowSteps: it takes no steps, so that it does not wait for agents that do not know them.
func TestAFirstVersionWithShadowSteps(t *testing.T) {
	for name, step := range map[string]script.Step{"shadow": {By: script.ByShadow, Percent: 20}, "key": {By: script.ByKey, Percent: 20}} {
		t.Run(name, func(t *testing.T) {
			play(t, 10, func(s *stage) {
				s.change(func() { s.keyless = func(string) bool { return true } })
				defer s.conduct()()
				s.publish(route, "1", byZone(step))
				s.pass(time.Minute)
				s.want("0s step 0: 10 of 10 run 1", "1s live 1")
			})
		})
	}
}

// TestCallsThatNobodyCompared: calls are evidence of a shadow step only if their results were compared, for example
// not those of processes that ended before the registry started.
func TestCallsThatNobodyCompared(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.change(func() { s.calls = func(string) (all, failed uint64) { return 1000, 0 } })
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		settings := byZone(script.Step{By: script.ByShadow, Percent: 20}, script.Step{Percent: 50})
		settings.Rollout.MaxDiffPercent = new(5.0)
		s.publish(route, "2", settings)
		s.pass(10 * time.Minute)
		if got, want := s.why(), "0 of the 20 calls that step 1 takes as evidence (minCalls)"; got != want {
			t.Errorf("it waits: %q, want %q", got, want)
		}
		s.change(func() {
			s.shadow = func(time.Duration) *script.ShadowCalls { return &script.ShadowCalls{Equal: 2} }
			s.calls = func(string) (all, failed uint64) { return 1002, 0 }
		})
		s.pass(10 * time.Second)
		if story, _, _ := s.soFar(); !strings.HasSuffix(story[len(story)-1], "step 2: 5 of 10 run 2") {
			t.Errorf("with comparisons: %s", story[len(story)-1])
		}
	})
}
