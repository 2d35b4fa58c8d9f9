package rollout_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestStepByStep(t *testing.T) {
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		s.publish(route, "2", careful())
		s.pass(time.Hour)
		s.want("0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2", "1m5s step 2: 5 of 10 run 2", "11m10s live 2")
		if _, moves, _ := s.soFar(); fmt.Sprint(moves) != "[advance advance advance advance promote]" {
			t.Errorf("moves: %s", moves)
		}
		for _, line := range []string{"script=acme/route version=2", "step=1 of=2 percent=10 agents=10", "step=2 of=2", "was promoted"} {
			if !strings.Contains(s.log.String(), line) {
				t.Errorf("the log lacks %q: %s", line, s.log)
			}
		}
		if status := s.fleet.Status(fleet.Filter{Tenant: route.Tenant, Script: route.Script}).Scripts[0]; !status.Converged || status.Rollout == nil || status.Rollout.Slowest > time.Second {
			t.Errorf("it is live: %+v", status)
		}
	})
}

// TestTheFirstVersion has nothing to be rolled out against: it is tested, and live.
func TestTheFirstVersion(t *testing.T) {
	play(t, 3, func(s *stage) {
		defer s.conduct()()
		s.pass(2 * time.Second)
		s.change(func() {
			s.tests = func(agent string, _ *script.Release) (bool, *script.Error) { return agent != "n2", nil }
		})
		s.publish(route, "1", careful())
		s.pass(time.Minute)
		s.want("2s step 0: 3 of 3 run 1") // nothing else could run, and nothing does
		s.change(func() { s.tests = nil })
		s.pass(time.Second)
		s.want("2s step 0: 3 of 3 run 1", "1m2s live 1")
	})
}

// TestGivenUp: one test that fails, one agent, is enough; and so are calls that fail.
func TestGivenUp(t *testing.T) {
	wrong := script.Errorf(script.Script, "tests[it works]", "want 1, got 2")
	for _, tt := range []struct {
		name  string
		story []string
		when  func(s *stage) // once it is in its first step
	}{
		{"calls", []string{"6s failed 2 of 20 calls failed (10 %), at most 5 % may"}, func(s *stage) {
			s.calls = func(string) (uint64, uint64) { return 20, 2 }
		}},
		{"one that joined", []string{"6s failed late: tests[it works]: want 1, got 2"}, func(s *stage) {
			s.agents = append(s.agents, "late")
			s.tests = func(agent string, _ *script.Release) (bool, *script.Error) {
				if agent == "late" {
					return true, wrong
				}
				return true, nil
			}
		}},
		{"few calls", nil, func(s *stage) { s.calls = func(string) (uint64, uint64) { return 19, 19 } }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, 10, func(s *stage) {
				defer s.conduct()()
				s.publish(route, "1", nil)
				s.pass(2 * time.Second)
				s.publish(route, "2", careful())
				s.pass(4 * time.Second)
				s.change(func() { tt.when(s) })
				s.pass(30 * time.Second)
				s.want(append([]string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2"}, tt.story...)...)
			})
		})
	}
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.change(func() {
			s.tests = func(agent string, _ *script.Release) (bool, *script.Error) {
				if agent == "n7" {
					return true, wrong
				}
				return false, nil
			}
		})
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		failed := s.publish(route, "2", careful())
		s.pass(time.Hour)
		s.want("0s live 1", "2s step 0: 0 of 10 run 2", "2s failed n7: tests[it works]: want 1, got 2")
		if !strings.Contains(s.log.String(), `level=WARN msg="a candidate was given up`) {
			t.Errorf("the log lacks a warning: %s", s.log)
		}
		status := s.fleet.Status(fleet.Filter{Tenant: route.Tenant, Script: route.Script}).Scripts[0]
		if status.Converged || status.Failed != 1 || status.Failures[0].Agent != "n7" || status.Trials == nil || status.Trials.Failed != 1 {
			t.Errorf("%+v", status)
		}
		// A newer one is another one: what was said of the old one does not count.
		s.change(func() { s.tests = nil })
		fixed := s.publish(route, "3", nil)
		s.pass(time.Hour)
		if story, _, _ := s.soFar(); len(story) != 7 || story[6] != "1h11m10s live 3" || fixed.Candidate.Attempt <= failed.Candidate.Attempt {
			t.Errorf("story: %q", story)
		}
	})
}

// TestAgentsThatComeAndGo: who joins is waited for, and who leaves is not.
func TestAgentsThatComeAndGo(t *testing.T) {
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		s.publish(route, "2", careful())
		s.pass(4 * time.Second)
		s.change(func() {
			s.agents = append(s.agents, "slow")
			s.tests = func(agent string, _ *script.Release) (bool, *script.Error) { return agent != "slow", nil }
		})
		s.pass(time.Hour)
		want := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2"}
		s.want(want...)
		s.change(func() { s.agents = s.agents[:10] }) // and nobody hears of slow again
		s.pass(14 * time.Second)
		s.want(want...)
		s.pass(time.Hour)
		s.want(append(want, "1h0m20s step 2: 5 of 10 run 2", "1h10m25s live 2")...)
	})
}

