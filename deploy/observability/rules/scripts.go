package rules

// Faults are the outcomes of calls that nobody asked for: DENIED, DISABLED, NOTFOUND and INVALID answer
// what the caller did.
const Faults = "SCRIPT|TIMEOUT|LIMIT|OVERLOADED|UNAVAILABLE|INTERNAL"

func scripts() Group {
	return Group{Name: "scripts", Alerts: []Alert{
		{
			Name: "ScriptoriumScriptErrors", For: "5m", Severity: Warning,
			Expr: `
				sum by ($BY, tenant, script) (rate(scriptorium_script_calls_total{outcome=~"` + Faults + `"}[5m]))
				/ sum by ($BY, tenant, script) (rate(scriptorium_script_calls_total[5m])) > 0.05
				and sum by ($BY, tenant, script) (rate(scriptorium_script_calls_total[5m])) > 0.2`,
			Summary:     "{{ $value | humanizePercentage }} of the calls of {{ $labels.tenant }}/{{ $labels.script }} fail.",
			Description: "More than 5 % of the script's calls fail in the whole fleet. Tell the script's author, or roll back.",
		},
		{
			Name: "ScriptoriumCallsOverloaded", For: "5m", Severity: Critical,
			Expr: `
				sum by ($BY, instance) (rate(scriptorium_agent_calls_total{outcome="OVERLOADED"}[5m]))
				/ sum by ($BY, instance) (rate(scriptorium_agent_calls_total[5m])) > 0.01`,
			Summary:     "The agent {{ $labels.instance }} refuses {{ $value | humanizePercentage }} of the calls.",
			Description: "Calls are answered with OVERLOADED. The metric scriptorium_agent_calls_overloaded_total has the bound that they met.",
		},
		{
			Name: "ScriptoriumCallsTimeOut", For: "10m", Severity: Warning,
			Expr: `
				sum by ($BY, instance) (rate(scriptorium_agent_calls_total{outcome="TIMEOUT"}[5m]))
				/ sum by ($BY, instance) (rate(scriptorium_agent_calls_total[5m])) > 0.01`,
			Summary:     "{{ $value | humanizePercentage }} of the calls on {{ $labels.instance }} time out.",
			Description: "Calls take longer than their limit. A script is slow, or the node has no processor for it.",
		},
		{
			Name: "ScriptoriumScriptsQuarantined", For: "0m", Severity: Warning,
			Expr:        `scriptorium_agent_quarantined_scripts > 0`,
			Summary:     "The agent {{ $labels.instance }} blocks {{ $value }} scripts.",
			Description: "These scripts kill the process of their tenant. Their calls fail.",
		},
		{
			Name: "ScriptoriumScriptsUntrusted", For: "5m", Severity: Warning,
			Expr:        `max by ($BY) (scriptorium_agent_untrusted_scripts) > 0`,
			Summary:     "{{ $value }} live scripts are signed with a key that agents no longer trust.",
			Description: "An agent serves them until it restarts, and then loads them no more.",
		},
	}}
}

func telemetry() Group {
	return Group{Name: "telemetry", Alerts: []Alert{
		{
			Name: "ScriptoriumAuditRefusesCalls", For: "1m", Severity: Critical,
			Expr:        `sum by ($BY, instance) (rate(scriptorium_decision_log_refused_calls_total[5m])) > 0`,
			Summary:     "The agent {{ $labels.instance }} refuses calls of tenants with a strict audit.",
			Description: "It cannot keep the records of {{ $value | humanize }} calls a second, so these calls fail.",
		},
		{
			Name: "ScriptoriumDecisionLogDropping", For: "5m", Severity: Warning,
			Expr:        `sum by ($BY, sink, reason) (rate(scriptorium_decision_log_dropped_total[5m])) > 0`,
			Summary:     "Agents drop records of the decision log: sink {{ $labels.sink }}, {{ $labels.reason }}.",
			Description: "The sink does not take {{ $value | humanize }} records a second. Calls are not affected, and the dropped records are lost.",
		},
		{
			Name: "ScriptoriumTracesDropping", For: "15m", Severity: Warning,
			Expr:        `sum by ($BY, job, reason) (rate(scriptorium_trace_spans_dropped_total{reason!="rate"}[5m])) > 0`,
			Summary:     "{{ $labels.job }} drops spans: {{ $labels.reason }}.",
			Description: "The collector of traces does not take {{ $value | humanize }} spans a second. Calls are not affected, and traces have holes.",
		},
		{
			Name: "ScriptoriumUsageDropping", For: "15m", Severity: Warning,
			Expr:        `sum by ($BY, reason) (rate(scriptorium_registry_usage_dropped_total[5m])) > 0`,
			Summary:     "The registry drops usage of tenants: {{ $labels.reason }}.",
			Description: "What `scriptctl usage` shows, and what a bill is made of, is too low for this time.",
		},
	}}
}
