package rollout_test

import (
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestTheCanaryIsLost: a step counts for nothing if no agent is left that ran it. It begins
// anew on another one.
func TestTheCanaryIsLost(t *testing.T) {
	began := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2"}
	for _, tt := range []struct {
		name  string
		lose  func(s *stage, canary string)
		story []string
	}{
		{"dies", func(*stage, string) {}, []string{"45s step 1: 1 of 9 run 2", "1m45s step 2: 5 of 10 run 2", "11m45s live 2"}},
		{"leaves", func(s *stage, canary string) {
			s.fleet.Heard(fleet.Report{Fleet: s.id, Agent: canary, Incarnation: s.life, Sequence: 1 << 62, Leaving: true})
		}, []string{"31s step 1: 1 of 9 run 2", "1m31s step 2: 5 of 10 run 2", "11m31s live 2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, 10, func(s *stage) {
				defer s.conduct()()
				s.publish(route, "1", nil)
				s.pass(2 * time.Second)
				s.publish(route, "2", careful())
				s.pass(29 * time.Second)
				canary := s.canary()
				s.lose(func(agent string) bool { return agent == canary })
				tt.lose(s, canary)
				s.pass(40 * time.Second) // longer than its pause would have been
				s.want(append(began, tt.story[0])...)
				s.change(func() { s.agents, s.life = append(s.agents, canary), "2" }) // it goes on with the candidate
				s.pass(time.Hour)
				s.want(append(began, tt.story...)...)
			})
		})
	}
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
		s.want(append(began, "1h0m45s step 2: 2 of 4 run 2", "1h10m45s live 2")...)
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
		s.pass(time.Second)
		s.want(append(began, "1h0m2s step 2: 5 of 10 run 2")...)
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