// TestTakeover: another controller goes on in time, and two of them do no harm.
func TestTakeover(t *testing.T) {
	play(t, 10, func(s *stage) {
		stop := s.conduct()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		s.publish(route, "2", careful())
		s.pass(30 * time.Second)
		stop()
		defer s.conduct()()
		defer s.conduct()()
		s.pass(time.Hour)
		s.want("0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2", "1m5s step 2: 5 of 10 run 2", "11m10s live 2")
		if _, moves, _ := s.soFar(); len(moves) != 5 || strings.Contains(s.log.String(), "WARN") {
			t.Errorf("moves: %v, log: %s", moves, s.log)
		}
	})
}

// TestWhileTheStoreFails moves are tried again, less and less often, and then made.
func TestWhileTheStoreFails(t *testing.T) {
	for kind, level := range map[script.Kind]string{script.Unavailable: "WARN", script.Internal: "ERROR", script.Invalid: "ERROR", script.Denied: "ERROR"} {
		t.Run(string(kind), func(t *testing.T) { whileItFails(t, kind, level) })
	}
}

func whileItFails(t *testing.T, kind script.Kind, level string) {
	t.Helper()
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		tries, fails := 0, true
		s.advance = func(ctx context.Context, req registry.AdvanceRequest) (registry.Result, error) {
			s.mu.Lock()
			tries++
			fail := fails
			s.mu.Unlock()
			if fail {
				return registry.Result{}, script.Errorf(kind, "", "etcd does not answer")
			}
			return s.Registry.Advance(ctx, req)
		}
		s.pass(2 * time.Second)
		s.publish(route, "2", careful())
		s.pass(10 * time.Minute)
		tried := 0
		failures := 0
		s.change(func() { tried, failures = tries, s.failures })
		if tried < 20 || tried > 60 || failures != tried {
			t.Errorf("%d tries in ten minutes, and Moved got %d failures", tried, failures)
		}
		if n := strings.Count(s.log.String(), "level="+level); n != tried || !strings.Contains(s.log.String(), "scriptctl rollout") {
			t.Errorf("%d lines of %d tries: %s", n, tried, s.log)
		}
		s.change(func() { fails = false })
		s.pass(time.Hour)
		if story, _, _ := s.soFar(); len(story) != 5 || !strings.HasSuffix(story[4], "live 2") {
			t.Errorf("story: %q", story)
		}
	})
}

// TestASlowScript does not hold others, and not too many are moved at a time.
func TestASlowScript(t *testing.T) {
	play(t, 2, func(s *stage) {
		defer s.conduct()()
		slow := script.Name{Tenant: "acme", Script: "slow"}
		now, peak := 0, 0
		s.advance = func(ctx context.Context, req registry.AdvanceRequest) (registry.Result, error) {
			s.mu.Lock()
			now++
			peak = max(peak, now)
			s.mu.Unlock()
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				now--
			}()
			if req.Name == slow {
				<-ctx.Done()
				return registry.Result{}, ctx.Err()
			}
			select { // it takes a moment
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
			return s.Registry.Advance(ctx, req)
		}
		s.pass(2 * time.Second)
		tested := &script.Settings{Spec: script.Spec{Tests: careful().Tests}}
		s.publish(slow, "1", tested)
		s.pass(time.Second)
		for i := range 200 {
			s.publish(script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, "1", tested)
		}
		s.pass(2 * time.Second)
		most := 0
		s.change(func() { most = peak })
		if n := s.fleet.CandidateCounts(); n != (fleet.CandidateCounts{Testing: 1, Longest: 3 * time.Second}) || most < 2 || most > 16 {
			t.Errorf("%+v after two seconds, and %d at a time", n, most)
		}
	})
}

// TestNothingIsPolled: while nothing happens nobody looks, however long a pause is.
func TestNothingIsPolled(t *testing.T) {
	play(t, 10, func(s *stage) {
		defer s.conduct()()
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
		settings := careful()
		settings.Rollout.Steps[0].Pause = 3 * time.Hour
		s.publish(route, "2", settings)
		s.pass(time.Minute)
		_, _, before := s.soFar()
		s.pass(2 * time.Hour)
		if _, _, looks := s.soFar(); looks > before {
			t.Errorf("%d looks in two hours", looks-before)
		}
		s.pass(time.Hour + 20*time.Minute)
		story, _, looks := s.soFar()
		if got, want := story[len(story)-2], "3h0m5s step 2: 5 of 10 run 2"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if looks-before > 20 {
			t.Errorf("%d looks for three moves", looks-before)
		}
	})
}
