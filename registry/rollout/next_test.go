package rollout_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/rollout"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	route = script.Name{Tenant: "acme", Script: "route"}
	noon  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
)

// candidacy is of version 2, which has passed its tests on all of ten agents and begun
// the first of two steps at noon.
func candidacy() fleet.Candidacy {
	active, next := script.Version{Number: 1}, script.Version{Number: 2}
	return fleet.Candidacy{
		Release: script.Release{
			Name: route, Revision: 20, Active: active, Latest: 2, Enabled: true, Retained: []script.Version{active, next},
			Candidate: &script.Candidate{Version: next, Spec: script.Spec{Tests: []script.Test{{Name: "it works"}}}, Attempt: 11, Step: 1, Threshold: 1 << 30, Percent: 25, Since: noon, Running: noon},
			Settings: script.Settings{
				Rollout: script.Plan{Steps: []script.Step{{Percent: 25, Pause: time.Minute}, {Percent: 50}}, MaxErrorPercent: new(5.0), MinCalls: new(0)},
			},
		},
		Known: 10, Followers: 10, Activated: 10, Passed: 10, Members: 3, Running: 3, Confirmed: 3,
	}
}

// freezing has the registry be frozen as f says, since noon.
func freezing(f script.Freeze) func(*fleet.Candidacy) {
	return func(c *fleet.Candidacy) {
		c.Freeze = f
		c.Freeze.Revision, c.Freeze.Author, c.Freeze.Since = 30, "ann", noon
		if f.ChangedAt.IsZero() {
			c.Freeze.ChangedAt = noon
		}
	}
}

// waiting has the candidate be one that was published meanwhile.
func waiting(c *fleet.Candidacy) {
	c.Release.Candidate = &script.Candidate{Version: c.Release.Candidate.Version, Attempt: 11, Since: noon, Frozen: "by ann"}
}

// alike has all agents that are heard run the candidate in the last step of a plan that compares.
func alike(c *fleet.Candidacy) {
	plan := &c.Release.Settings.Rollout
	plan.MaxErrorPercent, plan.MinCalls, plan.MaxErrorIncrease = nil, nil, new(1.0)
	c.Release.Candidate.Step = 2
	c.Followers, c.Activated, c.Passed, c.Members, c.Running, c.Confirmed = 5, 5, 5, 5, 5, 5
	c.Calls, c.Compared = 100, &fleet.Comparison{Candidate: fleet.Tally{Calls: 100}}
}

// deadline is a minute, and late has none of the agents run the candidate.
func deadline(c *fleet.Candidacy) { c.Release.Settings.Rollout.ProgressDeadline = time.Minute }

// pauses has a plan that pauses after an hour, and isPaused a candidate that is paused.
func pauses(c *fleet.Candidacy) {
	c.Release.Settings.Rollout.ProgressDeadline, c.Release.Settings.Rollout.OnDeadline = time.Hour, script.PauseOnDeadline
}

func isPaused(c *fleet.Candidacy) { c.Release.Candidate.Paused = "no progress in 1h0m0s: x" }

func late(c *fleet.Candidacy) { c.Running, c.Release.Candidate.Running = 0, time.Time{} }

func also(changes ...func(*fleet.Candidacy)) func(*fleet.Candidacy) {
	return func(c *fleet.Candidacy) {
		for _, change := range changes {
			change(c)
		}
	}
}

