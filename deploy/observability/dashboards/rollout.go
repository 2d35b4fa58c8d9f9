package dashboards

func rollout() Dashboard {
	return Dashboard{
		Name: "rollout", Title: "Scriptorium / Rollouts",
		Description: "What is being rolled out, does it go on, and what stops it?",
		Variables:   variables("scriptorium_registry_leader"),
		Rows: []Row{
			{"Now", []Panel{
				value("Under test", "none", `sum(max by (cluster, namespace) (scriptorium_registry_candidates{$S,state="testing"}))`),
				value("Rolling out", "none", `sum(max by (cluster, namespace) (scriptorium_registry_candidates{$S,state="rolling_out"}))`),
				value("Failed", "none", `sum(max by (cluster, namespace) (scriptorium_registry_candidates{$S,state="failed"}))`).badFrom(1),
				value("Frozen", "none", `sum(max by (cluster, namespace) (scriptorium_registry_candidates{$S,state="frozen"}))`),
				value("Longest wait in a step", "s", `max(scriptorium_registry_candidate_waiting_seconds{$S})`).badFrom(1800).says("Without the step's pause. Failed and frozen candidates do not count."),
				value("Agents that failed", "none", `sum(max by (cluster, namespace) (scriptorium_registry_agents_troubled{$S,trouble="failed"}))`).badFrom(1),
			}},
			{"Candidates", []Panel{
				lines("Candidates by state", "none", Query{`max by (state) (scriptorium_registry_candidates{$S})`, "{{state}}"}).stacked(),
				lines("Moves", "none", Query{`sum by (move, outcome) (increase(scriptorium_registry_candidate_moves_total{$S}[$R]))`, "{{move}}, {{outcome}}"}).says("What the leader did to candidates: advance by a step, promote, or abort."),
				lines("Longest wait in a step", "s", Query{`max(scriptorium_registry_candidate_waiting_seconds{$S})`, "longest"}),
				lines("Answers of gates", "none", Query{`sum by (source, result) (increase(scriptorium_registry_gate_answers_total{$S}[$R]))`, "{{source}}: {{result}}"}),
				lines("Agents that could not activate a release", "none", Query{`max by (trouble) (scriptorium_registry_agents_troubled{$S})`, "{{trouble}}"}),
				lines("Publishes", "wps", Query{`sum by (outcome) (rate(scriptorium_registry_writes_total{$S,change=~"publish.*"}[$R]))`, "{{outcome}}"}),
			}},
			{"Speed", []Panel{
				quantiles("scriptorium_registry_converged_seconds", "$S", "From commit to live everywhere").wide(12),
				quantiles("scriptorium_registry_rollout_seconds", "$S", "From commit to live, each agent").wide(12),
			}},
			{"Kubernetes", []Panel{
				quantiles("scriptorium_operator_converged_seconds", "$S", "From the object to its status Converged").says("Rollouts in steps, and stalled changes, do not count."),
				lines("Requests of the operator", "reqps", Query{`sum by (request, outcome) (rate(scriptorium_operator_registry_requests_total{$S}[$R]))`, "{{request}}, {{outcome}}"}),
				lines("Objects that wait", "none", Query{`sum by (controller) (workqueue_depth{$S,controller=~"script|luascript|scripttenant"})`, "{{controller}}"}),
				lines("Reconciliations that fail", "ops", Query{`sum by (controller) (rate(controller_runtime_reconcile_errors_total{$S,controller=~"script|luascript|scripttenant"}[$R]))`, "{{controller}}"}),
				lines("Status writes", "wps", Query{`sum by (outcome) (rate(scriptorium_operator_status_patches_total{$S}[$R]))`, "{{outcome}}"}),
				lines("The operator", "none", Query{`sum(scriptorium_operator_leader{$S})`, "leaders"}, Query{`max(scriptorium_operator_fleet_watch_live{$S})`, "watches the fleet"}),
			}},
		},
	}
}
