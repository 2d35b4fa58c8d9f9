package rollout_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/gate"
	"github.com/scriptorium-dev/scriptorium/registry/rollout"
	"github.com/scriptorium-dev/scriptorium/script"
)

// outside is a system that gates ask. It lets each tenant use each source.
type outside struct {
	mu     sync.Mutex
	answer func(ctx context.Context, q gate.Question) gate.Answer
	asked  []time.Time
	passed []passed
}

// passed is an answer that lets a candidate pass.
type passed struct {
	attempt uint64
	step    int
	asked   time.Time
}

// says has all gates answer so.
func (o *outside) says(r fleet.GateResult, text string) {
	o.set(func(context.Context, gate.Question) gate.Answer { return gate.Answer{Result: r, Text: text} })
}

func (o *outside) set(answer func(context.Context, gate.Question) gate.Answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = answer
}

func (o *outside) Check(string, string, script.Gate) error { return nil }
func (o *outside) Key(q gate.Question) any                 { return q.Gate.String() }

func (o *outside) Ask(ctx context.Context, q gate.Question) gate.Answer {
	o.mu.Lock()
	answer, now := o.answer, time.Now()
	o.asked = append(o.asked, now)
	o.mu.Unlock()
	a := answer(ctx, q)
	o.mu.Lock()
	defer o.mu.Unlock()
	if a.Result == fleet.GatePasses {
		o.passed = append(o.passed, passed{q.Attempt, q.Step, now})
	}
	return a
}

// times returns when gates were asked.
func (o *outside) times() []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.asked)
}

// guarded is careful, with a gate at the first step.
func guarded() *script.Settings {
	settings := careful()
	settings.Rollout.Steps[0].Gate = script.Gate{Kind: script.Webhook, Source: "ci"}
	return settings
}

// toTheGate has version 2 wait for nothing but the gate of its first step, 1m5s after the stage began.
func (s *stage) toTheGate(settings *script.Settings) {
	s.publish(route, "1", nil)
	s.pass(2 * time.Second)
	s.publish(route, "2", settings)
	s.pass(58 * time.Second)
	if n := len(s.outside.times()); n > 0 {
		s.t.Errorf("the gate was asked %d times before all else had passed", n)
	}
	s.pass(10 * time.Second)
}

var atTheGate = []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2"}

// TestAGate: it is asked when all else has passed, and then again and again until it passes. What it
// said is the evidence of the step.
func TestAGate(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.outside.says(fleet.GateWaits, "the value is 0.031, want at most 0.01")
		defer s.conduct()()
		s.toTheGate(guarded())
		if want := "gate webhook/ci: the value is 0.031, want at most 0.01"; s.why() != want {
			t.Errorf("it waits: %s, want %s", s.why(), want)
		}
		s.pass(time.Hour)
		s.want(atTheGate...)
		asked := s.outside.times()
		if n := len(asked); n < 300 || n > 450 {
			t.Errorf("asked %d times in an hour", n)
		}
		for i := 1; i < len(asked); i++ {
			if apart := asked[i].Sub(asked[i-1]); apart < 8*time.Second || apart > 13*time.Second {
				t.Fatalf("two questions are %v apart", apart)
			}
		}
		s.outside.says(fleet.GatePasses, "the value is 0.004, want at most 0.01")
		s.pass(15 * time.Second)
		story, _, _ := s.soFar()
		if last := story[len(story)-1]; !strings.Contains(last, "step 2: 5 of 10 run 2") {
			t.Errorf("it ends with %s", last)
		}
		n := len(s.outside.times())
		s.pass(time.Hour)
		if more := len(s.outside.times()) - n; more > 0 {
			t.Errorf("asked %d times more", more)
		}
		history, err := s.History(t.Context(), access.Everybody("test"), route)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(history, func(e script.HistoryEntry) bool {
			return strings.Contains(e.Note, "step 2 of 2") && strings.HasSuffix(e.Note, "gate webhook/ci: the value is 0.004, want at most 0.01")
		}) {
			t.Errorf("the history lacks what the gate said: %+v", history)
		}
	})
}

