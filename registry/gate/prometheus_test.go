package gate_test

import (
	"log/slog"
	"net/url"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/prometheustest"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/gate"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestARealPrometheus: what it says of numbers, of no number, of nothing, of much and of what is no
// query.
func TestARealPrometheus(t *testing.T) {
	server := prometheustest.Start(t)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	sources := gate.NewSources(slog.New(slog.DiscardHandler), func(string, fleet.GateResult) {})
	sources.Replace([]gate.Source{{Name: "main", Kind: script.Prometheus, URL: u}})
	want := func(query string, want gate.Answer) {
		t.Helper()
		q := toMain()
		q.Gate.Query = query
		if got := sources.Ask(t.Context(), q); got != want {
			t.Errorf("%s: %+v, want %+v", query, got, want)
		}
	}
	is := func(v string) string { return "the value is " + v + ", want at least -1 and at most 0.01" }
	const ratio = `errors{script="$tenant/$script",version="$version"} / calls{script="$tenant/$script",version="$version"}`
	server.Expose(t, `errors{script="acme/route",version="8"} 3
errors{script="acme/route",version="7"} 90
calls{script="acme/route",version="8"} 1000
calls{script="acme/route",version="7"} 1000
`, `calls{version="7"}`, true)
	want(ratio, passes(is("0.003")))
	want("sum(errors) / sum(calls)", waits(is("0.0465")))
	want("scalar(sum(calls)) * 0", passes(is("0")))
	want("0 / 0", waits(is("NaN")))
	want("sum(errors) / 0", waits(is("+Inf")))
	want(`errors{script=~"$tenant/.*$"}`, fails("the query finds 2 values, want 1: aggregate them, for example with sum()"))
	want(`errors{script="$tenant"}`, fails("the query finds no data"))
	want("errors[5m]", fails(`the query's value is neither a scalar nor a vector`))
	want(`"text"`, fails("the query's value is neither a scalar nor a vector"))
	want(`histogram_quantile(0.9, sum by (le) (label_replace(errors, "le", "x", "version", ".*")))`,
		fails(`the query's result has a warning: PromQL warning: bucket label "le" is missing or has a malformed value of "x" (1:25)`))
	want("sum(errors", fails("the query fails: bad_data: invalid parameter \"query\": 1:11: parse error: unclosed left parenthesis"))

	server.Expose(t, "other 1\n", `errors`, false) // it is not scraped any more
	want(ratio, fails("the query finds no data"))
}
