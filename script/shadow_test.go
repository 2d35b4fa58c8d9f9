package script_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestShadowSteps: shadow steps come first, and shadow more calls from step to step.
func TestShadowSteps(t *testing.T) {
	shadow := func(percent int, selector script.AgentSelector) script.Step {
		return script.Step{By: script.ByShadow, Percent: percent, Selector: selector}
	}
	agents, key := script.Step{Percent: 10}, script.Step{By: script.ByKey, Percent: 10}
	for name, c := range map[string]struct {
		steps []script.Step
		most  *float64
		want  string // the field of the error
	}{
		"alone":                        {steps: []script.Step{shadow(5, "")}},
		"all calls":                    {steps: []script.Step{shadow(100, "")}, most: new(0.0)},
		"more and more":                {steps: []script.Step{shadow(5, "zone=a"), shadow(5, ""), shadow(20, "")}},
		"then keys, then agents":       {steps: []script.Step{shadow(50, ""), key, agents}, most: new(1.5)},
		"none":                         {steps: []script.Step{shadow(0, "")}, want: "p.steps[0].shadow"},
		"more than all":                {steps: []script.Step{shadow(101, "")}, want: "p.steps[0].shadow"},
		"as many":                      {steps: []script.Step{shadow(5, ""), shadow(5, "")}, want: "p.steps[1].shadow"},
		"as many of a zone":            {steps: []script.Step{shadow(5, ""), shadow(5, "zone=a")}, want: "p.steps[1].shadow"},
		"after agents":                 {steps: []script.Step{agents, shadow(5, "")}, want: "p.steps[1].shadow"},
		"after keys":                   {steps: []script.Step{key, shadow(50, "")}, want: "p.steps[1].shadow"},
		"differences without a shadow": {steps: []script.Step{agents}, most: new(1.0), want: "p.maxDiffPercent"},
		"differences of no steps":      {most: new(1.0), want: "p.maxDiffPercent"},
		"too many differences":         {steps: []script.Step{shadow(5, "")}, most: new(101.0), want: "p.maxDiffPercent"},
	} {
		err := script.Plan{Steps: c.steps, MaxDiffPercent: c.most}.Validate("p")
		if got := script.AsError(err); c.want == "" && err != nil || c.want != "" && (got == nil || got.Field != c.want || got.Kind != script.Invalid) {
			t.Errorf("%s: %v, want an error of %q", name, err, c.want)
		}
	}
}

// TestShadowsOn: a shadow step has agents shadow calls, and no step of another kind.
func TestShadowsOn(t *testing.T) {
	r := script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Active: script.Version{Number: 1}, Candidate: &script.Candidate{Version: script.Version{Number: 2}}}
	c := r.Candidate
	a, b := script.Agent{Name: "a", Labels: map[string]string{"zone": "a"}}, script.Agent{Name: "b"}
	want := func(when string, onA, onB uint32) {
		t.Helper()
		if gotA, gotB := r.ShadowsOn(a), r.ShadowsOn(b); gotA != onA || gotB != onB {
			t.Errorf("%s: %d and %d, want %d and %d", when, gotA, gotB, onA, onB)
		}
		if onA > 0 && (r.RunsOn(a).Number != 1 || !r.SplitsOn(a) || !c.SelectsAny()) {
			t.Errorf("%s: %d answers calls", when, r.RunsOn(a).Number)
		}
	}
	want("before the first step", 0, 0)
	c.Select(script.Step{By: script.ByShadow, Selector: "zone=a"}, script.ShadowThreshold(50))
	want("of a zone", 1<<31, 0)
	c.Select(script.Step{By: script.ByShadow}, script.ShadowThreshold(25))
	want("of all", 1<<31, 1<<30)
	c.Select(script.Step{By: script.ByShadow}, script.ShadowThreshold(100))
	want("all calls", 1<<32-1, 1<<32-1)
	c.Select(script.Step{By: script.ByKey}, 7)
	want("by key", 0, 0)
	r.Candidate.Version = r.Active
	c.Shadows = []script.Selection{{Threshold: 7}}
	want("of the first version", 0, 0)
}
