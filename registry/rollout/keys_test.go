package rollout_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// byKey takes 1 and then 10 % of the keys, and then half of the agents, for a minute each.
func byKey() *script.Settings {
	return byZone(script.Step{By: script.ByKey, Percent: 1}, script.Step{By: script.ByKey, Percent: 10}, script.Step{Percent: 50})
}

func TestByKey(t *testing.T) {
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		s.publish(route, "2", byKey())
		s.pass(10 * time.Second)
		if got, want := s.release(route).Candidate.Keys, []script.Selection{{Threshold: 1 << 32 / 100}}; !slices.Equal(got, want) {
			t.Errorf("the keys are %v, want %v", got, want)
		}
		if c := s.candidacy(); c.Members != 10 || c.Running != 10 || c.TooOld != 0 {
			t.Errorf("%d of %d agents run it", c.Running, c.Members)
		}
		if st := s.fleet.Status(fleet.Filter{Tenant: route.Tenant, Script: route.Script}).Scripts[0]; st.Active != 10 || st.Trials.Running != 10 {
			t.Errorf("the status says that %d agents run the active version and %d the candidate: they run both", st.Active, st.Trials.Running)
		}
		s.pass(time.Hour)
		s.want("0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 0 of 10 run 2, and 10 for keys", "1m5s step 2: 0 of 10 run 2, and 10 for keys",
			"2m10s step 3: 5 of 10 run 2, and 5 for keys", "3m15s live 2")
	})
}

// TestKeysOfAZone: the step takes keys on agents with its labels alone. The others are no evidence.
func TestKeysOfAZone(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.change(func() { s.divide(4) })
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		s.publish(route, "2", byZone(script.Step{By: script.ByKey, Percent: 1, Selector: "zone=a"}, script.Step{By: script.ByKey, Percent: 1}, script.Step{Selector: "zone=a"}, script.Step{By: script.ByKey, Percent: 5, Selector: "zone=b"}))
		s.pass(10 * time.Second)
		if c := s.candidacy(); c.Members != 4 || c.Own.Members != 4 {
			t.Errorf("%d agents are to run it, %d in this step", c.Members, c.Own.Members)
		}
		s.pass(time.Hour)
		s.want("0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 0 of 10 run 2, and 4 for keys", "1m5s step 2: 0 of 10 run 2, and 10 for keys",
			"2m10s step 3: 4 of 10 run 2, and 6 for keys", "3m15s step 4: 4 of 10 run 2, and 6 for keys", "4m21s live 2")
	})
}

// TestAgentsThatDoNotKnowKeys: users of theirs would get another version than on other agents. So a
// step by key waits for them, and says so.
func TestAgentsThatDoNotKnowKeys(t *testing.T) {
	for _, tolerate := range []int{0, 1} {
		play(t, 10, func(s *stage) {
			s.change(func() { s.keyless = func(agent string) bool { return agent == "n3" } })
			defer s.conduct()()
			s.publish(route, "1", nil)
			s.pass(2 * time.Second)
			settings := byKey()
			settings.Rollout.Tolerate = script.Amount{Count: tolerate, None: tolerate == 0}
			s.publish(route, "2", settings)
			s.pass(10 * time.Minute)
			story, _, _ := s.soFar()
			if tolerate > 0 {
				if got, want := strings.Join(story[2:], ", "), "2s step 1: 0 of 10 run 2, and 9 for keys, 1m5s step 2: 0 of 10 run 2, and 9 for keys, 2m10s step 3: "; !strings.HasPrefix(got, want) {
					t.Errorf("with one that is tolerated: %s", got)
				}
				return
			}
			if got, want := s.why(), "1 of 10 agents do not know steps by key: upgrade agentd there"; got != want {
				t.Errorf("it waits: %q, want %q", got, want)
			}
			if got, want := s.waitsFor(), "1[n3]"; strings.ReplaceAll(got, " ", "") != want {
				t.Errorf("it waits for %s, want %s", got, want)
			}
			s.change(func() { s.keyless, s.lives["n3"] = nil, "upgraded" })
			s.pass(2 * time.Second)
			if story, _, _ = s.soFar(); story[len(story)-1] != "10m2s step 1: 0 of 10 run 2, and 10 for keys" {
				t.Errorf("once it is upgraded: %s", story[len(story)-1])
			}
		})
	}
}

