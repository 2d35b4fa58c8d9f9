package scriptorium_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// tryZones publishes the version by the steps.
func (c *canaries) tryZones(version int, steps ...script.Step) registryclient.Published {
	c.t.Helper()
	published, err := c.client.Publish(c.t.Context(), registryclient.PublishRequest{
		Name: script.Name{Tenant: "acme", Script: "route"}, Source: fmt.Appendf(nil, "function handle() return %d end", version),
		Settings: &script.Settings{Rollout: script.Plan{Steps: steps}},
		Write:    registryclient.Write{Author: "test"},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return published
}

// awaitWhy waits until the rollout of acme/route waits for what is wanted.
func (c *canaries) awaitWhy(want string) {
	c.t.Helper()
	await(c.t, "it waits: "+want, func() bool {
		fleet, err := c.client.Status(c.t.Context(), script.Name{Tenant: "acme", Script: "route"})
		return err == nil && len(fleet.Scripts) == 1 && fleet.Scripts[0].Trials != nil && fleet.Scripts[0].Trials.Why == want
	})
}

// TestACanaryZone: a version comes to the agents zone by zone, in the tenants' own processes too.
// A step for which nobody has the labels waits until somebody comes. A registry that starts anew
// knows the labels of an agent that ended meanwhile.
func TestACanaryZone(t *testing.T) {
	needs.Time(t, "starts seven processes")
	needs.NoRace(t)
	t.Parallel()
	c := startCanaries(t, "--labels", "zone=a,region=eu")
	c.startNamed("node-3", "--labels", "zone=b,region=eu")
	c.awaitAgents(4)
	isolated := script.TenantSettings{Isolation: script.IsolationProcess}
	if _, _, err := c.client.SetTenant(t.Context(), "acme", &isolated, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	c.publish("function handle() return 1 end")
	await(t, "the registry knows that there are no other agents", func() bool {
		fleet, err := c.client.Status(t.Context(), script.Name{Tenant: "acme", Script: "route"})
		return err == nil && len(fleet.Scripts) == 1 && fleet.Scripts[0].Converged
	})

	published := c.tryZones(2, script.Step{Selector: "zone=b", Approval: true}, script.Step{Selector: "region=eu,zone=c"})
	if want := []string{"step 2: no connected agent has the labels region=eu,zone=c"}; fmt.Sprint(published.Warnings) != fmt.Sprint(want) {
		t.Errorf("publish warns %q, want %q", published.Warnings, want)
	}
	c.release("the zone runs the version", func(r *script.Release) bool { return r.Candidate != nil && r.Candidate.Step == 1 })
	c.answers("node-3", "2")
	for i := range 3 {
		c.answers(fmt.Sprint("node-", i), "1")
	}
	c.awaitWhy("step 1 needs an approval: scriptctl rollout approve acme/route")

	c.stop(c.process) // the registry
	c.restartRegistry()
	c.awaitWhy("step 1 needs an approval: scriptctl rollout approve acme/route")
	if _, _, err := c.client.Steer(t.Context(), script.Name{Tenant: "acme", Script: "route"}, registryclient.Approve, 0, registryclient.Write{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	c.awaitWhy("no connected agent has the labels region=eu,zone=c")
	c.startNamed("node-4", "--labels", "zone=c,region=eu")
	c.release("it is live everywhere", func(r *script.Release) bool { return r.Active.Number == 2 && r.Candidate == nil })
	for name := range c.agents {
		c.answers(name, "2")
	}

	c.tryZones(3, script.Step{Selector: "zone=b", Pause: time.Hour})
	c.release("the zone runs the next version", func(r *script.Release) bool { return r.Candidate != nil && !r.Candidate.Running.IsZero() })
	c.stop(c.process)
	c.kill("node-3")
	c.restartRegistry()
	r := c.release("the candidate is given up", func(r *script.Release) bool { return r.Candidate == nil || r.Candidate.Failed != "" })
	if r.Candidate == nil || r.Active.Number != 2 || !strings.HasPrefix(r.Candidate.Failed, "node-3: ended") {
		t.Errorf("the release is %+v with the candidate %+v, want it given up because of node-3", r, r.Candidate)
	}
}