// TestAGateThatDoesNotAnswer: it is asked less and less often, and does not pass; the deadline ends
// that.
func TestAGateThatDoesNotAnswer(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.outside.says(fleet.GateFails, "it does not answer within 10s")
		defer s.conduct()()
		settings := guarded()
		settings.Rollout.ProgressDeadline = 20 * time.Minute
		s.toTheGate(settings)
		s.pass(time.Hour)
		if n := len(s.outside.times()); n < 18 || n > 35 {
			t.Errorf("asked %d times in 20 minutes", n)
		}
		s.want(append(slices.Clone(atTheGate), "21m2s failed no progress in 20m0s: gate webhook/ci: it does not answer within 10s")...)
	})
}

func TestAGateThatAborts(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.outside.says(fleet.GateAborts, "carts are lost")
		defer s.conduct()()
		s.toTheGate(guarded())
		s.want(append(slices.Clone(atTheGate), "1m5s failed gate webhook/ci: carts are lost")...)
	})
}

// TestAGateAndAnApproval: both are needed, and nobody outside is asked before somebody has approved.
func TestAGateAndAnApproval(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.outside.says(fleet.GatePasses, "fine")
		defer s.conduct()()
		settings := guarded()
		settings.Rollout.Steps[0].Approval = true
		s.toTheGate(settings)
		s.pass(time.Hour)
		s.want(atTheGate...)
		if n := len(s.outside.times()); n > 0 {
			t.Errorf("asked %d times", n)
		}
		_, err := s.Steer(t.Context(), registry.SteerRequest{Write: registry.Write{Name: route, Author: "ann", By: access.Everybody("test")}, Steering: registry.Approve, Step: 1})
		if err != nil {
			t.Fatal(err)
		}
		s.pass(10 * time.Second)
		story, _, _ := s.soFar()
		if last := story[len(story)-1]; !strings.Contains(last, "step 2: 5 of 10 run 2") || len(s.outside.times()) != 1 {
			t.Errorf("asked %d times, and it ends with %s", len(s.outside.times()), last)
		}
	})
}

// TestAGateWhileFrozen: nobody is asked, and what was said before the freeze does not count after it.
func TestAGateWhileFrozen(t *testing.T) {
	play(t, 10, func(s *stage) {
		answers := make(chan gate.Answer)
		s.outside.set(func(context.Context, gate.Question) gate.Answer { return <-answers })
		defer s.conduct()()
		s.toTheGate(guarded())
		s.freeze(0)
		s.pass(time.Second)
		answers <- gate.Answer{Result: fleet.GatePasses, Text: "fine"} // it was on its way
		s.pass(time.Hour)
		s.want(atTheGate...)
		if n := len(s.outside.times()); n != 1 {
			t.Errorf("asked %d times", n)
		}
		s.outside.says(fleet.GateWaits, "not now")
		s.thaw()
		s.pass(time.Minute)
		s.want(atTheGate...)
		s.outside.says(fleet.GatePasses, "fine")
		s.pass(15 * time.Second)
		if story, _, _ := s.soFar(); !strings.Contains(story[len(story)-1], "step 2") {
			t.Errorf("it ends with %s", story[len(story)-1])
		}
	})
}

// TestALateAnswer: one of an attempt that is over counts for nothing in the next, or for another
// version.
func TestALateAnswer(t *testing.T) {
	for name, again := range map[string]func(s *stage){
		"a retry": func(s *stage) {
			if _, err := s.Steer(s.t.Context(), registry.SteerRequest{Write: registry.Write{Name: route, Author: "ann", By: access.Everybody("test")}, Steering: registry.Retry}); err != nil {
				s.t.Fatal(err)
			}
		},
		"another version": func(s *stage) { s.publish(route, "3", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 10, func(s *stage) {
				late := make(chan struct{})
				s.outside.set(func(context.Context, gate.Question) gate.Answer {
					<-late // whatever the caller wants
					return gate.Answer{Result: fleet.GatePasses, Text: "fine"}
				})
				defer s.conduct()()
				s.toTheGate(guarded())
				s.outside.says(fleet.GateWaits, "not now")
				again(s)
				s.pass(2 * time.Minute)
				close(late)
				s.pass(time.Hour)
				story, _, _ := s.soFar()
				if last := story[len(story)-1]; !strings.Contains(last, "step 1: 1 of 10") {
					t.Errorf("it ends with %s", last)
				}
				if want := "gate webhook/ci: not now"; s.why() != want {
					t.Errorf("it waits: %s, want %s", s.why(), want)
				}
			})
		})
	}
}

