package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/rollout"
	"github.com/scriptorium-dev/scriptorium/script"
)

// stands returns where the script is: "live 1", "2 in step 0: REASON", or "2 failed: REASON".
func (s *stage) stands(name script.Name) string {
	s.mu.Lock()
	r := s.releases[name]
	s.mu.Unlock()
	switch c := r.Candidate; {
	case c == nil:
		return fmt.Sprint("live ", r.Active.Number)
	case c.Failed != "":
		return fmt.Sprintf("%d failed: %s", c.Version.Number, c.Failed)
	}
	why := ""
	for _, c := range s.fleet.Candidacies() {
		if c.Release.Name == name {
			why = rollout.Next(c, time.Now()).Why
		}
	}
	return fmt.Sprintf("%d in step %d: %s", r.Candidate.Version.Number, r.Candidate.Step, why)
}

// TestOneAfterTheOther: a candidate waits until the script is live that it comes after, with steps and
// without, and a first version, too. If that fails, it waits on, up to its deadline.
func TestOneAfterTheOther(t *testing.T) {
	play(t, 4, func(s *stage) {
		lib := script.Name{Tenant: "acme", Script: "lib"}
		var names []script.Name
		for _, name := range []string{"all", "steps", "first", "deadline"} {
			names = append(names, script.Name{Tenant: "acme", Script: name})
		}
		where := func(when string, want ...string) {
			t.Helper()
			for i, name := range names {
				if got := s.stands(name); got != want[i] {
					t.Errorf("%s: %s is %q, want %q\n%s", when, name, got, want[i], s.log)
				}
			}
		}
		tested := false
		s.change(func() {
			s.tests = func(_ string, r *script.Release) (bool, *script.Error) { return tested || r.Name != lib, nil }
		})
		stop := s.conduct()
		defer stop()
		plan := func(steps int, deadline time.Duration) *script.Settings {
			all := []script.Step{{Percent: 50, Pause: time.Minute}}
			return &script.Settings{Rollout: script.Plan{After: []script.Name{lib}, Steps: all[:steps], ProgressDeadline: deadline}}
		}
		withTests := &script.Settings{Spec: script.Spec{Tests: []script.Test{{Name: "it works"}}}}
		s.publish(lib, "1", nil)
		for _, i := range []int{0, 1, 3} {
			s.publish(names[i], "1", nil)
		}
		s.publish(lib, "2", withTests)
		s.publish(names[0], "2", plan(0, 0))
		s.publish(names[1], "2", plan(1, 0))
		s.publish(names[2], "1", plan(0, 0))
		s.publish(names[3], "2", plan(1, 10*time.Minute))
		s.pass(time.Minute)
		const waits = ": version 2 of acme/lib is not live yet (rollout.after)"
		where("while it is tested", "2 in step 0"+waits, "2 in step 0"+waits, "1 in step 0"+waits, "2 in step 0"+waits)

		abort := registry.SteerRequest{Write: registry.Write{Name: lib, Author: "ann", By: access.Everybody("test")}, Steering: registry.Abort}
		if _, err := s.Steer(t.Context(), abort); err != nil {
			t.Fatal(err)
		}
		s.pass(10 * time.Minute)
		const failed = ": version 2 of acme/lib was given up (rollout.after)"
		where("when it was given up", "2 in step 0"+failed, "2 in step 0"+failed, "1 in step 0"+failed, "2 failed: no progress in 10m0s"+failed)

		s.change(func() { tested = true })
		s.publish(lib, "3", withTests)
		s.pass(30 * time.Second)
		where("when it is live", "live 2", "2 in step 1: the pause of step 1 goes on", "live 1", "2 failed: no progress in 10m0s"+failed)

		history, err := s.History(t.Context(), access.Everybody("test"), names[0])
		if err != nil {
			t.Error(err)
			return
		}
		if last := history[0]; last.Change != script.ChangePromote || last.Note != "acme/lib is live" {
			t.Errorf("the history ends with %s %q: want why it was promoted", last.Change, last.Note)
		}

		tested = false
		s.publish(lib, "4", withTests)
		s.pass(5 * time.Minute)
		where("when its next version is tested", "live 2", "live 2", "live 1", "2 failed: no progress in 10m0s"+failed)
	})
}
