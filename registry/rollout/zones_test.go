package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// byZone goes by these steps, each of which lasts a minute.
func byZone(steps ...script.Step) *script.Settings {
	for i := range steps {
		steps[i].Pause = time.Minute
	}
	return &script.Settings{
		Spec:    script.Spec{Tests: []script.Test{{Name: "it works"}}},
		Rollout: script.Plan{Steps: steps},
	}
}

// divide, which takes s.change, has the first n agents start again in zone a, and the others in zone b.
func (s *stage) divide(n int) {
	s.zones, s.life = map[string]string{}, "in a zone"
	for i, agent := range s.agents {
		s.zones[agent] = "b"
		if i < n {
			s.zones[agent] = "a"
		}
	}
}

// candidacy is that of route.
func (s *stage) candidacy() fleet.Candidacy {
	s.t.Helper()
	list := s.fleet.Candidacies()
	if len(list) != 1 {
		s.t.Fatalf("there are %d candidacies", len(list))
	}
	return list[0]
}

func TestZoneByZone(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.change(func() { s.divide(4) })
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		s.publish(route, "2", byZone(script.Step{Selector: "zone=a", Percent: 25}, script.Step{Selector: "zone=a"}, script.Step{Percent: 10}, script.Step{Percent: 50}))
		s.pass(10 * time.Second)
		s.wantOnly("a", 1)
		s.pass(time.Minute)
		s.wantOnly("a", 4)
		s.pass(time.Hour)
		story, _, _ := s.soFar()
		want := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2", "1m5s step 2: 4 of 10 run 2", "2m10s step 3: 5 of 10 run 2", "3m15s step 4: 8 of 10 run 2"}
		for i, w := range want {
			if i >= len(story) || !strings.HasPrefix(story[i], w) {
				t.Fatalf("the story is\n %s", strings.Join(story, "\n "))
			}
		}
		if last := story[len(story)-1]; !strings.HasSuffix(last, "live 2") {
			t.Errorf("in the end: %s", last)
		}
	})
}

// wantOnly wants so many agents to run the candidate, all of the zone.
func (s *stage) wantOnly(zone string, n int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	r, run := s.releases[route], 0
	for _, agent := range s.agents {
		if r.RunsOn(s.who(agent)).Number == 2 {
			run++
			if s.zones[agent] != zone {
				s.t.Errorf("%s of zone %q runs it", agent, s.zones[agent])
			}
		}
	}
	if run != n {
		s.t.Errorf("%d agents run it, want %d of zone %s", run, n, zone)
	}
}