// TestAnAbortWhileAGateIsAsked: the request ends, and its answer changes nothing.
func TestAnAbortWhileAGateIsAsked(t *testing.T) {
	play(t, 10, func(s *stage) {
		ended := false
		s.outside.set(func(ctx context.Context, _ gate.Question) gate.Answer {
			<-ctx.Done()
			ended = true
			return gate.Answer{Result: fleet.GatePasses, Text: "fine"}
		})
		defer s.conduct()()
		s.toTheGate(guarded())
		if _, err := s.Steer(t.Context(), registry.SteerRequest{Write: registry.Write{Name: route, Author: "ann", By: access.Everybody("test")}, Steering: registry.Abort}); err != nil {
			t.Fatal(err)
		}
		s.pass(time.Hour)
		s.want(append(slices.Clone(atTheGate), "1m10s failed aborted by ann")...)
		if !ended {
			t.Error("the request goes on")
		}
	})
}

// TestGatesUnderTwoLeaders: both ask, and each step is taken once.
func TestGatesUnderTwoLeaders(t *testing.T) {
	play(t, 10, func(s *stage) {
		s.outside.says(fleet.GatePasses, "fine")
		defer s.conduct()()
		defer s.conduct()()
		s.toTheGate(guarded())
		s.pass(time.Hour)
		s.want(append(slices.Clone(atTheGate), "1m5s step 2: 5 of 10 run 2", "11m10s live 2")...)
		if _, moves, _ := s.soFar(); len(moves) != 5 || strings.Contains(s.log.String(), "WARN") {
			t.Errorf("moves: %v, log: %s", moves, s.log)
		}
	})
}

// TestGatesUnderManyLeaders: whenever one ends and another begins, whatever the gate says meanwhile,
// a step is taken only by a pass for its attempt, which is fresh.
func TestGatesUnderManyLeaders(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range 40 {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		t.Run(fmt.Sprintf("%d of seed %d", n, seed), func(t *testing.T) {
			play(t, 4, func(s *stage) { takeTurns(s, random) })
		})
	}
}

// takeTurns has leaders come and go while version 2 is on its way.
func takeTurns(s *stage, random *rand.Rand) {
	var mu sync.Mutex
	s.outside.set(func(ctx context.Context, _ gate.Question) gate.Answer {
		mu.Lock()
		takes, result := time.Duration(random.Int64N(int64(10*time.Second))), []fleet.GateResult{fleet.GatePasses, fleet.GateWaits, fleet.GateWaits, fleet.GateFails}[random.IntN(4)]
		mu.Unlock()
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return gate.Answer{Result: fleet.GateFails}
		}
		return gate.Answer{Result: result, Text: "so"}
	})
	settings := guarded()
	settings.Rollout.Steps[1].Gate = settings.Rollout.Steps[0].Gate
	settings.Rollout.Steps[1].Pause = time.Minute
	s.publish(route, "1", nil)
	s.pass(2 * time.Second)
	s.publish(route, "2", settings)
	for range 200 {
		mu.Lock()
		leads, both, pause := time.Duration(random.Int64N(int64(10*time.Second))), random.IntN(3) == 0, time.Duration(random.Int64N(int64(2*time.Second)))
		mu.Unlock()
		stop := s.conduct()
		if both {
			other := s.conduct()
			s.pass(leads / 2)
			other()
		}
		s.pass(leads)
		stop()
		s.pass(pause)
	}
	s.wantGated()
	story, _, _ := s.soFar()
	if last := story[len(story)-1]; !strings.HasSuffix(last, "live 2") {
		s.t.Errorf("after a quarter of an hour: %s", strings.Join(story, "\n "))
	}
}

