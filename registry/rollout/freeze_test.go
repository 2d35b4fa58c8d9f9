package rollout_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/rollout"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (s *stage) freeze(lasts time.Duration, except ...string) {
	s.t.Helper()
	_, err := s.Freeze(s.t.Context(), registry.FreezeRequest{By: access.Everybody("test"), Author: "ann", Note: "incident 12", Lasts: lasts, Except: except})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) thaw() {
	s.t.Helper()
	if changed, err := s.Thaw(s.t.Context(), access.Everybody("test"), "ann", ""); err != nil || !changed {
		s.t.Fatal(changed, err)
	}
}

func (s *stage) why() string {
	for _, c := range s.fleet.Candidacies() {
		if c.Release.Name == route {
			return rollout.Next(c, time.Now()).Why
		}
	}
	return "there is no candidate"
}

// impatient is careful, with a deadline that is shorter than the freeze of the tests.
func impatient() *script.Settings {
	settings := careful()
	settings.Rollout.ProgressDeadline = 20 * time.Minute
	return settings
}

// TestAFrozenRollout: it stays in its step, for longer than its deadline, under two controllers
// and one that starts meanwhile; and then goes on.
func TestAFrozenRollout(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.publish(route, "one", nil)
		s.pass(time.Second)
		defer s.conduct()()
		stop := s.conduct()
		s.publish(route, "two", impatient())
		s.pass(30 * time.Second)
		s.freeze(0)
		s.pass(30 * time.Minute)
		stop()
		defer s.conduct()()
		s.pass(30 * time.Minute)
		story := []string{"0s live 1", "1s step 0: 0 of 10 run 2", "1s step 1: 1 of 10 run 2"}
		s.want(story...)
		s.thaw()
		s.pass(30 * time.Minute)
		s.want(append(story, "1h0m31s step 2: 5 of 10 run 2", "1h10m35s live 2")...)
	})
}

// TestWhatIsPublishedWhileFrozen: nothing tests or runs it, until the freeze is over by itself.
func TestWhatIsPublishedWhileFrozen(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.publish(route, "one", nil)
		other := script.Name{Tenant: "acme", Script: "other"}
		defer s.conduct()()
		s.freeze(time.Hour, "acme/other")
		s.pass(time.Second)
		s.publish(route, "two", impatient())
		s.publish(other, "of its own", careful())
		s.change(func() {
			s.tests = func(string, *script.Release) (bool, *script.Error) {
				return true, script.Errorf(script.Script, "tests[it works]", "of an agent that knows no freeze")
			}
		})
		s.pass(30 * time.Minute)
		s.change(func() { s.tests = nil })
		s.want("0s live 1", "1s frozen 2", "1s step 0: 10 of 10 run 1", "1s failed n0: tests[it works]: of an agent that knows no freeze")
	})
}

// TestAFrozenCandidateThatFails: it is given up, as ever.
func TestAFrozenCandidateThatFails(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.publish(route, "one", nil)
		defer s.conduct()()
		s.publish(route, "two", careful())
		s.pass(30 * time.Second)
		s.freeze(0)
		s.change(func() { s.calls = func(string) (uint64, uint64) { return 100, 50 } })
		s.pass(time.Minute)
		story, _, _ := s.soFar()
		if last := story[len(story)-1]; !strings.HasPrefix(last, "30s failed 50 of 100 calls failed") {
			t.Errorf("it ends with %s", last)
		}
	})
}

// TestAllGoesOnAfterTheFreeze: with and without tests and steps, without agents even; and a
// status says meanwhile who froze it.
func TestAllGoesOnAfterTheFreeze(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.publish(route, "one", nil)
		s.pass(time.Second)
		defer s.conduct()()
		s.freeze(time.Hour)
		s.publish(route, "two", careful())
		s.pass(time.Minute)
		if want := `the registry is frozen by ann since 2000-01-01 00:00 UTC ("incident 12") until 2000-01-01 01:00 UTC`; s.why() != want || s.waitsFor() != "0 []" {
			t.Errorf("it waits for %s, because %q, want %q", s.waitsFor(), s.why(), want)
		}
		s.pass(time.Hour)
		s.want("0s live 1", "1s frozen 2", "1h0m1s step 0: 0 of 10 run 2", "1h0m1s step 1: 1 of 10 run 2")
		s.freeze(0)
		s.publish(route, "three", &script.Settings{})
		s.lose(func(string) bool { return true })
		s.pass(time.Minute)
		s.thaw()
		s.pass(time.Second)
		story, _, _ := s.soFar()
		if last := story[len(story)-1]; last != "1h2m1s live 3" {
			t.Errorf("it ends with %q: %s", last, s.why())
		}
	})
}

// TestAFreezeBeatsALateController: a move that was decided before the freeze is not made after it,
// and is no error.
func TestAFreezeBeatsALateController(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.publish(route, "one", nil)
		s.pass(time.Second)
		first := true
		s.advance = func(ctx context.Context, req registry.AdvanceRequest) (registry.Result, error) {
			if first && req.Move.Step == 1 {
				first = false
				s.freeze(0)
			}
			return s.Registry.Advance(ctx, req)
		}
		defer s.conduct()()
		s.publish(route, "two", careful())
		s.pass(time.Minute)
		s.want("0s live 1", "1s step 0: 0 of 10 run 2")
		if s.failures > 0 {
			t.Errorf("%d moves failed", s.failures)
		}
		s.thaw()
		s.pass(time.Second)
		s.want("0s live 1", "1s step 0: 0 of 10 run 2", "1m1s step 1: 1 of 10 run 2")
	})
}
