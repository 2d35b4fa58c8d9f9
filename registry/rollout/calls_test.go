package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// perSecond is so many calls a second of the latency, of which one in so many fails; none if that
// is 0.
func perSecond(calls int, latency time.Duration, oneInFails int, since time.Duration) *script.StepCalls {
	all := uint64(calls) * uint64(since/time.Second)
	c := &script.StepCalls{First: script.LatencyBucket(latency), Buckets: []uint64{all}}
	if oneInFails > 0 {
		c.FailedCalls = all / uint64(oneInFails)
	}
	return c
}

// TestComparedWithTheActiveVersion: a candidate is given up if it does worse than the active
// version in the same step, and only then.
func TestComparedWithTheActiveVersion(t *testing.T) {
	began := []string{"0s live 1", "2s step 0: 0 of 10 run 2", "2s step 1: 1 of 10 run 2"}
	passed := append(began, "1m5s step 2: 5 of 10 run 2", "11m10s live 2")
	for _, tt := range []struct {
		name  string
		calls func(candidate bool, since time.Duration) *script.StepCalls
		story []string
		why   string // as the story goes on
	}{
		{name: "as before", story: passed, calls: func(_ bool, since time.Duration) *script.StepCalls {
			return perSecond(100, time.Millisecond, 20, since)
		}},
		{name: "what both call is down", story: passed, calls: func(_ bool, since time.Duration) *script.StepCalls {
			return perSecond(100, time.Second, 2, since)
		}},
		{name: "it fails more often", story: began, why: "version 1; at most 0.5 percentage points more may (maxErrorIncrease)", calls: func(candidate bool, since time.Duration) *script.StepCalls {
			if candidate {
				return perSecond(100, time.Millisecond, 10, since)
			}
			return perSecond(100, time.Millisecond, 100, since)
		}},
		{name: "it is slower", story: began, why: "step 1 its p99 was 2.1ms, and that of version 1 1.05ms; at most 20 % more is allowed (maxLatencyIncrease)", calls: func(candidate bool, since time.Duration) *script.StepCalls {
			if candidate {
				return perSecond(100, 2*time.Millisecond, 0, since)
			}
			return perSecond(100, time.Millisecond, 0, since)
		}},
		{name: "nobody calls it", story: began, calls: func(candidate bool, since time.Duration) *script.StepCalls {
			if candidate {
				return &script.StepCalls{}
			}
			return perSecond(100, time.Millisecond, 0, since)
		}},
		{name: "nobody calls the active version", story: began, calls: func(candidate bool, since time.Duration) *script.StepCalls {
			if candidate {
				return perSecond(100, time.Millisecond, 0, since)
			}
			return &script.StepCalls{}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, 10, func(s *stage) {
				defer s.conduct()()
				s.publish(route, "1", nil)
				s.pass(2 * time.Second)
				settings := careful()
				settings.Rollout.MaxErrorPercent, settings.Rollout.MinCalls = nil, nil
				settings.Rollout.MaxErrorIncrease, settings.Rollout.MaxLatencyIncrease = new(0.5), script.LatencyIncrease{P99: 20}
				s.change(func() {
					s.stepCalls = tt.calls
					s.calls = func(string) (all, failed uint64) {
						c := tt.calls(true, time.Since(s.releases[route].Candidate.Since))
						return c.Calls(), c.FailedCalls
					}
				})
				s.publish(route, "2", settings)
				s.pass(time.Hour)
				story, _, _ := s.soFar()
				if last := story[len(story)-1]; tt.why != "" {
					if !strings.Contains(last, "failed in step 1") || !strings.HasSuffix(last, tt.why) {
						t.Errorf("the story ends with %q", last)
					}
					story = story[:len(story)-1]
				}
				if got, want := strings.Join(story, "\n "), strings.Join(tt.story, "\n "); got != want {
					t.Errorf("the story is\n %s\nwant\n %s", got, want)
				}
			})
		})
	}
}
