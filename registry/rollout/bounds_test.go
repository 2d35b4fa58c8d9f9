package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/rollout"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestBounds: what decides exactly at a bound, or says why it waits.
func TestBounds(t *testing.T) {
	over, promote := noon.Add(time.Minute), registry.Move{Promote: true}
	lib := script.Name{Tenant: "acme", Script: "lib"}
	after := func(d fleet.Dependency, tolerate script.Amount) func(*fleet.Candidacy) {
		return func(c *fleet.Candidacy) {
			d.Name = lib
			c.Release.Candidate.Step, c.After, c.Release.Settings.Rollout.Tolerate = 0, []fleet.Dependency{d}, tolerate
		}
	}
	calls := func(n uint64, least int) func(*fleet.Candidacy) {
		return func(c *fleet.Candidacy) {
			c.Calls, c.FailedCalls, c.Release.Settings.Rollout.MinCalls = n, n, new(least)
		}
	}
	compared := func(candidate, active fleet.Tally) func(*fleet.Candidacy) {
		return also(alike, func(c *fleet.Candidacy) {
			c.Apart, c.Compared = true, &fleet.Comparison{Candidate: candidate, Active: active}
		})
	}
	passed := func(at time.Time) func(*fleet.Candidacy) {
		return func(c *fleet.Candidacy) {
			c.Release.Settings.Rollout.Steps[0].Gate = script.Gate{Kind: script.Webhook, Source: "ci"}
			c.Gate = &fleet.GateAnswer{Attempt: 11, Step: 1, At: at, Result: fleet.GatePasses}
		}
	}
	shadow := func(found script.ShadowCalls) func(*fleet.Candidacy) {
		return func(c *fleet.Candidacy) { c.Release.Settings.Rollout.MaxDiffPercent, c.Shadow = new(5.0), &found }
	}
	for _, tt := range []struct {
		name   string
		change func(*fleet.Candidacy)
		now    time.Time
		want   registry.Move
		why    string // the end of it
	}{
		{"a gate that passes now", passed(over), over, registry.Move{Step: 2}, ""},
		{"a gate that passed just before it is too old", passed(over), over.Add(30*time.Second - 1), registry.Move{Step: 2}, ""},
		{"a gate whose pass is too old", passed(over), over.Add(30 * time.Second), registry.Move{}, "gate webhook/ci has yet to answer"},
		{"a gate that passes in the future", passed(over.Add(1)), over, registry.Move{}, "gate webhook/ci has yet to answer"},
		{"it comes after one that is not live", after(fleet.Dependency{Why: "acme/lib does not exist"}, script.Amount{}), noon, registry.Move{}, "acme/lib does not exist (rollout.after)"},
		{"it comes after one that an agent could not activate", after(fleet.Dependency{Lacking: 1}, script.Amount{None: true}), noon, registry.Move{}, "1 of 10 agents have not activated acme/lib (rollout.after)"},
		{"that agent is tolerated", after(fleet.Dependency{Lacking: 1}, script.Amount{Count: 1}), noon, registry.Move{Step: 1}, ""},
		{"a few calls are looked at", calls(5, 5), noon, registry.Move{Failed: "5 of 5 calls failed (100 %), at most 5 % may"}, ""},
		{"no more than 20 are needed to give up", calls(20, 100), noon, registry.Move{Failed: "20 of 20 calls failed (100 %), at most 5 % may"}, ""},
		{"a step without a pause does not wait for one to begin", func(c *fleet.Candidacy) {
			c.Release.Candidate.Step, c.Release.Candidate.Running, c.Release.Settings.Rollout.MaxErrorPercent = 2, time.Time{}, nil
		}, noon, promote, ""},
		{"just enough calls of both versions", compared(fleet.Tally{Calls: 20}, fleet.Tally{Calls: 20}), over, promote, ""},
		{"too few calls in the step that is compared", compared(fleet.Tally{Calls: 5}, fleet.Tally{Calls: 20}), over, registry.Move{}, "5 of the 20 calls that step 2 takes as evidence (minCalls)"},
		{"one call fails, and none of the active version, which may be chance", compared(fleet.Tally{Calls: 20, FailedCalls: 1}, fleet.Tally{Calls: 20}), over, promote, ""},
		{"the first step takes all agents", also(alike, func(c *fleet.Candidacy) { c.Release.Candidate.Step = 1 }), over, registry.Move{}, "or whose first step takes fewer agents, or promote the candidate"},
		{"more than half of the agents are unknown", func(c *fleet.Candidacy) { c.Known = 21 }, over, registry.Move{}, "11 of 21 agents are not heard"},
		{"late, while the roll is being called", also(deadline, late, func(c *fleet.Candidacy) { c.Gathering = true }), over.Add(time.Hour), registry.Move{}, "or they have yet to report"},
		{"the deadline counts from the end of the last step's pause", also(deadline, func(c *fleet.Candidacy) {
			c.Release.Candidate.Step, c.Release.Candidate.Since, c.Running = 2, noon.Add(-time.Hour), 2
		}), over, registry.Move{}, "2 of the 3 agents of step 2 run it, and 3 must"},
		{"just enough calls in the shadow, and all differ", shadow(script.ShadowCalls{Different: 20}), over, registry.Move{Failed: "in step 1 20 of 20 shadowed calls differ (100 %); at most 5 % may differ (maxDiffPercent): scriptctl rollout diff acme/route shows where"}, ""},
		{"one fewer", shadow(script.ShadowCalls{Different: 19}), over, registry.Move{Step: 2}, ""},
		{"as many differ as may", shadow(script.ShadowCalls{Equal: 95, Different: 3, Failed: 2, Dropped: 9}), over, registry.Move{Step: 2}, ""},
		{"one more", shadow(script.ShadowCalls{Equal: 94, Different: 3, Failed: 3, Dropped: 9}), over, registry.Move{Failed: "in step 1 6 of 100 shadowed calls differ (6 %), and 3 of these failed; 9 calls were dropped, as the agents had no time for them; at most 5 % may differ (maxDiffPercent): scriptctl rollout diff acme/route shows where"}, ""},
		{"a step that takes nobody", func(c *fleet.Candidacy) {
			c.Release.Candidate.Step, c.Release.Settings.Rollout.Steps[0].Percent = 0, 0
		}, noon, registry.Move{Failed: "step 1 of its plan takes no agents, as if a registry had written it that does not know selectors, steps by key or shadow steps: upgrade all registries, and publish it again"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := candidacy()
			tt.change(&c)
			if got := rollout.Next(c, tt.now); got.Move != tt.want || !strings.HasSuffix(got.Why, tt.why) {
				t.Errorf("%+v, want %+v because %q", got, tt.want, tt.why)
			}
		})
	}
}