func TestNext(t *testing.T) {
	step := func(n int) registry.Move { return registry.Move{Step: n} }
	failed := func(why string) registry.Move { return registry.Move{Failed: why} }
	wait, promote := registry.Move{}, registry.Move{Promote: true}
	over := noon.Add(time.Minute)
	for _, tt := range []struct {
		name   string
		change func(*fleet.Candidacy)
		now    time.Time
		want   registry.Move
		until  time.Time
	}{
		{"the pause goes on", func(*fleet.Candidacy) {}, over.Add(-1), wait, over},
		{"the pause is over", func(*fleet.Candidacy) {}, over, step(2), time.Time{}},
		{"frozen", freezing(script.Freeze{}), over, wait, time.Time{}},
		{"frozen for an hour", freezing(script.Freeze{Until: over.Add(time.Hour)}), over, wait, over.Add(time.Hour)},
		{"frozen for an hour, in the pause", freezing(script.Freeze{Until: over.Add(time.Hour)}), noon, wait, over},
		{"frozen, but for it", freezing(script.Freeze{Except: []string{"acme/r*"}}), over, step(2), time.Time{}},
		{"frozen until now", freezing(script.Freeze{Until: over}), over, step(2), time.Time{}},
		{"thawed", freezing(script.Freeze{Lifted: true}), over, step(2), time.Time{}},
		{"a freeze that cannot be read", freezing(script.Freeze{Unreadable: "garbage", Except: []string{"*"}}), over, wait, time.Time{}},
		{"frozen, and it would be promoted", also(freezing(script.Freeze{}), func(c *fleet.Candidacy) { c.Release.Candidate.Step = 2 }), over, wait, time.Time{}},
		{"frozen, and it fails", also(freezing(script.Freeze{}), func(c *fleet.Candidacy) {
			c.Failure = &fleet.AgentFailure{Agent: "n1", Err: script.Errorf(script.Script, "", "no")}
		}), over, failed("n1: no"), time.Time{}},
		{"frozen, and an agent is lost", also(freezing(script.Freeze{}), func(c *fleet.Candidacy) {
			c.Lost, c.Release.Settings.Rollout.FailureLimit = []string{"n1"}, script.Amount{Count: 2}
		}), over, registry.Move{Lost: "n1"}, time.Time{}},
		{"frozen for longer than the deadline", also(freezing(script.Freeze{}), deadline), over.Add(time.Hour), wait, time.Time{}},
		{"frozen until just now, for longer than the deadline", also(freezing(script.Freeze{Until: over.Add(time.Hour)}), deadline, late), over.Add(time.Hour), wait, over.Add(time.Hour + time.Minute)},
		{"thawed just now, after longer than the deadline", also(freezing(script.Freeze{Lifted: true, ChangedAt: over.Add(time.Hour)}), deadline, late), over.Add(time.Hour), wait, over.Add(time.Hour + time.Minute)},
		{"thawed for longer than the deadline", also(freezing(script.Freeze{Lifted: true, ChangedAt: over.Add(time.Hour)}), deadline, late), over.Add(time.Hour + time.Minute), failed("no progress in 1m0s: 0 of the 3 agents of step 1 run it, and 3 must"), time.Time{}},
		{"it waits, frozen", also(freezing(script.Freeze{}), waiting), over, wait, time.Time{}},
		{"it waits, frozen, and agents say that it fails", also(freezing(script.Freeze{}), waiting, func(c *fleet.Candidacy) {
			c.Failure = &fleet.AgentFailure{Agent: "n1", Err: script.Errorf(script.Script, "", "no")}
		}), over, wait, time.Time{}},
		{"it waits, thawed", also(freezing(script.Freeze{Lifted: true}), waiting), over, registry.Move{Begin: true}, time.Time{}},
		{"it waits, thawed, and nobody is there", also(waiting, func(c *fleet.Candidacy) { c.Gathering, c.Followers, c.Known = true, 0, 0 }), over, registry.Move{Begin: true}, time.Time{}},
		{"the clock went back", func(*fleet.Candidacy) {}, noon.Add(-time.Hour), wait, over},
		{"before the first step", func(c *fleet.Candidacy) { c.Release.Candidate.Step = 0 }, noon, step(1), time.Time{}},
		{"after the last step", func(c *fleet.Candidacy) { c.Release.Candidate.Step = 2 }, over, promote, time.Time{}},
		{"a step that is too short to hear of calls", func(c *fleet.Candidacy) { c.Release.Candidate.Step = 2 }, noon, wait, noon.Add(10 * time.Second)},
		{"a step that is short, and nobody looks at calls", func(c *fleet.Candidacy) {
			c.Release.Candidate.Step, c.Release.Settings.Rollout.MaxErrorPercent = 2, nil
		}, noon, promote, time.Time{}},
		{"those that ran it have left", func(c *fleet.Candidacy) { c.Members, c.Running = 0, 0 }, noon, failed("no agent of step 1 is left: they have left the fleet, or do not follow the script any more"), time.Time{}},
		{"one of them is lost", func(c *fleet.Candidacy) { c.Members, c.Running, c.Lost = 2, 2, []string{"n1"} }, noon, failed("n1: ended, lost the tenant's process, or not heard any more, while it was to run version 2 (failureLimit 1)"), time.Time{}},
		{"one is lost in its tests", func(c *fleet.Candidacy) { c.Release.Candidate.Step, c.Lost = 0, []string{"n1"} }, noon, failed("n1: ended, lost the tenant's process, or not heard any more, while it tested version 2 (failureLimit 1)"), time.Time{}},
		{"one is lost, and two may not be", func(c *fleet.Candidacy) {
			c.Lost, c.Release.Settings.Rollout.FailureLimit = []string{"n1"}, script.Amount{Count: 2}
		}, noon, registry.Move{Lost: "n1"}, time.Time{}},
		{"one is lost, and it is known", func(c *fleet.Candidacy) {
			c.Members, c.Running, c.Confirmed = 2, 2, 2
			c.Lost, c.Release.Candidate.Lost, c.Release.Settings.Rollout.FailureLimit = []string{"n1"}, []string{"n1"}, script.Amount{Count: 2}
		}, over, step(2), time.Time{}},
		{"two are lost, and two may not be", func(c *fleet.Candidacy) {
			c.Lost, c.Release.Candidate.Lost, c.Release.Settings.Rollout.FailureLimit = []string{"n1", "n2"}, []string{"n1"}, script.Amount{Count: 2}
		}, noon, failed("n1, n2: ended, lost the tenant's process, or not heard any more, while it was to run version 2 (failureLimit 2)"), time.Time{}},
		{"one of many is lost", func(c *fleet.Candidacy) {
			c.Known, c.Followers, c.Activated, c.Passed, c.Lost = 500, 499, 499, 499, []string{"n1"}
		}, noon, registry.Move{Lost: "n1"}, time.Time{}},
		{"most are unknown, and one of them ran it", func(c *fleet.Candidacy) { c.Known, c.Lost = 21, []string{"n1"} }, noon, wait, time.Time{}},
		{"one may be lost", func(c *fleet.Candidacy) { c.Missing = over.Add(5 * time.Second) }, over, wait, over.Add(5 * time.Second)},
		{"they have yet to run it", func(c *fleet.Candidacy) { c.Release.Candidate.Running = time.Time{} }, over, registry.Move{Running: true}, time.Time{}},
		{"they have run it for a while", func(c *fleet.Candidacy) { c.Release.Candidate.Running = noon.Add(40 * time.Second) }, over, wait, over.Add(40 * time.Second)},
		{"one was not heard after the pause", func(c *fleet.Candidacy) { c.Confirmed = 2 }, over, wait, over.Add(time.Second)},
		{"too few calls are no evidence", func(c *fleet.Candidacy) { c.Calls, c.Release.Settings.Rollout.MinCalls = 19, nil }, over, wait, time.Time{}},
		{"nor are those of the step before", func(c *fleet.Candidacy) {
			c.Calls, c.Release.Candidate.Before, c.Release.Settings.Rollout.MinCalls = 30, 11, nil
		}, over, wait, time.Time{}},
		{"calls are evidence", func(c *fleet.Candidacy) {
			c.Calls, c.Release.Candidate.Before, c.Release.Settings.Rollout.MinCalls = 31, 11, nil
		}, over, step(2), time.Time{}},
		{"nobody has approved it", func(c *fleet.Candidacy) { c.Release.Settings.Rollout.Steps[0].Approval = true }, over, wait, time.Time{}},
		{"somebody has approved it", func(c *fleet.Candidacy) {
			c.Release.Settings.Rollout.Steps[0].Approval, c.Release.Candidate.Approved = true, 1
		}, over, step(2), time.Time{}},
		{"it is approved, and its pause goes on", func(c *fleet.Candidacy) {
			c.Release.Settings.Rollout.Steps[0].Approval, c.Release.Candidate.Approved = true, 1
		}, noon, wait, over},
		{"one of many has to test, and is tolerated", func(c *fleet.Candidacy) {
			c.Known, c.Followers, c.Activated, c.Passed = 100, 100, 99, 99
		}, over, step(2), time.Time{}},
		{"two of many have to test", func(c *fleet.Candidacy) {
			c.Known, c.Followers, c.Activated, c.Passed = 100, 100, 100, 98
		}, over, wait, time.Time{}},
		{"one of two has yet to run it, and is tolerated", func(c *fleet.Candidacy) {
			c.Members, c.Running, c.Confirmed, c.Release.Settings.Rollout.Tolerate = 2, 1, 1, script.Amount{Count: 5}
		}, over, step(2), time.Time{}},
		{"none runs it, whatever is tolerated", func(c *fleet.Candidacy) {
			c.Members, c.Running, c.Confirmed, c.Release.Settings.Rollout.Tolerate = 2, 0, 0, script.Amount{Count: 5}
		}, over, wait, time.Time{}},
		{"nobody has tested it, whatever is tolerated", func(c *fleet.Candidacy) {
			c.Passed, c.Release.Settings.Rollout.Tolerate = 0, script.Amount{Count: 20}
		}, over, wait, time.Time{}},
		{"nobody has taken the last change, whatever is tolerated", func(c *fleet.Candidacy) {
			c.Activated, c.Release.Settings.Rollout.Tolerate = 0, script.Amount{Count: 20}
		}, over, wait, time.Time{}},
		{"one of many has to test, and none is tolerated", func(c *fleet.Candidacy) {
			c.Known, c.Followers, c.Activated, c.Passed, c.Release.Settings.Rollout.Tolerate = 100, 100, 100, 99, script.Amount{None: true}
		}, over, wait, time.Time{}},
		{"calls of a process that ended are recorded", func(c *fleet.Candidacy) {
			c.Calls, c.EndedCalls, c.Release.ChangedAt = 9, 9, over.Add(-40*time.Second)
		}, over.Add(-10 * time.Second), registry.Move{Counted: true}, time.Time{}},
		{"not each time that one ends", func(c *fleet.Candidacy) {
			c.Calls, c.EndedCalls, c.Release.ChangedAt = 9, 9, over.Add(-35*time.Second)
		}, over.Add(-10 * time.Second), wait, over.Add(-5 * time.Second)},
		{"once", func(c *fleet.Candidacy) {
			c.Calls, c.EndedCalls, c.Release.Candidate.Calls = 9, 9, 9
		}, over.Add(-1), wait, over},
		{"nor before the next step, which records them", func(c *fleet.Candidacy) { c.Calls, c.EndedCalls = 9, 9 }, over, step(2), time.Time{}},
		{"there is time left", func(c *fleet.Candidacy) {
			c.Passed, c.Release.Settings.Rollout.ProgressDeadline = 9, time.Hour
		}, over, wait, over.Add(time.Hour)},
		{"there is no time left", func(c *fleet.Candidacy) {
			c.Passed, c.Release.Settings.Rollout.ProgressDeadline = 9, time.Hour
		}, over.Add(time.Hour), failed("no progress in 1h0m0s: 9 of 10 agents have passed its tests, and 10 must"), time.Time{}},
		{
			"there is no time left, and the plan pauses", also(pauses, func(c *fleet.Candidacy) { c.Passed = 9 }), over.Add(time.Hour),
			registry.Move{Paused: "no progress in 1h0m0s: 9 of 10 agents have passed its tests, and 10 must"},
			time.Time{},
		},
		{"it is paused, and could go on", also(pauses, isPaused), over.Add(2 * time.Hour), wait, time.Time{}},
		{"it is paused, and its step has yet to begin", also(pauses, isPaused, func(c *fleet.Candidacy) {
			c.Release.Candidate.Running = time.Time{}
		}), over.Add(2 * time.Hour), wait, time.Time{}},
		{
			"it is paused, and calls fail", also(pauses, isPaused, func(c *fleet.Candidacy) { c.Calls, c.FailedCalls = 40, 12 }), over.Add(2 * time.Hour),
			failed("12 of 40 calls failed (30 %), at most 5 % may"),
			time.Time{},
		},
		{"it is paused, and an agent is lost", also(pauses, isPaused, func(c *fleet.Candidacy) {
			c.Lost, c.Release.Settings.Rollout.FailureLimit = []string{"n1"}, script.Amount{Count: 2}
		}), over.Add(2 * time.Hour), registry.Move{Lost: "n1"}, time.Time{}},
		{"it is paused, and calls of a process that ended are recorded", also(pauses, isPaused, func(c *fleet.Candidacy) {
			c.Passed, c.Calls, c.EndedCalls = 9, 9, 9
		}), over.Add(2 * time.Hour), registry.Move{Counted: true}, time.Time{}},
		{"it is paused, and an agent is missing", also(pauses, isPaused, func(c *fleet.Candidacy) {
			c.Missing = over.Add(3 * time.Hour)
		}), over.Add(2 * time.Hour), wait, over.Add(3 * time.Hour)},
		{"a person let it go on lately", also(pauses, func(c *fleet.Candidacy) {
			c.Passed, c.Release.Candidate.Since = 9, over.Add(30*time.Minute)
		}), over.Add(time.Hour), wait, over.Add(90 * time.Minute)},
		{"those that ran it have left, and another has to test", func(c *fleet.Candidacy) { c.Members, c.Running, c.Passed = 0, 0, 9 }, over, wait, time.Time{}},
		{"no share is above its own", func(c *fleet.Candidacy) {
			c.Members, c.Running, c.Confirmed, c.Release.Candidate.Threshold = 0, 0, 0, math.MaxUint32
		}, over, step(2), time.Time{}},
		{"one has yet to say that it runs it", func(c *fleet.Candidacy) { c.Running = 2 }, over, wait, time.Time{}},
		{"half of the agents are unknown", func(c *fleet.Candidacy) { c.Known = 20 }, over, step(2), time.Time{}},
		{"more than half of the agents are unknown", func(c *fleet.Candidacy) { c.Known = 21 }, over, wait, time.Time{}},
		{"so are those that ran it", func(c *fleet.Candidacy) { c.Known, c.Members, c.Running = 21, 0, 0 }, over, wait, time.Time{}},
		{"most are unknown, and calls fail", func(c *fleet.Candidacy) {
			c.Known, c.Calls, c.FailedCalls = 21, 40, 12
		}, noon, failed("12 of 40 calls failed (30 %), at most 5 % may"), time.Time{}},
		{"a step that the plan has not", func(c *fleet.Candidacy) { c.Release.Candidate.Step = 7 }, noon, failed("its record says step 7, and the plan has 2"), time.Time{}},
		{"tests without steps", func(c *fleet.Candidacy) { c.Release.Candidate.Step, c.Release.Settings.Rollout.Steps = 0, nil }, noon, promote, time.Time{}},
		{"steps without tests", func(c *fleet.Candidacy) {
			c.Release.Candidate.Step, c.Release.Candidate.Spec.Tests, c.Passed = 0, nil, 0
		}, noon, step(1), time.Time{}},
		{"half of the agents, which run the active version, are not heard", also(alike, func(c *fleet.Candidacy) { c.Apart = true }), over, wait, time.Time{}},
		{"no agent is left that runs the active version", alike, over, promote, time.Time{}},
		{"the first version has nothing to be compared with", func(c *fleet.Candidacy) {
			c.Release.Candidate.Step, c.Release.Active = 0, c.Release.Candidate.Version
		}, noon, promote, time.Time{}},
		{"there is no candidate", func(c *fleet.Candidacy) { c.Release.Candidate = nil }, over, wait, time.Time{}},
		{"it was given up", func(c *fleet.Candidacy) { c.Release.Candidate.Failed = "x" }, over, wait, time.Time{}},
		{"it was deleted", func(c *fleet.Candidacy) { c.Release.Deleted = true }, over, wait, time.Time{}},
		{"an agent has to test", func(c *fleet.Candidacy) { c.Passed = 9 }, over, wait, time.Time{}},
		{"an agent has to activate", func(c *fleet.Candidacy) { c.Activated = 9 }, over, wait, time.Time{}},
		{"there are no agents", func(c *fleet.Candidacy) { c.Followers, c.Activated, c.Passed = 0, 0, 0 }, over, wait, time.Time{}},
		{"the roll is being called", func(c *fleet.Candidacy) { c.Gathering = true }, over, wait, time.Time{}},
		{"a failure", func(c *fleet.Candidacy) {
			c.Failure = &fleet.AgentFailure{Agent: "n1", Err: script.Errorf(script.Script, "tests[it works]", "want 1, got 2")}
		}, noon, failed("n1: tests[it works]: want 1, got 2"), time.Time{}},
		{"a failure while the roll is being called", func(c *fleet.Candidacy) {
			c.Gathering, c.Passed, c.Failure = true, 0, &fleet.AgentFailure{Agent: "n1", Err: script.Errorf(script.Invalid, "", "does not compile")}
		}, noon, failed("n1: does not compile"), time.Time{}},
		{"calls fail", func(c *fleet.Candidacy) { c.Calls, c.FailedCalls = 40, 12 }, noon, failed("12 of 40 calls failed (30 %), at most 5 % may"), time.Time{}},
		{"so do very many", func(c *fleet.Candidacy) { c.Calls, c.FailedCalls = 1<<54, 1<<53 }, noon, failed("9007199254740992 of 18014398509481984 calls failed (50 %), at most 5 % may"), time.Time{}},
		{"calls fail, but not too many", func(c *fleet.Candidacy) { c.Calls, c.FailedCalls = 40, 2 }, noon, wait, over},
		{"too few calls to tell", func(c *fleet.Candidacy) {
			c.Calls, c.FailedCalls, c.Release.Settings.Rollout.MinCalls = 19, 19, nil
		}, noon, wait, over},
		{"too few agents to tell", func(c *fleet.Candidacy) { c.Calls, c.FailedCalls, c.Gathering = 40, 12, true }, noon, wait, time.Time{}},
		{"none may fail", func(c *fleet.Candidacy) {
			c.Calls, c.FailedCalls, c.Release.Settings.Rollout.MaxErrorPercent = 1000, 1, new(0.0)
		}, noon, failed("1 of 1000 calls failed (0.1 %), at most 0 % may"), time.Time{}},
		{"one in a thousand may fail", func(c *fleet.Candidacy) {
			c.Calls, c.FailedCalls, c.Release.Settings.Rollout.MaxErrorPercent = 2000, 2, new(0.1)
		}, over, step(2), time.Time{}},
		{"more than one in a thousand fails", func(c *fleet.Candidacy) {
			c.Calls, c.FailedCalls, c.Release.Settings.Rollout.MaxErrorPercent = 2000, 3, new(0.1)
		}, noon, failed("3 of 2000 calls failed (0.15 %), at most 0.1 % may"), time.Time{}},
		{"all may fail", func(c *fleet.Candidacy) {
			c.Calls, c.FailedCalls, c.Release.Settings.Rollout.MaxErrorPercent = 1000, 1000, new(100.0)
		}, over, step(2), time.Time{}},
		{"nobody looks at calls", func(c *fleet.Candidacy) {
			c.Calls, c.FailedCalls, c.Release.Settings.Rollout.MaxErrorPercent = 1000, 1000, nil
		}, over, step(2), time.Time{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := candidacy()
			tt.change(&c)
			if got := rollout.Next(c, tt.now); got.Move != tt.want || !got.Until.Equal(tt.until) {
				t.Errorf("%+v, want %+v until %v", got, tt.want, tt.until)
			}
		})
	}
}

