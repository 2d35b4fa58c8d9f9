package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// approve lets the candidate of the script go on.
func (s *stage) approve(name script.Name) {
	s.t.Helper()
	_, err := s.Steer(s.t.Context(), registry.SteerRequest{Write: registry.Write{Name: name, Author: "ann", By: access.Everybody("test")}, Steering: registry.Approve})
	if err != nil {
		s.t.Fatal(err)
	}
}

// pausing is a plan whose second step nobody can run until an agent has the label zone=c.
func pausing() *script.Settings {
	settings := byZone(script.Step{Selector: "zone=a"}, script.Step{Selector: "zone=c"})
	settings.Rollout.ProgressDeadline, settings.Rollout.OnDeadline = 10*time.Minute, script.PauseOnDeadline
	return settings
}

// TestAPause: a candidate that is paused stays in its step, also if what it waited for comes. A person
// lets it go on; the deadline counts anew from then.
func TestAPause(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.change(func() { s.divide(4) })
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		s.publish(route, "2", pausing())
		s.pass(30 * time.Minute)
		began := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 4 of 10 run 2"}
		s.want(began...)
		const because = "no progress in 10m0s: no connected agent has the labels zone=c"
		if c := s.release(route).Candidate; c.Paused != because {
			t.Fatalf("the candidate is paused: %q", c.Paused)
		}
		if why := s.why(); why != "paused, "+because+": scriptctl rollout approve acme/route lets it go on" {
			t.Errorf("it waits: %s", why)
		}
		s.approve(route)
		s.pass(9 * time.Minute)
		if c := s.release(route).Candidate; c.Paused != "" {
			t.Errorf("after nine minutes it is paused again: %s", c.Paused)
		}
		s.pass(2 * time.Minute)
		if c := s.release(route).Candidate; c.Paused != because {
			t.Errorf("after eleven minutes it is paused: %q", c.Paused)
		}
		s.change(func() {
			s.agents = append(slices.Clone(s.agents), "late")
			s.zones["late"] = "c"
		})
		s.pass(time.Hour)
		s.want(began...)
		s.approve(route)
		s.pass(time.Minute)
		story, _, _ := s.soFar()
		if last := story[len(story)-1]; !strings.HasSuffix(last, " step 2: 5 of 11 run 2") && !strings.HasSuffix(last, " live 2") {
			t.Errorf("it ends with %s", last)
		}
	})
}

// TestAPauseOfAChangeSet: all scripts stay in their step while one of them is paused, and the approval of
// any that is paused lets all of them go on.
func TestAPauseOfAChangeSet(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.change(func() { s.divide(4) })
		defer s.conduct()()
		s.live(route, lib)
		plan := pausing().Rollout
		s.publishSet(set(&plan, "2", route, lib))
		s.pass(30 * time.Minute)
		for _, name := range []script.Name{route, lib} {
			if c := s.release(name).Candidate; c == nil || c.Paused == "" || c.Step != 1 {
				t.Fatalf("the candidate of %s is %+v", name, c)
			}
		}
		s.change(func() {
			s.agents = append(slices.Clone(s.agents), "late")
			s.zones["late"] = "c"
		})
		s.approve(lib)
		s.pass(20 * time.Minute)
		for _, name := range []script.Name{route, lib} {
			if r := s.release(name); r.Active.Number != 2 {
				t.Errorf("%s runs version %d, and its candidate is %+v", name, r.Active.Number, r.Candidate)
			}
		}
	})
}

// TestOneScriptOfAChangeSetIsPaused: whichever script somebody approves, all of the change set goes on. A step
// that needs an approval has it for all scripts.
func TestOneScriptOfAChangeSetIsPaused(t *testing.T) {
	fresh := script.Name{Tenant: "acme", Script: "fresh"} // which takes no steps
	for _, approval := range []bool{false, true} {
		for _, paused := range []script.Name{route, lib, fresh} {
			for _, approved := range []script.Name{route, lib, fresh} {
				if approval && approved == fresh && paused != fresh {
					continue // it is in no step
				}
				t.Run(fmt.Sprintf("%s is paused and %s approved, approval %v", paused.Script, approved.Script, approval), func(t *testing.T) {
					play(t, 10, func(s *stage) {
						defer s.conduct()()
						s.live(route, lib)
						plan := &script.Plan{Steps: []script.Step{{Percent: 10, Pause: time.Minute, Approval: approval}}, ProgressDeadline: time.Hour, OnDeadline: script.PauseOnDeadline}
						s.publishSet(set(plan, "2", route, lib, fresh))
						s.pass(30 * time.Second)
						if _, err := s.Registry.Advance(s.t.Context(), registry.AdvanceRequest{Name: paused, At: s.release(paused).Revision, Move: registry.Move{Paused: "no progress"}}); err != nil {
							t.Fatal(err)
						}
						s.pass(5 * time.Minute)
						s.approve(approved)
						s.pass(5 * time.Minute)
						want := "route live 2; lib live 2; fresh live 1; flags 2 2; Live"
						if approval && approved == fresh {
							want = "route 2 in step 1: step 1 needs an approval: scriptctl rollout approve acme/route; lib 2 in step 1: step 1 needs an approval: scriptctl rollout approve acme/lib; fresh 1 in step 0: ; flags old 1; OnTrial"
						}
						s.wantWhere("at the end", want, route, lib, fresh)
					})
				})
			}
		}
	}
}
