package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestTheCanaryIsLost: a candidate whose agent ends is given up, and walks no further. No other
// agent takes the place of the one that is lost.
func TestTheCanaryIsLost(t *testing.T) {
	began := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2"}
	for _, tt := range []struct {
		name  string
		lose  func(s *stage, canary string)
		story string
	}{
		{"dies", func(s *stage, canary string) {
			s.lose(func(agent string) bool { return agent == canary })
		}, "27s failed %s: ended, lost the tenant's process, or not heard any more, while it was to run version 2 (failureLimit 1)"},
		{"restarts", func(s *stage, canary string) {
			s.change(func() { s.lives = map[string]string{canary: "2"} })
		}, "4s failed %s: ended, lost the tenant's process, or not heard any more, while it was to run version 2 (failureLimit 1)"},
		{"leaves", func(s *stage, canary string) {
			s.lose(func(agent string) bool { return agent == canary })
			s.fleet.Heard(fleet.Report{Fleet: s.id, Agent: canary, Incarnation: s.life, Sequence: 1 << 62, Leaving: true})
		}, "4s failed no agent of step 1 is left: they have left the fleet, or do not follow the script any more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, 10, func(s *stage) {
				defer s.conduct()()
				s.publish(route, "1", nil)
				s.pass(2 * time.Second)
				s.publish(route, "2", careful())
				s.pass(2 * time.Second) // into its step
				canary := s.canary()
				tt.lose(s, canary)
				s.pass(40 * time.Second)
				story := append(began, strings.ReplaceAll(tt.story, "%s", canary))
				s.want(story...)
				s.change(func() { s.lives = map[string]string{canary: "3"} }) // it goes on with the active version
				s.pass(time.Hour)
				s.want(story...)
			})
		})
	}
}

// TestAShortPause: a step does not pass while nobody knows that its agent died.
func TestAShortPause(t *testing.T) {
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		settings := careful()
		settings.Rollout.Steps[0].Pause = time.Second
		s.publish(route, "2", settings)
		s.pass(500 * time.Millisecond)
		canary := s.canary()
		s.lose(func(agent string) bool { return agent == canary })
		s.pass(time.Hour)
		s.want("0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2",
			"27s failed "+canary+": ended, lost the tenant's process, or not heard any more, while it was to run version 2 (failureLimit 1)")
	})
}

// TestSomeMayBeLost: up to the limit, agents that are lost are counted, also by the replica that
// goes on.
func TestSomeMayBeLost(t *testing.T) {
	play(t, 10, func(s *stage) {
		stop := s.conduct()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		settings := careful()
		settings.Rollout.Steps = []script.Step{{Percent: 50, Pause: time.Hour}}
		settings.Rollout.FailureLimit = script.Amount{Count: 3}
		s.publish(route, "2", settings)
		s.pass(2 * time.Second)
		var members []string
		s.change(func() {
			r := s.releases[route]
			for _, agent := range s.agents {
				if r.RunsOn(script.Agent{Name: agent}).Number == 2 {
					members = append(members, agent)
				}
			}
			s.lives = map[string]string{members[0]: "2", members[1]: "2"}
		})
		s.pass(time.Second)
		began := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 5 of 10 run 2"}
		s.want(began...)
		s.change(func() { s.lives[members[0]] = "3" }) // the same one again
		stop()
		defer s.conduct()()
		s.pass(30 * time.Minute)
		s.want(began...)
		r := s.release(route)
		if got := r.Candidate.Lost; len(got) != 2 {
			t.Errorf("lost: %v, want two", got)
		}
		s.change(func() { s.lives[members[2]] = "2" })
		s.pass(time.Second)
		story, _, _ := s.soFar()
		if last := story[len(story)-1]; !strings.HasSuffix(last, "(failureLimit 3)") {
			t.Errorf("the third: %s", last)
		}
	})
}

