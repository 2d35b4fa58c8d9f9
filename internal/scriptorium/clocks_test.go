package scriptorium_test

import (
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestClocksOfProcessesThatJump: somebody sets the clock of the registry's machine ahead and back, in a pause
// and in a freeze that ends by itself.
func TestClocksOfProcessesThatJump(t *testing.T) {
	needs.Time(t, "starts four processes")
	needs.NoRace(t)
	t.Parallel()
	clock := newClock(t)
	m := startMistaken(t)
	m.environment = []string{clock.variable()}
	c := startAgentsOn(m, 2, "")
	c.jumpsInAPause(clock)
	c.jumpsInAFreeze(clock)
}

// jumpsInAPause: a clock that is set back lets the pause last longer. One that is set ahead ends it, once the
// agents of the step were heard.
func (c *canaries) jumpsInAPause(clock clock) {
	c.t.Helper()
	const pause = "the pause of step 1 goes on"
	canary := c.canary("paused")
	c.plan("paused", 1, nil)
	c.plan("paused", 2, &script.Plan{Steps: []script.Step{{Percent: 50, Pause: time.Hour}, {Percent: 60, Approval: true}}})
	c.waits("paused", pause)
	for _, by := range []time.Duration{-365 * 24 * time.Hour, -time.Hour, 30 * time.Minute} {
		clock.ahead(by)
		c.heard(2)
		c.waits("paused", pause)
	}
	c.halt(c.agents[canary])
	clock.ahead(2 * time.Hour)
	c.waits("paused", "0 of the 1 agents of step 1 were heard after its pause, and 1 must")
	c.resume(c.agents[canary])
	c.waits("paused", "step 2 needs an approval: scriptctl rollout approve acme/paused")
	clock.ahead(0)
	c.steer("paused", registryclient.Approve)
	c.live("paused", 2)
}

// jumpsInAFreeze: when the clock is past the end of the freeze, what waited begins. When it is set back, that
// goes on, and the rest is frozen again.
func (c *canaries) jumpsInAFreeze(clock clock) {
	c.t.Helper()
	const frozen, second = "the registry is frozen by ann", "step 2 needs an approval: scriptctl rollout approve acme/stepped"
	steps := script.Plan{Steps: []script.Step{{Percent: 40, Approval: true}, {Percent: 50, Approval: true}, {Percent: 60, Approval: true}}}
	c.plan("stepped", 1, nil)
	c.plan("waiting", 1, nil)
	c.plan("stepped", 2, &steps)
	c.onTrial("stepped", 1, 2)
	if _, err := c.client.Freeze(c.t.Context(), 4*time.Hour, nil, "ann", "incident 12"); err != nil {
		c.t.Fatal(err)
	}
	c.plan("waiting", 2, nil)
	c.is("waiting", "waits for the thaw", (*script.Release).Frozen)
	c.steer("stepped", registryclient.Approve)
	c.waits("stepped", frozen)

	clock.ahead(5 * time.Hour)
	c.live("waiting", 2)
	c.waits("stepped", second)
	c.plan("meanwhile", 1, nil)
	c.live("meanwhile", 1)

	clock.ahead(0)
	c.waits("stepped", frozen)
	c.plan("waiting", 3, nil)
	c.is("waiting", "waits for the thaw again", (*script.Release).Frozen)
	c.everywhere("waiting", "2")
	c.everywhere("meanwhile", "1")
	c.steer("stepped", registryclient.Approve)
	c.waits("stepped", frozen)
	if r := c.is("stepped", "is there", func(*script.Release) bool { return true }); r.Candidate == nil || r.Candidate.Step != 2 || r.Candidate.Failed != "" {
		c.t.Errorf("the clock was set back, and the candidate is %+v", r.Candidate)
	}
	c.answersOf(c.canary("stepped"), "stepped", "2")
	c.thaw()
	c.live("waiting", 3)
	c.waits("stepped", "step 3 needs an approval: scriptctl rollout approve acme/stepped")
}
