package script_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

func TestAgentSelectors(t *testing.T) {
	many := map[string]string{}
	for i := range script.MaxSelectorLabels + 1 {
		many[fmt.Sprint("l", i)] = "x"
	}
	long := strings.Repeat("n", script.MaxAgentLabelLen)
	for name, tt := range map[string]struct {
		labels map[string]string
		want   script.AgentSelector
		field  string // that the error blames; "" for none
	}{
		"one":            {map[string]string{"zone": "a"}, "zone=a", ""},
		"in order":       {map[string]string{"zone": "eu-1.A_b", "topology.kubernetes.io/rack": "7"}, "topology.kubernetes.io/rack=7,zone=eu-1.A_b", ""},
		"long":           {map[string]string{long: long}, script.AgentSelector(long + "=" + long), ""},
		"none":           {nil, "", "f"},
		"too many":       {many, "", "f"},
		"no name":        {map[string]string{"": "a"}, "", "f"},
		"no value":       {map[string]string{"zone": ""}, "", "f.zone"},
		"long name":      {map[string]string{long + "n": "a"}, "", "f"},
		"long value":     {map[string]string{"zone": long + "n"}, "", "f.zone"},
		"two in one":     {map[string]string{"zone": "a,rack=7"}, "", "f.zone"},
		"two names":      {map[string]string{"rack=7,zone": "a"}, "", "f"},
		"a slash":        {map[string]string{"zone": "a/b"}, "", "f.zone"},
		"ends in a dash": {map[string]string{"zone": "a-"}, "", "f.zone"},
		"no ASCII":       {map[string]string{"zöne": "a"}, "", "f"},
	} {
		got, err := script.NewAgentSelector("f", tt.labels)
		if e := script.AsError(err); got != tt.want || (tt.field == "") != (err == nil) || err != nil && (e.Kind != script.Invalid || e.Field != tt.field) {
			t.Errorf("%s: %q, %v; want %q, or an error of %q", name, got, err, tt.want, tt.field)
		}
		if err == nil && !maps.Equal(got.Labels(), tt.labels) {
			t.Errorf("%s: the labels are %v", name, got.Labels())
		}
	}
	for _, tt := range []struct {
		selector script.AgentSelector
		labels   map[string]string
		want     bool
	}{
		{"", nil, true},
		{"zone=a", nil, false},
		{"zone=a", map[string]string{"zone": "a", "rack": "7"}, true},
		{"zone=a", map[string]string{"zone": "b"}, false},
		{"zone=a", map[string]string{"zone": "a "}, false},
		{"rack=7,zone=a", map[string]string{"zone": "a"}, false},
		{"rack=7,zone=a", map[string]string{"zone": "a", "rack": "7"}, true},
	} {
		if got := tt.selector.Matches(tt.labels); got != tt.want {
			t.Errorf("%q matches %v: %t", tt.selector, tt.labels, got)
		}
	}
}

// TestStepsWithSelectors: each takes agents that no step before it has taken.
func TestStepsWithSelectors(t *testing.T) {
	all := func(s script.AgentSelector) script.Step { return script.Step{Selector: s} }
	of := func(percent int, s script.AgentSelector) script.Step {
		return script.Step{Percent: percent, Selector: s}
	}
	for name, tt := range map[string]struct {
		steps []script.Step
		field string // that the error blames; "" for none
	}{
		"zones, then all":            {[]script.Step{all("zone=a"), of(10, ""), all("zone=b"), of(50, "")}, ""},
		"some of a zone, then all":   {[]script.Step{of(50, ""), of(10, "zone=a"), of(50, "zone=a"), all("zone=a")}, ""},
		"some of a part of a zone":   {[]script.Step{of(50, "zone=a"), of(10, "rack=7,zone=a")}, ""},
		"a zone twice":               {[]script.Step{all("zone=a"), of(10, ""), all("zone=a")}, "r.steps[2].selector"},
		"some of it, when all do":    {[]script.Step{all("zone=a"), of(10, "zone=a")}, "r.steps[1].selector"},
		"a part of it, when all do":  {[]script.Step{all("zone=a"), all("rack=7,zone=a")}, "r.steps[1].selector"},
		"as many of a zone again":    {[]script.Step{of(10, "zone=a"), of(5, ""), of(10, "zone=a")}, "r.steps[2].percent"},
		"as many again, not in turn": {[]script.Step{of(10, ""), all("zone=a"), of(10, "")}, "r.steps[2].percent"},
		"more than all":              {[]script.Step{of(100, "zone=a")}, "r.steps[0].percent"},
		"fewer than none":            {[]script.Step{of(-1, "zone=a")}, "r.steps[0].percent"},
	} {
		err := script.Plan{Steps: tt.steps}.Validate("r")
		if e := script.AsError(err); (tt.field == "") != (err == nil) || err != nil && (e.Kind != script.Invalid || e.Field != tt.field) {
			t.Errorf("%s: %v, want an error of %q", name, err, tt.field)
		}
	}
	if got := fmt.Sprint(all("zone=a"), " ", of(5, "zone=a"), " ", of(5, "")); got != "zone=a 5 % of zone=a 5 %" {
		t.Errorf("the steps are %s", got)
	}
}

// TestWhatACandidateSelects: what an earlier step selected stays selected, also the agents that
// come later.
func TestWhatACandidateSelects(t *testing.T) {
	name := script.Name{Tenant: "acme", Script: "route"}
	r := script.Release{Name: name, Active: script.Version{Number: 1}, Candidate: &script.Candidate{Version: script.Version{Number: 2}}}
	before := map[string]bool{}
	for i, step := range []struct {
		script.Step
		threshold uint32
	}{
		{script.Step{Selector: "zone=a", Percent: 25}, 1 << 30},
		{script.Step{Selector: "zone=b"}, script.AllSelected},
		{script.Step{Percent: 10}, 1 << 28},
		{script.Step{Selector: "zone=a", Percent: 50}, 1 << 31},
		{script.Step{Percent: 50}, 1 << 31},
		{script.Step{Selector: "zone=a"}, script.AllSelected},
	} {
		earlier := r.Candidate
		next := *earlier
		next.Select(step.Step, step.threshold)
		r.Candidate = &next
		for n := range 400 {
			agent := script.Agent{Name: fmt.Sprint("n", n)}
			switch n % 4 {
			case 0, 1:
				agent.Labels = map[string]string{"zone": []string{"a", "b"}[n%4], "rack": "7"}
			case 2: // it has labels, and is too old to know selectors
			}
			runs := r.RunsOn(agent).Number == 2
			if before[agent.Name] && !runs {
				t.Fatalf("step %d takes the version from %s", i+1, agent.Name)
			}
			if own := next.StepSelects(name, step.Step, agent); own && !runs {
				t.Fatalf("%s is of step %d, and does not run the version", agent.Name, i+1)
			}
			if was := earlier.Selects(name, agent); was != before[agent.Name] {
				t.Fatalf("step %d changed the candidate before it: %s", i+1, agent.Name)
			}
			before[agent.Name] = runs
		}
	}
	if n := len(r.Candidate.Selections); n != 2 {
		t.Errorf("there are %d selections, want one for each selector: %v", n, r.Candidate.Selections)
	}
}
