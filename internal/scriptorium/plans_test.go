package scriptorium_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestPlansThatCannotBe: the registry refuses each, names the field, and stores nothing.
func TestPlansThatCannotBe(t *testing.T) {
	t.Parallel()
	m := startMistaken(t)
	found(t, "--etcd-endpoints", m.etcd.Endpoint(), "--insecure-plaintext")
	m.startRegistry()
	m.awaitPage(m.admin, http.StatusOK, `"ready":true`)
	steps := func(steps ...script.Step) script.Plan { return script.Plan{Steps: steps} }
	for name, tt := range map[string]struct {
		plan  script.Plan
		field string
	}{
		"less than the step before":              {steps(script.Step{Percent: 50}, script.Step{Percent: 50}), "rollout.steps[1].percent"},
		"no percentage":                          {steps(script.Step{}), "rollout.steps[0].percent"},
		"less than nobody":                       {steps(script.Step{Percent: -1}), "rollout.steps[0].percent"},
		"all agents":                             {steps(script.Step{Percent: 100}), "rollout.steps[0].percent"},
		"a pause of weeks":                       {steps(script.Step{Percent: 1, Pause: 8 * 24 * time.Hour}), "rollout.steps[0].pause"},
		"eleven steps":                           {steps(make([]script.Step, 11)...), "rollout.steps"},
		"labels that all run it already":         {steps(script.Step{Selector: "zone=a"}, script.Step{Selector: "zone=a", Percent: 50}), "rollout.steps[1]"},
		"less than before of these labels":       {steps(script.Step{Selector: "zone=a", Percent: 20}, script.Step{Percent: 50}, script.Step{Selector: "zone=a", Percent: 10}), "rollout.steps[2].percent"},
		"a selector that is none":                {steps(script.Step{Selector: "zone"}), "rollout.steps[0].selector"},
		"a bound without steps":                  {script.Plan{MaxErrorPercent: new(5.0)}, "rollout.maxErrorPercent"},
		"a bound above all":                      {script.Plan{Steps: []script.Step{{Percent: 1}}, MaxErrorPercent: new(101.0)}, "rollout.maxErrorPercent"},
		"calls that nothing is looked at for":    {script.Plan{Steps: []script.Step{{Percent: 1}}, MinCalls: new(5)}, "rollout.minCalls"},
		"a gate that the registry does not have": {steps(script.Step{Percent: 1, Gate: hook("none")}), "rollout.steps[0].gate"},
		"itself":                                 {*after("route"), "rollout.after[0]"},
		"another tenant":                         {script.Plan{After: []script.Name{{Tenant: "shop", Script: "lib"}}}, "rollout.after[0]"},
		"a script twice":                         {*after("lib", "lib"), "rollout.after[1]"},
		"eleven scripts":                         {*after("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"), "rollout.after"},
	} {
		_, err := m.client.Publish(t.Context(), registryclient.PublishRequest{Name: of("route"), Source: []byte(returning(1)), Settings: &script.Settings{Rollout: tt.plan}, Write: by})
		if e := script.AsError(err); e == nil || e.Kind != script.Invalid || !strings.HasPrefix(e.Field, "settings."+tt.field) {
			t.Errorf("%s: %v, want that %s is refused", name, err, tt.field)
		}
	}
	if r, err := m.client.Get(t.Context(), of("route")); script.KindOf(err) != script.NotFound {
		t.Errorf("something is stored: %+v, %v", r, err)
	}
}

// TestPlansThatAreNotMet: a step that nobody can take, or that nobody calls, waits and says why. At its
// deadline it is given up, or paused if the plan says so.
func TestPlansThatAreNotMet(t *testing.T) {
	needs.Time(t, "starts four processes")
	needs.NoRace(t)
	t.Parallel()
	o := startOutside(t)
	o.set("hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := startGated(t, 2, o.file("hangs"), "--labels", "zone=a")
	c.heard(2) // before, publish does not know the agents
	for name, tt := range map[string]struct {
		plan      script.Plan
		warns, is string
	}{
		"nobody":      {script.Plan{Steps: []script.Step{{Selector: "zone=b"}}}, "step 1: no connected agent has the labels zone=b", "no connected agent has the labels zone=b"},
		"nobody-more": {script.Plan{Steps: []script.Step{{Selector: "zone=a"}, {Selector: "zone=b"}}}, "step 2: no connected agent has the labels zone=b", "no connected agent has the labels zone=b"},
		"calls":       {script.Plan{Steps: []script.Step{{Percent: 50}}, MaxErrorPercent: new(5.0)}, "", "0 of the 20 calls that step 1 takes as evidence (minCalls)"},
		"silent-gate": {script.Plan{Steps: []script.Step{{Percent: 50, Gate: hook("hangs")}}}, "", "gate webhook/hangs: it does not answer within 10s"},
		"approval":    {script.Plan{Steps: []script.Step{{Percent: 50, Approval: true}}}, "", "step 1 needs an approval: scriptctl rollout approve acme/approval"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := *c.mistaken
			shared.t = t
			c := &canaries{mistaken: &shared, agents: c.agents}
			c.plan(name, 1, nil)
			said := c.plan(name, 2, &tt.plan)
			if strings.Join(said, "; ") != tt.warns {
				t.Errorf("publish warns %q, want %q", said, tt.warns)
			}
			c.waits(name, tt.is)
			tt.plan.ProgressDeadline = time.Second
			if name == "silent-gate" || name == "calls" { // the gate takes ten seconds, and a report of the agents five
				tt.plan.ProgressDeadline = 12 * time.Second
			}
			c.plan(name, 2, &tt.plan) // begins again
			if why := c.fails(name); !strings.HasPrefix(why, "no progress in ") || !strings.HasSuffix(why, tt.is) {
				t.Errorf("it is given up: %s", why)
			}
			tt.plan.OnDeadline = script.PauseOnDeadline
			c.plan(name, 2, &tt.plan) // begins again
			isPaused := func(r *script.Release) bool { return r.Candidate != nil && r.Candidate.Paused != "" }
			if why := c.is(name, "paused", isPaused).Candidate.Paused; !strings.HasPrefix(why, "no progress in ") || !strings.HasSuffix(why, tt.is) {
				t.Errorf("it is paused: %s", why)
			}
			c.steer(name, registryclient.Approve) // the deadline counts anew
			if name != "approval" {               // which nothing else holds up
				c.steer(name, registryclient.Promote)
			}
			c.live(name, 2)
		})
	}
}