// below counts the buckets below the threshold.
func below(buckets []uint32, share uint32) (n int) {
	for _, r := range buckets {
		if r < share {
			n++
		}
	}
	return n
}

func TestShare(t *testing.T) {
	const top = math.MaxUint32
	for _, tt := range []struct {
		buckets []uint32
		percent int
		before  uint32
		want    uint32
	}{
		{[]uint32{0}, 1, 0, 42949672},                                 // as if there were many
		{[]uint32{0, 1 << 31}, 10, 0, 429496729},                      // one of two
		{[]uint32{0, 7}, 50, 0, 7},                                    // and not both
		{[]uint32{1 << 31, 1<<31 + 1}, 50, 0, 1<<31 + 1},              // one, though both are above
		{[]uint32{1 << 31, 1<<31 + 1}, 99, 0, 99 << 32 / 100},         // two of two
		{[]uint32{1 << 31, top - 1}, 99, 0, top},                      // the highest
		{[]uint32{5, 5, 9}, 30, 0, 6},                                 // of one bucket, together
		{[]uint32{top}, 50, 0, top},                                   // nobody: there is no share above
		{[]uint32{1, top, top}, 99, 0, top},                           // one: the others have the highest
		{[]uint32{1, 2, 3, 4}, 50, 1 << 30, 1 << 30},                  // those of the step before stay
		{[]uint32{1 << 30, 1 << 31, 3 << 30}, 34, 1 << 29, 1<<31 + 1}, // 1.02 of three are two
	} {
		if got := rollout.Threshold(tt.buckets, tt.percent, tt.before); got != tt.want {
			t.Errorf("%d %% of %v after %d: %d, which %d are below; want %d", tt.percent, tt.buckets, tt.before, got, below(tt.buckets, got), tt.want)
		}
	}
}

