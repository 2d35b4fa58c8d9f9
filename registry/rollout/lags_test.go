package rollout_test

import (
	"slices"
	"testing"
	"time"
)

// TestALag: a step waits for an agent on which the tenant's process lags, and neither gives the candidate
// up for it nor goes on without it. The deadline bounds the wait.
func TestALag(t *testing.T) {
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		canary := s.canary()
		s.change(func() {
			s.lagging = func(agent string) bool {
				c := s.releases[route].Candidate
				return agent == canary && c != nil && c.Step == 1
			}
		})
		settings := careful()
		settings.Rollout.ProgressDeadline = 20 * time.Minute
		s.publish(route, "2", settings)
		s.pass(10 * time.Minute)
		began := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2"}
		s.want(began...)
		if why := s.why(); why != "9 of 10 agents have taken the last change, and 10 must" {
			t.Errorf("it waits: %s", why)
		}
		if waits := s.waitsFor(); waits != "1 ["+canary+"]" {
			t.Errorf("it waits for %s, want %s", waits, canary)
		}
		s.change(func() { s.lagging = nil })
		s.pass(time.Hour)
		s.want(append(slices.Clone(began), "11m5s step 2: 5 of 10 run 2", "21m10s live 2")...)

		s.change(func() { s.lagging = func(agent string) bool { return agent == canary } })
		s.publish(route, "3", settings)
		s.pass(time.Hour)
		s.mu.Lock()
		last := s.story[len(s.story)-1]
		s.mu.Unlock()
		if want := "1h30m2s failed no progress in 20m0s: 9 of 10 agents have taken the last change, and 10 must"; last != want {
			t.Errorf("past the deadline: %s, want %s", last, want)
		}
	})
}
