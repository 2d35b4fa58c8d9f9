package dashboards

func agent() Dashboard {
	const (
		here = `$S,instance=~"$instance"`
		only = ` * on (cluster, namespace, instance) group_left (agent) scriptorium_agent_info{` + here + `}`
	)
	return Dashboard{
		Name: "agent", Title: "Scriptorium / Agents",
		Description: "One agent, or all: what it runs, what it costs, and what it has left.",
		Variables:   variables("scriptorium_agent_info", Variable{Name: "instance", Label: "Agent", Metric: "scriptorium_agent_info"}),
		Rows: []Row{
			{"Now", []Panel{
				value("Calls", "reqps", `sum(rate(scriptorium_agent_calls_total{`+here+`}[$R]))`),
				value("Processors that scripts take", "none", `sum(rate(scriptorium_agent_running_seconds_total{`+here+`}[$R]))`),
				value("Stale by", "s", `max(scriptorium_agent_staleness_seconds{`+here+`})`).badFrom(30),
				value("NATS connected", "none", `min(scriptorium_agent_nats_connected{`+here+`})`).badBelow(1),
				value("Disk free", "percentunit", `min(scriptorium_agent_disk_free_bytes{`+here+`} / scriptorium_agent_disk_size_bytes{`+here+`})`).badBelow(0.1),
				value("Scripts blocked", "none", `sum(scriptorium_agent_quarantined_scripts{`+here+`})`).badFrom(1).says("They kill the process of their tenant."),
			}},
			{"Calls", []Panel{
				lines("Calls by outcome", "reqps", Query{`sum by (outcome) (rate(scriptorium_agent_calls_total{` + here + `}[$R])) > 0`, "{{outcome}}"}).stacked(),
				quantiles("scriptorium_agent_call_seconds", here, "Time of calls"),
				lines("Turns", "none",
					Query{`sum(scriptorium_agent_calls_running{` + here + `})`, "running"}, Query{`sum(scriptorium_agent_calls_waiting{` + here + `})`, "waiting"},
					Query{`sum(scriptorium_agent_calls_paused{` + here + `})`, "paused"}, Query{`sum(scriptorium_agent_compiles_waiting{` + here + `})`, "wait to be compiled"}),
				lines("Calls refused, by bound", "reqps", Query{`sum by (reason) (rate(scriptorium_agent_calls_overloaded_total{` + here + `}[$R]))`, "{{reason}}"}),
				lines("Connections", "none",
					Query{`sum(scriptorium_agent_connections{` + here + `})`, "open"}, Query{`sum(rate(scriptorium_agent_connections_refused_total{` + here + `}[$R]))`, "refused a second"}),
				lines("Log lines of scripts", "cps",
					Query{`sum(rate(scriptorium_agent_log_lines_total{` + here + `}[$R]))`, "logged"}, Query{`sum(rate(scriptorium_agent_log_lines_dropped_total{` + here + `}[$R]))`, "dropped"},
					Query{`sum(rate(scriptorium_agent_log_lines_unsent_total{` + here + `}[$R]))`, "not sent"}),
			}},
			{"Changes", []Panel{
				lines("Activated revision", "none", Query{`topk(10, scriptorium_agent_activated_revision{` + here + `}` + only + `)`, "{{agent}}"}),
				lines("Stale by", "s", Query{`topk(10, scriptorium_agent_staleness_seconds{` + here + `}` + only + `)`, "{{agent}}"}),
				lines("Events and syncs", "ops",
					Query{`sum(rate(scriptorium_agent_events_total{` + here + `}[$R]))`, "events"}, Query{`sum(rate(scriptorium_agent_syncs_total{` + here + `}[$R]))`, "syncs"},
					Query{`sum(rate(scriptorium_agent_syncs_failed_total{` + here + `}[$R]))`, "syncs that failed"}, Query{`sum(rate(scriptorium_agent_drifts_total{` + here + `}[$R]))`, "drifts"}),
				lines("Messages refused", "cps", Query{`sum by (reason) (rate(scriptorium_agent_messages_refused_total{` + here + `}[$R]))`, "{{reason}}"}),
				lines("Live", "none", Query{`max(scriptorium_agent_scripts{` + here + `})`, "scripts"}, Query{`max(scriptorium_agent_values{` + here + `})`, "values"}),
				lines("Wrong on the disk", "none", Query{`sum by (reason) (scriptorium_agent_disk_refused{` + here + `})`, "{{reason}}"}, Query{`sum(scriptorium_agent_untrusted_scripts{` + here + `})`, "scripts not trusted any more"}),
			}},
			{"Resources", []Panel{
				lines("Memory", "bytes", Query{`topk(10, process_resident_memory_bytes{` + here + `}` + only + `)`, "{{agent}}"}),
				lines("Processors", "none", Query{`topk(10, rate(process_cpu_seconds_total{` + here + `}[$R])` + only + `)`, "{{agent}}"}),
				lines("Disk free", "bytes", Query{`bottomk(10, scriptorium_agent_disk_free_bytes{` + here + `}` + only + `)`, "{{agent}}"}),
				lines("Caches", "bytes", Query{`sum(scriptorium_agent_program_bytes{` + here + `})`, "programs"}, Query{`sum(scriptorium_agent_value_cache_bytes{` + here + `})`, "values"}),
				lines("Programs", "ops",
					Query{`sum(rate(scriptorium_agent_program_loads_total{` + here + `}[$R]))`, "compiled for a call"}, Query{`sum(rate(scriptorium_agent_program_evictions_total{` + here + `}[$R]))`, "evicted"}),
				lines("Processes of tenants", "none",
					Query{`sum(scriptorium_agent_workers{` + here + `})`, "tenants"}, Query{`sum(scriptorium_agent_workers_serving{` + here + `})`, "serving"},
					Query{`sum(increase(scriptorium_agent_worker_restarts_total{` + here + `}[$R]))`, "restarts"}),
			}},
		},
	}
}
