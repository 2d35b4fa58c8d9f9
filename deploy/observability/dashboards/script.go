package dashboards

import "github.com/scriptorium-dev/scriptorium/deploy/observability/rules"

// one selects the scripts that were chosen.
const one = `$S,tenant=~"$tenant",script=~"$script"`

// script is for authors: of their scripts, over all agents.
func script() Dashboard {
	return Dashboard{
		Name: "script", Title: "Scriptorium / Scripts",
		Description: "For authors of scripts: calls, errors, time and cost of your scripts in the whole fleet, and which version runs.",
		Variables: variables("scriptorium_agent_info",
			Variable{Name: "tenant", Label: "Tenant", Metric: "scriptorium_script_calls_total"}, Variable{Name: "script", Label: "Script", Metric: "scriptorium_script_calls_total"}),
		Rows: []Row{
			{"Now", []Panel{
				value("Calls", "reqps", `sum(rate(scriptorium_script_calls_total{`+one+`}[$R]))`),
				value("Calls that fail", "percentunit", errorRatio("")).badFrom(0.05).says("SCRIPT, TIMEOUT, LIMIT, OVERLOADED, UNAVAILABLE and INTERNAL. Other outcomes answer what the caller did."),
				value("Time of 99 % of calls", "s", callTime("0.99", "")),
				value("Instructions per call", "short", `sum(rate(scriptorium_script_instructions_total{`+one+`}[$R])) / sum(rate(scriptorium_script_calls_total{`+one+`}[$R]))`),
				value("Allocated per call", "bytes", `sum(rate(scriptorium_script_allocated_bytes_total{`+one+`}[$R])) / sum(rate(scriptorium_script_calls_total{`+one+`}[$R]))`),
				value("Versions that run", "none", `count(count by (tenant, script, version) (scriptorium_script_info{`+one+`}))`),
			}},
			{"Calls", []Panel{
				lines("Calls by outcome", "reqps", Query{`sum by (outcome) (rate(scriptorium_script_calls_total{` + one + `}[$R])) > 0`, "{{outcome}}"}).stacked(),
				lines("Calls that fail, by script", "percentunit", Query{`topk(10, ` + errorRatio("by (tenant, script)") + `)`, "{{tenant}}/{{script}}"}),
				lines("Time of calls", "s",
					Query{callTime("0.5", ""), "median"}, Query{callTime("0.95", ""), "p95"}, Query{callTime("0.99", ""), "p99"}),
				lines("Calls by script", "reqps", Query{`topk(10, sum by (tenant, script) (rate(scriptorium_script_calls_total{` + one + `}[$R])))`, "{{tenant}}/{{script}}"}),
				lines("Time of 99 % of calls, by script", "s", Query{`topk(10, ` + callTime("0.99", "tenant, script") + `)`, "{{tenant}}/{{script}}"}),
				lines("Agents by version", "none", Query{`topk(10, count by (tenant, script, version) (scriptorium_script_info{` + one + `}))`, "{{tenant}}/{{script}} v{{version}}"}).says("On how many agents calls run each version. Two versions of a script are a rollout."),
			}},
			{"Cost", []Panel{
				lines("Instructions per call", "short", Query{`
					topk(10, sum by (tenant, script) (rate(scriptorium_script_instructions_total{` + one + `}[$R]))
					/ sum by (tenant, script) (rate(scriptorium_script_calls_total{` + one + `}[$R])))`, "{{tenant}}/{{script}}"}),
				lines("Allocated per call", "bytes", Query{`
					topk(10, sum by (tenant, script) (rate(scriptorium_script_allocated_bytes_total{` + one + `}[$R]))
					/ sum by (tenant, script) (rate(scriptorium_script_calls_total{` + one + `}[$R])))`, "{{tenant}}/{{script}}"}),
				lines("Log lines dropped", "cps", Query{`sum by (tenant, script) (rate(scriptorium_script_log_lines_dropped_total{` + one + `}[$R])) > 0`, "{{tenant}}/{{script}}"}).says("The script or its tenant logs more than it may."),
				{
					Title: "Scripts", Kind: Table, Width: 24, Labels: []string{"tenant", "script", "version"}, Unit: "short",
					Description: "The versions that agents run, and on how many of them.",
					Queries:     []Query{{`count by (tenant, script, version) (scriptorium_script_info{` + one + `})`, "agents"}},
				},
			}},
		},
	}
}

// errorRatio is the part of the calls that fail, by labels: 0 where none does.
func errorRatio(by string) string {
	all := `sum ` + by + ` (rate(scriptorium_script_calls_total{` + one + `}[$R]))`
	return `(sum ` + by + ` (rate(scriptorium_script_calls_total{` + one + `,outcome=~"` + rules.Faults + `"}[$R])) or 0 * ` + all + `) / ` + all
}

// callTime is a quantile of the native histogram, or of the classic one where agents have that.
func callTime(q, by string) string {
	const name = "scriptorium_script_call_seconds"
	classic := "le"
	if by != "" {
		classic = by + ", le"
	}
	return `histogram_quantile(` + q + `, sum by (` + by + `) (rate(` + name + `{` + one + `}[$R])))
		or histogram_quantile(` + q + `, sum by (` + classic + `) (rate(` + name + `_bucket{` + one + `}[$R])))`
}
