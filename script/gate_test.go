package script_test

import (
	"math"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// errorRatio is a gate whose query's value may be one percent.
func errorRatio() script.Gate {
	return script.Gate{Kind: script.Prometheus, Source: "main", Query: `sum(errors{script="$tenant/$script"})`, Max: script.Bound{Set: true, Value: 0.01}}
}

func TestGates(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*script.Gate)
		want   string // of the error; "" for none
	}{
		"a query":               {func(*script.Gate) {}, ""},
		"a webhook":             {func(g *script.Gate) { *g = script.Gate{Kind: script.Webhook, Source: "ci"} }, ""},
		"none":                  {func(g *script.Gate) { *g = script.Gate{} }, ""},
		"a range":               {func(g *script.Gate) { g.Min.Set = true }, ""},
		"an exact value":        {func(g *script.Gate) { g.Min = g.Max }, ""},
		"at most nothing":       {func(g *script.Gate) { g.Max.Value = 0 }, ""},
		"several lines":         {func(g *script.Gate) { g.Query = "sum(\n\trate(x[5m])\n)" }, ""},
		"another kind":          {func(g *script.Gate) { g.Kind = "exec" }, `gate: is of the kind "exec", want prometheus or webhook`},
		"no kind":               {func(g *script.Gate) { g.Kind = "" }, `gate: is of the kind ""`},
		"no source":             {func(g *script.Gate) { g.Source = "" }, `gate.prometheus: "" is no source of gates`},
		"an address":            {func(g *script.Gate) { g.Source = "http://169.254.169.254/" }, `gate.prometheus: "http://169.254.169.254/" is no source`},
		"no query":              {func(g *script.Gate) { g.Query = " \n" }, "gate.query: is missing"},
		"a long query":          {func(g *script.Gate) { g.Query = strings.Repeat("x", script.MaxQueryBytes+1) }, "gate.query: has 2049 bytes"},
		"a query with escapes":  {func(g *script.Gate) { g.Query = "up\x1b[2J" }, "gate.query: contains the control character U+001B"},
		"a query of other text": {func(g *script.Gate) { g.Query = "\xff" }, "gate.query: is not valid UTF-8"},
		"a misspelled variable": {func(g *script.Gate) { g.Query = `up{script="$scrpt"}` }, "gate.query: $scrpt is no variable: there are $tenant, $script"},
		"no bound":              {func(g *script.Gate) { g.Max = script.Bound{} }, "gate.max: is missing"},
		"bounds that meet none": {func(g *script.Gate) { g.Min = script.Bound{Set: true, Value: 1} }, "gate.min: 1 is more than max, 0.01"},
		"a bound of no number":  {func(g *script.Gate) { g.Max.Value = math.NaN() }, "gate.max: NaN is not a number"},
		"a bound beyond all":    {func(g *script.Gate) { g.Max.Value = math.Inf(1) }, "gate.max: +Inf is not a number"},
		"a webhook's query":     {func(g *script.Gate) { g.Kind = script.Webhook }, "gate.query: is for prometheus"},
		"a webhook's bound":     {func(g *script.Gate) { g.Kind, g.Query = script.Webhook, "" }, "gate.max: is for prometheus"},
	} {
		g := errorRatio()
		tt.change(&g)
		err := script.Plan{Steps: []script.Step{{Percent: 5, Gate: g}}}.Validate("spec.rollout")
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "spec.rollout.steps[0]."+tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestWithin(t *testing.T) {
	g := errorRatio()
	g.Min = script.Bound{Set: true, Value: -1}
	for value, want := range map[float64]bool{
		0: true, 0.01: true, -1: true, 0.010001: false, -1.1: false, math.Inf(1): false, math.Inf(-1): false, math.NaN(): false,
	} {
		if g.Within(value) != want {
			t.Errorf("%v is within: %v", value, !want)
		}
	}
	if g.Max.Set = false; g.Within(math.Inf(1)) || !g.Within(1e300) {
		t.Error("without a maximum, a number is within and infinity is not")
	}
}

func TestExpandQuery(t *testing.T) {
	variables := script.QueryVariables(script.Name{Tenant: "acme", Script: "re-route"}, 8, 7, 2)
	for query, want := range map[string]string{
		`up{t="$tenant",s="$script"}`:                    `up{t="acme",s="re-route"}`,
		"$version-$active*$step":                         "8-7*2",
		`{a=~"$tenant$"}`:                                `{a=~"acme$"}`,
		`label_replace(up, "a", "${1}$2", "b", "(.*)$")`: `label_replace(up, "a", "${1}$2", "b", "(.*)$")`,
		"": "", "$": "$", "$$tenant": "$acme",
	} {
		if got, err := script.ExpandQuery("query", query, variables); err != nil || got != want {
			t.Errorf("%s became %s, %v; want %s", query, got, err, want)
		}
	}
	for _, query := range []string{"$tenants", "$Tenant", "$_", "up $step_"} {
		if got, err := script.ExpandQuery("query", query, variables); script.KindOf(err) != script.Invalid {
			t.Errorf("%s became %s, %v; want an INVALID error", query, got, err)
		}
	}
	for _, name := range []string{`acme"}`, "acme\\", "a b", "a{", "a'", "a`", "é"} { // of a record that no registry wrote
		hostile := script.QueryVariables(script.Name{Tenant: name}, 1, 1, 1)
		if got, err := script.ExpandQuery("query", `up{t="$tenant"}`, hostile); script.KindOf(err) != script.Invalid {
			t.Errorf("tenant %s: it became %s, %v; want an INVALID error", name, got, err)
		}
	}
}