// TestAgentsThatDoNotKnowKeysAnyMore: an agent of an earlier edition that takes the place of another in
// a step by key runs the active version, and the rollout does not go on.
func TestAgentsThatDoNotKnowKeysAnyMore(t *testing.T) {
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		settings := byKey()
		settings.Rollout.FailureLimit = script.Amount{Count: 5}
		s.publish(route, "2", settings)
		s.pass(10 * time.Second)
		s.change(func() { s.keyless, s.lives["n3"] = func(agent string) bool { return agent == "n3" }, "older" })
		s.pass(10 * time.Minute)
		if got, want := s.why(), "1 of 10 agents do not know steps by key: upgrade agentd there"; got != want {
			t.Errorf("it waits: %q, want %q", got, want)
		}
		if c := s.candidacy(); c.Members != 9 || c.Release.Candidate.Step != 1 {
			t.Errorf("%d agents are to run it, in step %d", c.Members, c.Release.Candidate.Step)
		}
	})
}

// TestComparedByKey: both versions are counted on each agent, and the rest of what it does counts for
// nothing.
func TestComparedByKey(t *testing.T) {
	fine := func(since time.Duration) *script.StepCalls { return perSecond(100, time.Millisecond, 100, since) }
	passed := []string{"1m5s step 2: 0 of 10 run 2, and 10 for keys", "2m10s step 3: 5 of 10 run 2, and 5 for keys", "3m15s live 2"}
	for name, c := range map[string]struct {
		candidate, active func(since time.Duration) *script.StepCalls
		story             []string // after the first step
		why               string
	}{
		"as before": {fine, fine, passed, ""},
		"it fails more often": {
			func(since time.Duration) *script.StepCalls { return perSecond(1, time.Millisecond, 1, since) }, fine,
			[]string{"failed in step 1"},
			"",
		},
		"it is slower": {
			func(since time.Duration) *script.StepCalls { return perSecond(100, 10*time.Millisecond, 100, since) }, fine,
			[]string{"failed in step 1 its p99"},
			"",
		},
		"what both call is down": {
			func(since time.Duration) *script.StepCalls { return perSecond(1, time.Millisecond, 1, since) },
			func(since time.Duration) *script.StepCalls { return perSecond(100, time.Millisecond, 1, since) }, passed, "",
		},
		"no calls with its keys":   {func(time.Duration) *script.StepCalls { return &script.StepCalls{} }, fine, nil, "0 of the 20 calls that step 1 takes as evidence (minCalls)"},
		"no calls with other keys": {fine, func(time.Duration) *script.StepCalls { return &script.StepCalls{} }, nil, "0 of the 20 calls of version 1 with other keys that step 1 takes to compare with (minCalls)"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 10, func(s *stage) {
				defer s.conduct()()
				s.publish(route, "1", nil)
				s.pass(2 * time.Second)
				s.change(func() {
					s.stepCalls = func(candidate bool, since time.Duration) *script.StepCalls {
						if candidate {
							return c.candidate(since)
						}
						return c.active(since)
					}
					s.calls = func(string) (all, failed uint64) {
						n := c.candidate(time.Since(s.began))
						return n.Calls(), n.FailedCalls
					}
				})
				settings := byKey()
				settings.Rollout.MaxErrorIncrease, settings.Rollout.MaxLatencyIncrease = new(0.5), script.LatencyIncrease{P99: 20}
				s.publish(route, "2", settings)
				s.pass(10 * time.Minute)
				story, _, _ := s.soFar()
				story = story[3:]
				if len(story) != len(c.story) {
					t.Fatalf("after the first step: %q, want %q", story, c.story)
				}
				for i, want := range c.story {
					if !strings.Contains(story[i], want) {
						t.Errorf("%s, want %s", story[i], want)
					}
				}
				if c.why != "" && s.why() != c.why {
					t.Errorf("it waits: %q, want %q", s.why(), c.why)
				}
			})
		})
	}
}

// TestNobodyOfTheStepIsLeftBesideKeys: agents that run a candidate for keys alone are no evidence for a
// step by agents.
func TestNobodyOfTheStepIsLeftBesideKeys(t *testing.T) {
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		settings := byZone(script.Step{By: script.ByKey, Percent: 1}, script.Step{Percent: 10})
		settings.Rollout.FailureLimit = script.Amount{Count: 5}
		settings.Rollout.Steps[1].Pause = 24 * time.Hour
		s.publish(route, "2", settings)
		s.pass(2 * time.Minute)
		canary := slices.MinFunc(s.agents, func(a, b string) int { return cmp.Compare(script.Bucket(a, route), script.Bucket(b, route)) })
		s.lose(func(agent string) bool { return agent == canary })
		s.pass(2 * time.Hour)
		story, _, _ := s.soFar()
		if last := story[len(story)-1]; !strings.Contains(last, "failed no agent of step 2 is left") {
			t.Errorf("%s, and %s", last, fmt.Sprint(s.why()))
		}
	})
}