// TestCallsSurviveRestarts: calls that failed count, also if the agent is started anew.
func TestCallsSurviveRestarts(t *testing.T) {
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		settings := careful()
		settings.Rollout.FailureLimit = script.Amount{Count: 9}
		s.publish(route, "2", settings)
		s.pass(time.Second)
		s.change(func() { s.calls = func(string) (uint64, uint64) { return 15, 15 } })
		s.pass(10 * time.Second)
		s.change(func() { s.lives, s.calls = map[string]string{s.canary(): "2"}, nil })
		s.pass(10 * time.Second)
		s.change(func() { s.calls = func(string) (uint64, uint64) { return 5, 0 } })
		s.pass(time.Second)
		story, _, _ := s.soFar()
		if got, want := story[len(story)-1], "23s failed 15 of 20 calls failed (75 %), at most 5 % may"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestCallsOfProcessesThatEnd are recorded, so that a registry that starts anew goes on from them: of
// an agent that was lost before, and so that no step waits for calls that were made.
func TestCallsOfProcessesThatEnd(t *testing.T) {
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		settings := careful()
		settings.Rollout.FailureLimit, settings.Rollout.Steps[0].Pause = script.Amount{Count: 9}, time.Hour
		s.publish(route, "2", settings)
		s.pass(time.Second)
		for life := range 50 {
			s.change(func() {
				s.calls = func(string) (uint64, uint64) { return 10, 0 }
			})
			s.change(func() { s.lives, s.calls = map[string]string{s.canary(): fmt.Sprint("life ", life)}, nil })
			s.pass(5 * time.Second)
		}
		s.pass(time.Minute)
		if c := s.release(route).Candidate; c.Calls != 500 || c.FailedCalls != 0 || len(c.Lost) != 1 {
			t.Errorf("the candidate is %+v", c)
		}
		if _, moves, _ := s.soFar(); len(moves) > 15 {
			t.Errorf("in five minutes that was stored %d times", len(moves))
		}
	})
}

// TestEvidenceIsNeeded: a step that calls are looked at in does not pass without calls.
func TestEvidenceIsNeeded(t *testing.T) {
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		settings := careful()
		settings.Rollout.MinCalls = nil
		s.publish(route, "2", settings)
		s.pass(time.Hour)
		began := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2"}
		s.want(began...)
		s.change(func() { s.calls = func(string) (uint64, uint64) { return 20, 0 } })
		s.pass(2 * time.Second)
		s.want(append(began, "1h0m2s step 2: 5 of 10 run 2")...)
		s.pass(time.Hour) // each of five agents has made 20 calls, of which one has 20 from the step before
		s.want(append(began, "1h0m2s step 2: 5 of 10 run 2", "1h10m5s live 2")...)
	})
}

// TestTheFleetIsLost: while more than half of the agents are unknown nothing goes on; until
// they are back, or taken for gone.
func TestTheFleetIsLost(t *testing.T) {
	began := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2"}
	lost := func(s *stage) []string {
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		s.publish(route, "2", careful())
		s.pass(29 * time.Second)
		all, canary, kept := s.agents, s.canary(), 0
		s.lose(func(agent string) bool {
			if agent == canary || kept == 3 {
				return agent != canary
			}
			kept++
			return false
		})
		s.pass(30 * time.Minute)
		s.want(began...)
		return all
	}
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		all := lost(s)
		s.change(func() { s.agents = all })
		s.pass(time.Second)
		s.want(append(began, "30m31s step 2: 5 of 10 run 2")...)
	})
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		lost(s)
		s.pass(time.Hour)
		s.want(append(began, "1h0m45s step 2: 2 of 4 run 2", "1h10m50s live 2")...)
	})
}

