package rules

func operator() Group {
	return Group{Name: "operator", Alerts: []Alert{
		{
			Name: "ScriptoriumOperatorWithoutLeader", For: "5m", Severity: Warning,
			Expr:        `sum by ($BY) (scriptorium_operator_leader) != 1`,
			Summary:     "{{ $value }} operators lead, and one must.",
			Description: "Without a leader, changes of scripts in Kubernetes are not published.",
		},
		{
			Name: "ScriptoriumOperatorBlind", For: "1m", Severity: Warning,
			Expr:        `max by ($BY) (scriptorium_operator_fleet_watch_live) == 0`,
			Summary:     "The operator does not know what agents run.",
			Description: "The condition Converged of Scripts and LuaScripts is Unknown. The operator cannot watch the registry.",
		},
		{
			Name: "ScriptoriumReconcileErrors", For: "15m", Severity: Warning,
			Expr:        `sum by ($BY, controller) (rate(controller_runtime_reconcile_errors_total{controller=~"script|luascript|scripttenant"}[5m])) > 0.1`,
			Summary:     "The operator fails to reconcile: {{ $labels.controller }}.",
			Description: "{{ $value | humanize }} attempts a second fail. The status of the objects has the reason.",
		},
		{
			Name: "ScriptoriumReconcileQueueGrows", For: "15m", Severity: Warning,
			Expr:        `sum by ($BY, controller) (workqueue_depth{controller=~"script|luascript|scripttenant"}) > 100`,
			Summary:     "{{ $value }} objects wait for the operator: {{ $labels.controller }}.",
			Description: "Changes of these objects are published late.",
		},
	}}
}
