package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestTheDeadlineOfAChangeSet: a script that has done all it can does not wait while the others pause, or
// are paused. What it waits for later has the whole deadline.
func TestTheDeadlineOfAChangeSet(t *testing.T) {
	for name, action := range map[string]script.DeadlineAction{"abort": script.AbortOnDeadline, "pause": script.PauseOnDeadline} {
		t.Run("a new script, "+name, func(t *testing.T) {
			play(t, 10, func(s *stage) {
				var comes time.Time
				s.tests = func(agent string, _ *script.Release) (bool, *script.Error) {
					return agent != "late" || time.Since(comes) >= 2*time.Second, nil
				}
				defer s.conduct()()
				s.live(route)
				plan := twoSteps()
				plan.Steps[0].Pause, plan.Steps[1].Pause = time.Hour, time.Hour
				plan.ProgressDeadline, plan.OnDeadline = 10*time.Minute, action
				req := set(plan, "2", route, lib)
				for i := range req.Scripts {
					req.Scripts[i].Settings = &script.Settings{Spec: script.Spec{Tests: []script.Test{{Name: "it runs"}}}}
				}
				s.publishSet(req)
				s.pass(30 * time.Minute)
				s.change(func() {
					comes = time.Now()
					s.agents = append(slices.Clone(s.agents), "late")
				})
				s.pass(3 * time.Hour)
				s.wantWhere("at the end", "route live 2; lib live 1; flags 2 2; Live", route, lib)
			})
		})
	}
}