// TestShareIsExact: of fleets of any size each step takes the agents that it should, and
// those that it had; who comes later is taken in proportion.
func TestShareIsExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var joined, taken float64
	for range 2000 {
		n := 1 + random.IntN(200)
		buckets := make([]uint32, n)
		for i := range buckets {
			buckets[i] = script.Bucket(fmt.Sprint("n", random.Uint64()), route)
		}
		slices.Sort(buckets)
		if len(slices.Compact(slices.Clone(buckets))) < n {
			continue // one in four billion
		}
		first := 1 + random.IntN(98)
		second := first + 1 + random.IntN(99-first)
		before := rollout.Threshold(buckets, first, 0)
		if got, want := below(buckets, before), (n*first+99)/100; got != want {
			t.Fatalf("%d %% of %d agents: %d run it, want %d", first, n, got, want)
		}
		if got, want := below(buckets, rollout.Threshold(buckets, second, before)), (n*second+99)/100; got != want {
			t.Fatalf("%d %% after %d %% of %d agents: %d run it, want %d", second, first, n, got, want)
		}
		if random.Uint32() < before {
			taken++
		}
		joined += float64(first) / 100
		// Some leave, others come: what ran it goes on to.
		changed := slices.Clone(buckets[random.IntN(n):])
		for range random.IntN(20) {
			changed = append(changed, random.Uint32())
		}
		slices.Sort(changed)
		if after := rollout.Threshold(changed, second, before); after < before || below(changed, after) < (len(changed)*second+99)/100 {
			t.Fatalf("%d agents became %d: the share %d became %d", n, len(changed), before, after)
		}
	}
	if taken < joined*0.8 || taken > joined*1.25 {
		t.Errorf("of those that came later %.0f were taken, want about %.0f", taken, joined)
	}
}
