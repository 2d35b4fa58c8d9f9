package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// inShadow shadows 5 % of the calls on agents of zone a and then 20 % on all, and then takes half of the
// agents, for a minute each.
func inShadow() *script.Settings {
	return byZone(script.Step{By: script.ByShadow, Percent: 5, Selector: "zone=a"}, script.Step{By: script.ByShadow, Percent: 20}, script.Step{Percent: 50})
}

func TestInShadow(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.change(func() { s.divide(4) })
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		s.publish(route, "2", inShadow())
		s.pass(10 * time.Second)
		if got, want := s.release(route).Candidate.Shadows, []script.Selection{{Selector: "zone=a", Threshold: 5 << 32 / 100}}; !slices.Equal(got, want) {
			t.Errorf("the shadows are %v, want %v", got, want)
		}
		if c := s.candidacy(); c.Members != 4 || c.Running != 4 || c.TooOld != 0 || c.Shadow == nil {
			t.Errorf("%d of %d agents run it: %+v", c.Running, c.Members, c.Shadow)
		}
		s.pass(time.Hour)
		s.want("0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 4 of 10 shadow 2", "1m5s step 2: 10 of 10 shadow 2",
			"2m10s step 3: 5 of 10 run 2", "3m15s live 2")
	})
}

// TestShadowBounds: differences, errors and latency in the shadow end a candidate, and calls are its
// evidence.
func TestShadowBounds(t *testing.T) {
	found := func(equal, different, failed uint64) func(time.Duration) *script.ShadowCalls {
		return func(since time.Duration) *script.ShadowCalls {
			n := uint64(since.Seconds())
			return &script.ShadowCalls{Equal: equal * n, Different: different * n, Failed: failed * n}
		}
	}
	for name, c := range map[string]struct {
		shadow         func(time.Duration) *script.ShadowCalls
		latency        time.Duration // of the candidate
		want, atTheEnd string
	}{
		"all is equal":               {found(100, 0, 0), time.Millisecond, "", "live 2"},
		"as many differ as may":      {found(95, 5, 0), time.Millisecond, "", "live 2"},
		"more differ":                {found(94, 6, 0), time.Millisecond, "in step 1 120 of 2000 shadowed calls differ (6 %); at most 5 % may differ (maxDiffPercent): scriptctl rollout diff acme/route shows where", ""},
		"it fails where none failed": {found(94, 1, 5), time.Millisecond, "120 of 2000 shadowed calls differ (6 %), and 100 of these failed", ""},
		"it is slower":               {found(100, 0, 0), 10 * time.Millisecond, "its p99", ""},
		"no calls":                   {found(0, 0, 0), 0, "", "step 1: 10 of 10 shadow 2"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 10, func(s *stage) {
				defer s.conduct()()
				s.publish(route, "1", nil)
				s.pass(2 * time.Second)
				s.change(func() {
					s.shadow = c.shadow
					s.stepCalls = func(candidate bool, since time.Duration) *script.StepCalls {
						all := c.shadow(since)
						took := time.Millisecond
						if candidate && c.latency > 0 {
							took = c.latency
						}
						return perSecond(int(all.Compared()), took, int(all.Compared()), time.Second)
					}
					s.calls = func(string) (all, failed uint64) {
						n := c.shadow(time.Since(s.began))
						return n.Compared(), n.Failed
					}
				})
				settings := byZone(script.Step{By: script.ByShadow, Percent: 20}, script.Step{Percent: 50})
				settings.Rollout.MaxDiffPercent, settings.Rollout.MaxLatencyIncrease = new(5.0), script.LatencyIncrease{P99: 20}
				s.publish(route, "2", settings)
				s.pass(10 * time.Minute)
				story, _, _ := s.soFar()
				last := story[len(story)-1]
				if c.want != "" && !strings.Contains(last, c.want) || c.atTheEnd != "" && !strings.HasSuffix(last, c.atTheEnd) {
					t.Errorf("at the end: %s, want %s", last, c.want+c.atTheEnd)
				}
			})
		})
	}
}

// TestAgentsThatDoNotKnowShadows: a shadow step waits for them, and says so.
func TestAgentsThatDoNotKnowShadows(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.change(func() { s.keyless = func(agent string) bool { return agent == "n3" } })
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		settings := byZone(script.Step{By: script.ByShadow, Percent: 20}, script.Step{Percent: 50})
		settings.Rollout.Tolerate = script.Amount{None: true}
		s.publish(route, "2", settings)
		s.pass(10 * time.Minute)
		if got, want := s.why(), "1 of 10 agents do not know shadow steps: upgrade agentd there"; got != want {
			t.Errorf("it waits: %q, want %q", got, want)
		}
		s.change(func() { s.keyless, s.lives["n3"] = nil, "upgraded" })
		s.pass(2 * time.Second)
		if story, _, _ := s.soFar(); story[len(story)-1] != "10m2s step 1: 10 of 10 shadow 2" {
			t.Errorf("once it is upgraded: %s", story[len(story)-1])
		}
	})
}
