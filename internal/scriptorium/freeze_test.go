package scriptorium_test

import (
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAFreeze: a rollout stands still while the registry is frozen, also after a restart. What is
// published waits, going back works, and a candidate whose agent ends is given up as always. After
// the thaw what waits goes live.
func TestAFreeze(t *testing.T) {
	needs.Time(t, "starts six processes")
	needs.NoRace(t)
	t.Parallel()
	c, route := startCanaries(t), script.Name{Tenant: "acme", Script: "route"}
	frozen := func() {
		t.Helper()
		if _, err := c.client.Freeze(t.Context(), 0, nil, "ann", "incident 12"); err != nil {
			t.Fatal(err)
		}
	}
	thaw := func() {
		t.Helper()
		if changed, err := c.client.Thaw(t.Context(), "ann", ""); err != nil || !changed {
			t.Fatalf("thawed %v, %v", changed, err)
		}
	}
	why := func(says string) {
		t.Helper()
		await(t, "it waits: "+says, func() bool {
			fleet, err := c.client.Status(t.Context(), route)
			return err == nil && len(fleet.Scripts) == 1 && fleet.Scripts[0].Trials != nil && strings.HasPrefix(fleet.Scripts[0].Trials.Why, says)
		})
	}
	c.publish("function handle() return 1 end")
	c.publish("function handle() return 2 end")
	c.release("it is live everywhere", func(r *script.Release) bool { return r.Active.Number == 2 && r.Candidate == nil })

	c.tryZones(3, script.Step{Percent: 30, Approval: true}, script.Step{Percent: 60})
	c.release("the canary runs the next version", func(r *script.Release) bool { return r.Candidate != nil && r.Candidate.Step == 1 })
	frozen()
	if _, _, err := c.client.Steer(t.Context(), route, registryclient.Approve, 0, registryclient.Write{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	why("the registry is frozen by ann")
	c.stop(c.process)
	c.restartRegistry()
	why("the registry is frozen by ann")
	if r := c.release("there is a release", func(*script.Release) bool { return true }); r.Active.Number != 2 || r.Candidate.Step != 1 {
		t.Errorf("the frozen release is %+v with the candidate %+v", r, r.Candidate)
	}
	thaw()
	c.release("it is live everywhere", func(r *script.Release) bool { return r.Active.Number == 3 && r.Candidate == nil })

	c.tryZones(4, script.Step{Percent: 30, Pause: time.Hour}, script.Step{Percent: 60})
	canary, r := "", c.release("the canary runs the version", func(r *script.Release) bool { return r.Candidate != nil && !r.Candidate.Running.IsZero() })
	for name := range c.agents {
		if r.RunsOn(script.Agent{Name: name}).Number == 4 {
			canary = name
		}
	}
	frozen()
	c.kill(canary)
	r = c.release("the candidate is given up", func(r *script.Release) bool { return r.Candidate == nil || r.Candidate.Failed != "" })
	if r.Candidate == nil || r.Active.Number != 3 || !strings.HasPrefix(r.Candidate.Failed, canary+": ended") {
		t.Errorf("the release is %+v with the candidate %+v, want it given up because of %s", r, r.Candidate, canary)
	}
	c.startNamed(canary)
	c.tryZones(5)
	c.release("the version waits", (*script.Release).Frozen)
	if _, _, err := c.client.Rollback(t.Context(), route, 2, registryclient.Write{Author: "ann"}); err != nil {
		t.Errorf("roll back while frozen: %v", err)
	}
	for name := range c.agents {
		c.answers(name, "2")
	}
	if _, _, err := c.client.LiftHold(t.Context(), route, registryclient.Write{Author: "ann"}); err != nil {
		t.Fatal(err)
	}
	c.release("the version waits again", (*script.Release).Frozen)
	thaw()
	c.release("it is live everywhere", func(r *script.Release) bool { return r.Active.Number == 5 && r.Candidate == nil })
	for name := range c.agents {
		c.answers(name, "5")
	}
}