// TestNobodyHasTheLabels: such a step waits, and says so. It begins when somebody comes, and the
// deadline gives it up.
func TestNobodyHasTheLabels(t *testing.T) {
	for _, ends := range []bool{false, true} {
		play(t, 10, func(s *stage) {
			s.change(func() { s.divide(4) })
			defer s.conduct()()
			s.publish(route, "1", nil)
			s.pass(2 * time.Second)
			settings := byZone(script.Step{Selector: "zone=a"}, script.Step{Selector: "zone=c"})
			if ends {
				settings.Rollout.ProgressDeadline = 30 * time.Minute
			}
			s.publish(route, "2", settings)
			s.pass(10 * time.Minute)
			s.wantOnly("a", 4)
			if got, want := s.why(), "no connected agent has the labels zone=c"; got != want {
				t.Errorf("it waits: %q, want %q", got, want)
			}
			if ends {
				s.pass(time.Hour)
				story, _, _ := s.soFar()
				if got, want := story[len(story)-1], "31m2s failed no progress in 30m0s: no connected agent has the labels zone=c"; got != want {
					t.Errorf("%s, want %s", got, want)
				}
				return
			}
			s.change(func() { // an agent that comes
				s.agents = append(slices.Clone(s.agents), "late")
				s.zones["late"] = "c"
			})
			s.pass(2 * time.Second)
			story, _, _ := s.soFar()
			if got, want := story[len(story)-1], "10m2s step 2: 5 of 11 run 2"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// TestAGateBeforeAStepThatNobodyRuns: once the gate has passed, what is missing are agents, also when
// that pass is too old. So the reason of the deadline names the labels. If somebody comes, the gate
// is asked again.
func TestAGateBeforeAStepThatNobodyRuns(t *testing.T) {
	for _, comes := range []bool{false, true} {
		play(t, 10, func(s *stage) {
			s.change(func() { s.divide(4) })
			s.outside.says(fleet.GatePasses, "fine")
			defer s.conduct()()
			s.publish(route, "1", nil)
			s.pass(2 * time.Second)
			settings := byZone(script.Step{Selector: "zone=a"}, script.Step{Selector: "zone=c"})
			settings.Rollout.Steps[0].Gate = script.Gate{Kind: script.Webhook, Source: "ci"}
			settings.Rollout.ProgressDeadline = 10 * time.Minute
			s.publish(route, "2", settings)
			s.pass(70 * time.Second)
			const want = "no connected agent has the labels zone=c"
			for range 60 {
				s.pass(time.Second)
				if got := s.why(); got != want {
					t.Errorf("it waits: %q, want %q", got, want)
					return
				}
			}
			end := "failed no progress in 10m0s: " + want
			if comes {
				asked := len(s.outside.times())
				s.change(func() {
					s.agents = append(slices.Clone(s.agents), "late")
					s.zones["late"] = "c"
				})
				s.pass(30 * time.Second)
				if n := len(s.outside.times()); n != asked+1 {
					t.Errorf("the gate was asked %d times, want %d", n, asked+1)
				}
				end = "step 2: 5 of 11 run 2"
			} else {
				s.pass(time.Hour)
			}
			story, _, _ := s.soFar()
			if got := story[len(story)-1]; !strings.HasSuffix(got, end) {
				t.Errorf("it ends with %q, want %q", got, end)
			}
		})
	}
}

// TestAgentsThatDoNotKnowSelectors neither run it nor count.
func TestAgentsThatDoNotKnowSelectors(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.change(func() {
			s.divide(4)
			s.blind = func(agent string) bool { return s.zones[agent] == "a" && agent != "n0" }
		})
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		s.publish(route, "2", byZone(script.Step{Selector: "zone=a"}))
		s.pass(10 * time.Second)
		s.wantOnly("a", 1)
		if c := s.candidacy(); c.Members != 1 || c.Running != 1 {
			t.Errorf("%d members, %d run it, want n0 alone", c.Members, c.Running)
		}
		s.change(func() { // upgraded: each is another process, and not lost
			s.blind, s.lives = nil, map[string]string{"n1": "2", "n2": "2", "n3": "2"}
		})
		s.pass(2 * time.Second)
		s.wantOnly("a", 4)
		if c := s.candidacy(); c.Members != 4 || len(c.Lost) != 0 {
			t.Errorf("%d members, lost %v, want the zone", c.Members, c.Lost)
		}
	})
	play(t, 10, func(s *stage) {
		s.change(func() {
			s.divide(4)
			s.blind = func(string) bool { return true }
		})
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		s.publish(route, "2", byZone(script.Step{Selector: "zone=a"}))
		s.pass(10 * time.Minute)
		s.wantOnly("a", 0)
		if got, want := s.why(), "4 of the connected agents have the labels zone=a, and none of these is new enough for the step: upgrade agentd there"; got != want {
			t.Errorf("it waits: %q, want %q", got, want)
		}
	})
}

// TestTheZoneIsLost: agents of earlier steps do not stand for those of the step.
func TestTheZoneIsLost(t *testing.T) {
	const left = "no agent of step 2 is left: they have left the fleet, do not follow the script any more, or do not have the labels zone=c any more"
	began := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 4 of 10 run 2", "1m5s step 2: 5 of 10 run 2"}
	begin := func(s *stage) {
		s.change(func() {
			s.divide(4)
			s.zones["n9"] = "c"
		})
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		settings := byZone(script.Step{Selector: "zone=a"}, script.Step{Selector: "zone=c"})
		settings.Rollout.Tolerate, settings.Rollout.FailureLimit = script.Amount{Count: 1}, script.Amount{Count: 3}
		s.publish(route, "2", settings)
		s.pass(70 * time.Second)
		s.want(began...)
	}
	t.Run("leaves", func(t *testing.T) {
		play(t, 10, func(s *stage) {
			defer s.conduct()()
			begin(s)
			s.lose(func(agent string) bool { return agent == "n9" })
			s.fleet.Heard(fleet.Report{Fleet: s.id, Agent: "n9", Incarnation: s.life, Sequence: 1 << 62, Leaving: true})
			s.pass(time.Hour)
			s.want(append(began, "1m12s failed "+left)...)
		})
	})
	t.Run("cannot run it", func(t *testing.T) {
		play(t, 10, func(s *stage) {
			defer s.conduct()()
			s.change(func() {
				s.failing = func(agent string) *script.Error {
					if agent == "n9" && s.releases[route].Candidate != nil && s.releases[route].Candidate.Step == 2 {
						return script.Errorf(script.Unavailable, "disk", "it is full")
					}
					return nil
				}
			})
			begin(s)
			s.pass(time.Hour)
			s.want(began...)
			if got, want := s.why(), "0 of the 1 agents of step 2 run it, and 1 must"; got != want {
				t.Errorf("it waits: %q, want %q", got, want)
			}
		})
	})
	t.Run("is moved to another zone", func(t *testing.T) {
		play(t, 10, func(s *stage) {
			defer s.conduct()()
			begin(s)
			s.change(func() { s.zones["n9"], s.lives = "b", map[string]string{"n9": "2"} })
			s.pass(time.Second)
			s.want(append(began, "1m12s failed "+left)...)
		})
	})
}
