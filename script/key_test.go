package script_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

func TestKeySources(t *testing.T) {
	const none = ""
	for text, want := range map[string]script.KeySource{
		"request.headers.x-user":          "request.headers.x-user",
		"request.headers.X-User":          "request.headers.x-user",
		"request.cookies.Session":         "request.cookies.Session",
		"request.cookies.a.b":             "request.cookies.a.b",
		"request.query_params.id[0]":      "request.query_params.id[0]",
		"request.remote_addr":             "request.remote_addr",
		"request.remote_addr.x":           none,
		"request.headers":                 none,
		"request.headers.":                none,
		"request.headers.a b":             none,
		"request.headers.a:b":             none,
		"request.headers.Scriptorium-Key": none,
		"request.cookies.a=b":             none,
		"request.query_params.ä":          none,
		"request.body":                    none,
		"headers.x-user":                  none,
		"":                                none,
	} {
		got, err := script.ParseKeySource("f", text)
		if got != want || (err != nil) != (want == none) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
		if err != nil && (script.KindOf(err) != script.Invalid || script.AsError(err).Field != "f") {
			t.Errorf("%q: %v, want Invalid of f", text, err)
		}
	}
	if part, name := script.KeySource("request.cookies.a.b").Parts(); part != script.KeyCookie || name != "a.b" {
		t.Errorf("%q %q", part, name)
	}
}

// TestStepsByKey: percentages of keys grow, on agents that a step before has them on, and steps by
// agents come after them.
func TestStepsByKey(t *testing.T) {
	key := func(percent int, selector script.AgentSelector) script.Step {
		return script.Step{Percent: percent, By: script.ByKey, Selector: selector}
	}
	agents := func(percent int, selector script.AgentSelector) script.Step {
		return script.Step{Percent: percent, Selector: selector}
	}
	for name, c := range map[string]struct {
		steps []script.Step
		key   script.KeySource
		want  string // the field of the error
	}{
		"keys":                              {steps: []script.Step{key(1, ""), key(10, "")}},
		"keys, then agents":                 {steps: []script.Step{key(1, ""), key(10, ""), agents(5, ""), agents(50, "")}},
		"a zone, then keys":                 {steps: []script.Step{agents(0, "zone=a"), key(1, "")}},
		"keys of a zone, then of all":       {steps: []script.Step{key(10, "zone=a"), key(1, "")}},
		"keys of all, then more of a zone":  {steps: []script.Step{key(10, ""), key(20, "zone=a")}},
		"a source":                          {steps: []script.Step{key(1, "")}, key: "request.headers.x-user"},
		"agents, then keys":                 {[]script.Step{agents(10, ""), key(20, "")}, "", "p.steps[1].by"},
		"as many keys":                      {[]script.Step{key(10, ""), key(10, "")}, "", "p.steps[1].percent"},
		"fewer keys after agents of a zone": {[]script.Step{key(10, ""), agents(0, "zone=a"), key(5, "")}, "", "p.steps[2].percent"},
		"as many keys of a zone":            {[]script.Step{key(10, ""), key(10, "zone=a")}, "", "p.steps[1].percent"},
		"keys of a zone that runs it":       {[]script.Step{agents(0, "zone=a"), key(10, "zone=a")}, "", "p.steps[1].selector"},
		"no keys":                           {[]script.Step{key(0, "")}, "", "p.steps[0].percent"},
		"no keys of a zone":                 {[]script.Step{key(0, "zone=a")}, "", "p.steps[0].percent"},
		"all keys":                          {[]script.Step{key(100, "")}, "", "p.steps[0].percent"},
		"by something else":                 {[]script.Step{{Percent: 1, By: "user"}}, "", "p.steps[0].by"},
		"a source without steps by key":     {[]script.Step{agents(1, "")}, "request.remote_addr", "p.key"},
		"a source in another form":          {[]script.Step{key(1, "")}, "request.headers.X-User", "p.key"},
		"no source":                         {[]script.Step{key(1, "")}, "user", "p.key"},
	} {
		field := ""
		if err := (script.Plan{Steps: c.steps, Key: c.key}).Validate("p"); err != nil {
			field = script.AsError(err).Field
		}
		if field != c.want {
			t.Errorf("%s: an error of %q, want %q", name, field, c.want)
		}
	}
	for step, want := range map[script.Step]string{
		key(1, ""):       "1 % of keys; 1 % of the keys on all agents",
		key(1, "zone=a"): "1 % of keys on zone=a; 1 % of the keys on the agents with zone=a",
	} {
		if got := step.String() + "; " + step.Agents(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestKeysOn: what calls with keys run on an agent, from step to step.
func TestKeysOn(t *testing.T) {
	name := script.Name{Tenant: "acme", Script: "route"}
	in, out := script.Agent{Name: "a", Labels: map[string]string{"zone": "a"}}, script.Agent{Name: "b"}
	r := script.Release{
		Name: name, Active: script.Version{Number: 1},
		Candidate: &script.Candidate{Version: script.Version{Number: 2}},
	}
	c := r.Candidate
	expect := func(when string, wantIn, wantOut uint32, any bool) {
		t.Helper()
		if gotIn, gotOut := r.KeysOn(in), r.KeysOn(out); gotIn != wantIn || gotOut != wantOut || c.SelectsAny() != any {
			t.Errorf("%s: %d and %d, %v, want %d and %d, %v", when, gotIn, gotOut, c.SelectsAny(), wantIn, wantOut, any)
		}
	}
	expect("at first", 0, 0, false)
	c.Select(script.Step{By: script.ByKey, Selector: "zone=a"}, 10)
	expect("in a zone", 10, 0, true)
	c.Select(script.Step{By: script.ByKey}, 20)
	expect("everywhere", 20, 20, true)
	c.Select(script.Step{By: script.ByKey, Selector: "zone=a"}, 30)
	expect("more in the zone", 30, 20, true)
	if len(c.Keys) != 2 || c.Selects(name, in) || r.RunsOn(in).Number != 1 {
		t.Errorf("the selections are %v, and the agent runs version %d for all calls", c.Keys, r.RunsOn(in).Number)
	}
	c.Select(script.Step{Selector: "zone=a"}, script.AllSelected)
	expect("all calls in the zone", 0, 20, true)
	if r.RunsOn(in).Number != 2 || r.RunsOn(out).Number != 1 {
		t.Error("the zone does not run the candidate, or all do")
	}
	step := script.Step{By: script.ByKey, Selector: "zone=a"}
	if !c.StepSelects(name, step, in) || c.StepSelects(name, step, out) {
		t.Error("a step by key selects other agents than those with its labels")
	}
	r.Active = c.Version
	expect("of a first version", 0, 0, true)
}

// TestKeySalt: each version, script and attempt of a change set begins with other keys. Scripts of a
// change set have the same.
func TestKeySalt(t *testing.T) {
	name := script.Name{Tenant: "acme", Script: "route"}
	c := script.Candidate{Version: script.Version{Number: 8}, Attempt: 99}
	if got := c.KeySalt(name); got != "acme/route@8" {
		t.Error(got)
	}
	c.Set = &script.Membership{Name: "spring", Attempt: 12}
	if got := c.KeySalt(name); got != "acme/spring#12" {
		t.Error(got)
	}
}
