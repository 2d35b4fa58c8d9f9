package scriptorium_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestARegistryIsKilledInEachState of a rollout: the next one goes on from there, in the same
// attempt, and takes no step twice.
func TestARegistryIsKilledInEachState(t *testing.T) {
	needs.Time(t, "starts a dozen processes one after the other")
	needs.NoRace(t)
	t.Parallel()
	o := startOutside(t)
	c := startGated(t, 3, o.file("ci"))
	o.says("ci", refusal)
	canary := c.canary("route")
	c.plan("route", 1, nil)
	c.plan("lib", 1, nil)
	c.plan("lib", 2, &script.Plan{Steps: []script.Step{{Percent: 30, Approval: true}}})
	c.waits("lib", "step 1 needs an approval: scriptctl rollout approve acme/lib")
	attempt := uint64(0)
	// killed kills the registry, and wants the release to be as it was.
	killed := func(state string) {
		t.Helper()
		before := c.is("route", "has a release", func(*script.Release) bool { return true })
		c.killRegistry()
		c.awaitAgents(3)
		after := c.is("route", "has a release", func(*script.Release) bool { return true })
		is := func(r *script.Release) string {
			if r.Candidate == nil {
				return fmt.Sprint("live ", r.Active.Number)
			}
			c := *r.Candidate
			return fmt.Sprint(r.Active.Number, c.Version.Number, c.Attempt, c.Step, c.Threshold, c.Running, c.Approved, c.Failed, c.Frozen)
		}
		if is(&before) != is(&after) || after.Candidate != nil && after.Candidate.Attempt != attempt {
			t.Errorf("%s: the release was %s, and is %s after the registry was killed; the attempt is %d", state, is(&before), is(&after), attempt)
		}
		for _, agent := range c.others("") {
			want := fmt.Sprint(after.RunsOn(script.Agent{Name: agent}).Number)
			if r := &after; r.Candidate == nil || !r.Candidate.Running.IsZero() {
				c.answers(agent, want)
			}
		}
	}

	slow := c.agents[c.others(canary)[0]]
	c.halt(slow)
	c.plan("route", 2, &script.Plan{
		After: []script.Name{of("lib")},
		Steps: []script.Step{{Percent: 30, Pause: 8 * time.Second, Approval: true, Gate: hook("ci")}, {Percent: 60}},
	}, script.Test{Name: "it works"})
	r := c.is("route", "is tested", func(r *script.Release) bool { return r.Candidate != nil })
	attempt = r.Candidate.Attempt
	c.waits("route", "2 of 3 agents have passed its tests, and 3 must")
	c.killRegistry() // whose agents answer no calls before slow goes on
	c.resume(slow)

	const after = "version 2 of acme/lib is not live yet (rollout.after)"
	c.waits("route", after)
	killed("it waits for another script")
	c.waits("route", after)

	c.freeze("acme/lib")
	c.steer("lib", registryclient.Approve)
	c.live("lib", 2)
	c.waits("route", "the registry is frozen by ann")
	killed("it is frozen")
	c.waits("route", "the registry is frozen by ann")

	c.halt(c.agents[canary])
	c.thaw()
	c.is("route", "is in step 1", func(r *script.Release) bool { return r.Candidate.Step == 1 })
	c.waits("route", "2 of 3 agents have taken the last change, and 3 must")
	c.killRegistry()
	if r := c.is("route", "is in step 1", func(r *script.Release) bool { return r.Candidate.Step == 1 }); !r.Candidate.Running.IsZero() {
		t.Errorf("its agent is stopped, and runs it since %v", r.Candidate.Running)
	}
	c.resume(c.agents[canary])

	c.waits("route", "the pause of step 1 goes on")
	killed("its pause goes on")
	const approval = "step 1 needs an approval: scriptctl rollout approve acme/route"
	c.waits("route", approval)
	killed("it waits for an approval")
	c.waits("route", approval)
	c.steer("route", registryclient.Approve)
	const gate = "gate webhook/ci: a build is red"
	c.waits("route", gate)
	killed("it waits for a gate")
	c.waits("route", gate)
	o.says("ci", passing)
	c.live("route", 2)
	killed("it was promoted")

	for _, once := range []string{"advance 1/2 step 1 of 2", "advance 1/2 the agents of step 1 of 2", "advance 1/2 step 2 of 2", "approve 1/2", "promote 2/0"} {
		if lines := c.notes("route", once); len(lines) != 1 {
			t.Errorf("the history has %q %d times: %q", once, len(lines), c.notes("route", ""))
		}
	}

	c.plan("route", 3, &script.Plan{}, script.Test{Name: "it fails", Expect: []byte("4")})
	why := c.fails("route")
	attempt = c.is("route", "has a candidate", func(r *script.Release) bool { return r.Candidate != nil }).Candidate.Attempt
	killed("it was given up: " + why)
	c.freeze()
	c.plan("route", 4, nil)
	attempt = c.is("route", "waits for the thaw", (*script.Release).Frozen).Candidate.Attempt
	killed("it waits for the end of the freeze")
	c.thaw()
	c.live("route", 4)
}

// TestARegistryIsKilledAtTransitions: whenever a candidate has moved, the registry may be killed at
// once. Each version goes live, and each step is taken once.
func TestARegistryIsKilledAtTransitions(t *testing.T) {
	needs.Time(t, "starts a dozen processes one after the other")
	needs.NoRace(t)
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := startCanaries(t)
	c.plan("route", 1, nil)
	for version := 2; version <= 4; version++ {
		c.plan("route", version, &script.Plan{Steps: []script.Step{{Percent: 30, Pause: 50 * time.Millisecond}, {Percent: 60}}}, script.Test{Name: "it works"})
		last := ""
		c.is("route", "is live", func(r *script.Release) bool {
			now := fmt.Sprint(r.Active.Number)
			if r.Candidate != nil {
				now += fmt.Sprint(" ", r.Candidate.Step, r.Candidate.Running.IsZero(), r.Candidate.Failed)
			}
			if now != last && random.IntN(2) == 0 {
				t.Logf("killed at %s", now)
				c.killRegistry()
			}
			last = now
			return r.Candidate == nil || r.Candidate.Failed != ""
		})
		c.live("route", uint64(version))
		for _, agent := range c.others("") {
			c.answers(agent, fmt.Sprint(version))
		}
		for _, once := range []string{"advance %d/%d step 1 of 2", "advance %d/%d step 2 of 2"} {
			once := fmt.Sprintf(once, version-1, version)
			if lines := c.notes("route", once); len(lines) != 1 {
				t.Errorf("the history has %q %d times: %q", once, len(lines), c.notes("route", ""))
			}
		}
	}
}