// wantGated wants a pass, of at most half a minute before, for each step that was taken.
func (s *stage) wantGated() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, taken := range s.taken {
		fresh := slices.ContainsFunc(s.outside.passed, func(p passed) bool {
			return p.attempt == taken.attempt && p.step == taken.step && !p.asked.After(taken.asked) && taken.asked.Sub(p.asked) <= 31*time.Second
		})
		if !fresh {
			s.t.Errorf("step %d of attempt %d passed at %v without its gate, which passed %+v", taken.step, taken.attempt, taken.asked.Sub(s.began), s.outside.passed)
		}
	}
}

// TestGateAnswers: which answers count for a candidate in its first step.
func TestGateAnswers(t *testing.T) {
	over := noon.Add(time.Minute)
	for name, tt := range map[string]struct {
		answer *fleet.GateAnswer
		want   registry.Move
		ask    bool
	}{
		"none":                        {nil, registry.Move{}, true},
		"a pass":                      {&fleet.GateAnswer{Result: fleet.GatePasses}, registry.Move{Step: 2}, false},
		"a pass that is not fresh":    {&fleet.GateAnswer{Result: fleet.GatePasses, At: over.Add(-30 * time.Second)}, registry.Move{}, true},
		"a pass of the future":        {&fleet.GateAnswer{Result: fleet.GatePasses, At: over.Add(time.Second)}, registry.Move{}, true},
		"a pass of another step":      {&fleet.GateAnswer{Result: fleet.GatePasses, Step: 2}, registry.Move{}, true},
		"a pass of another attempt":   {&fleet.GateAnswer{Result: fleet.GatePasses, Attempt: 10}, registry.Move{}, true},
		"a pass to another replica":   {&fleet.GateAnswer{Result: fleet.GatePasses, Remembered: true}, registry.Move{}, true},
		"a pass of another kind":      {&fleet.GateAnswer{Result: "Pass"}, registry.Move{}, true},
		"nothing":                     {&fleet.GateAnswer{}, registry.Move{}, true},
		"not yet":                     {&fleet.GateAnswer{Result: fleet.GateWaits, Text: "no"}, registry.Move{}, true},
		"an error":                    {&fleet.GateAnswer{Result: fleet.GateFails, Text: "no"}, registry.Move{}, true},
		"an abort":                    {&fleet.GateAnswer{Result: fleet.GateAborts, Text: "no"}, registry.Move{Failed: "gate webhook/ci: no"}, false},
		"an abort of another attempt": {&fleet.GateAnswer{Result: fleet.GateAborts, Attempt: 12}, registry.Move{}, true},
		"an abort to another replica": {&fleet.GateAnswer{Result: fleet.GateAborts, Remembered: true}, registry.Move{}, true},
	} {
		c := candidacy()
		c.Release.Settings.Rollout.Steps[0].Gate = script.Gate{Kind: script.Webhook, Source: "ci"}
		if c.Gate = tt.answer; c.Gate != nil {
			c.Gate.Attempt, c.Gate.Step = cmp.Or(c.Gate.Attempt, 11), cmp.Or(c.Gate.Step, 1)
			if c.Gate.At.IsZero() {
				c.Gate.At = over.Add(-time.Second)
			}
		}
		if got := rollout.Next(c, over); got.Move != tt.want || got.Ask != tt.ask {
			t.Errorf("%s: %+v, want the move %+v, and to ask: %v", name, got, tt.want, tt.ask)
		}
		if got := rollout.Next(c, over.Add(-1)); got.Move != (registry.Move{}) || got.Ask {
			t.Errorf("%s, in the pause: %+v", name, got)
		}
		freezing(script.Freeze{})(&c)
		if got := rollout.Next(c, over); got.Move.Step > 0 || got.Ask {
			t.Errorf("%s, while frozen: %+v", name, got)
		}
	}
}