// TestAShortOutage: most agents are not heard for too short a time to be unknown. The canary is the first that
// goes, and the last that is back, within 10 s after half of them are: it is not lost.
func TestAShortOutage(t *testing.T) {
	play(t, 7, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		settings := careful()
		settings.Rollout.Steps[0].Pause = 5 * time.Minute
		s.publish(route, "2", settings)
		s.pass(time.Minute)
		canary := s.canary()
		others := slices.DeleteFunc(slices.Clone(s.agents), func(agent string) bool { return agent == canary })
		for at := time.Duration(0); at < 2*time.Minute; at += 500 * time.Millisecond {
			s.change(func() {
				switch at {
				case 0:
					s.silent[canary] = time.Now()
					for _, agent := range others[:3] {
						s.silent[agent] = time.Now().Add(4500 * time.Millisecond)
					}
				case 18 * time.Second:
					delete(s.silent, others[0])
					delete(s.silent, others[1])
				case 27 * time.Second:
					clear(s.silent)
				}
			})
			s.pass(500 * time.Millisecond)
		}
		s.want("0s live 1", "2s step 0: 0 of 7 run 2", "2s step 1: 1 of 7 run 2")
	})
}

// TestOlderAgents may be among those that are to run a candidate: nobody can tell whether
// they do.
func TestOlderAgents(t *testing.T) {
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		canary := s.canary()
		s.change(func() { s.old = func(agent string) bool { return agent == canary } })
		settings := careful()
		settings.Tests = nil
		s.publish(route, "2", settings)
		s.pass(time.Hour)
		began := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2"}
		s.want(began...)
		if got, want := s.waitsFor(), "1 ["+canary+"]"; got != want {
			t.Errorf("it waits for %s, want %s", got, want)
		}
		s.change(func() { s.old = nil })
		s.pass(70 * time.Second)
		s.want(append(began, "1h1m5s step 2: 5 of 10 run 2")...)
	})
}

// TestWhatMayPass is waited for; what does not ends the candidate.
func TestWhatMayPass(t *testing.T) {
	began := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2"}
	begin := func(s *stage, agent func() string, why *script.Error) {
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		s.publish(route, "2", careful())
		s.pass(time.Second)
		fails := agent()
		s.change(func() {
			s.failing = func(agent string) *script.Error {
				if agent == fails {
					return why
				}
				return nil
			}
		})
		s.pass(time.Hour)
	}
	for _, why := range []*script.Error{
		{Kind: script.Unavailable, Field: "disk", Message: "it is full"}, {Kind: script.Denied}, {Kind: script.Internal}, {Kind: script.Overloaded},
	} {
		play(t, 10, func(s *stage) {
			defer s.conduct()()
			begin(s, s.canary, why)
			s.want(began...)
			if got, want := s.waitsFor(), "1 ["+s.canary()+"]"; got != want {
				t.Errorf("%s: it waits for %s, want %s", why.Kind, got, want)
			}
			s.change(func() { s.failing = nil })
			s.pass(time.Second)
			s.want(append(began, "1h0m3s step 2: 5 of 10 run 2")...)
		})
	}
	for _, why := range []*script.Error{
		{Kind: script.Script, Message: "boom"},
		{Kind: script.Limit, Message: "boom"},
		{Kind: script.Invalid, Message: "boom"},
		{Kind: script.Unavailable, Field: "script", Message: "boom"}, // it is in quarantine
	} {
		play(t, 10, func(s *stage) {
			defer s.conduct()()
			begin(s, s.canary, why)
			reason := "3s failed " + s.canary() + ": boom"
			if why.Field != "" {
				reason = "3s failed " + s.canary() + ": script: boom"
			}
			s.want(append(began, reason)...)
		})
	}
	play(t, 10, func(s *stage) { // what runs elsewhere is no fault of the candidate
		defer s.conduct()()
		other := ""
		begin(s, func() string {
			for _, agent := range s.agents {
				if agent != s.canary() {
					other = agent
				}
			}
			return other
		}, &script.Error{Kind: script.Unavailable, Field: "script", Message: "in quarantine"})
		s.want(began...)
		if got, want := s.waitsFor(), "1 ["+other+"]"; got != want {
			t.Errorf("it waits for %s, want %s", got, want)
		}
	})
}
