package dashboards

func registry() Dashboard {
	const grpc = `$S,grpc_service=~"scriptorium.*"`
	return Dashboard{
		Name: "registry", Title: "Scriptorium / Registry",
		Description: "The control plane: the registry's replicas, etcd and NATS.",
		Variables:   variables("scriptorium_registry_leader"),
		Rows: []Row{
			{"Now", []Panel{
				value("Leaders", "none", `sum(scriptorium_registry_leader{$S})`).badBelow(1),
				value("Fleet in etcd", "none", `min(scriptorium_registry_fleet_available{$S})`).badBelow(1).says("0: etcd does not have the fleet, and all requests fail."),
				value("NATS connected", "none", `min(scriptorium_registry_nats_connected{$S})`).badBelow(1),
				value("etcd's quota used", "percentunit", `max(scriptorium_registry_etcd_used_bytes{$S} / (scriptorium_registry_etcd_quota_bytes{$S} > 0))`).badFrom(0.75),
				value("Unreadable records", "none", `max(sum by (instance) (scriptorium_registry_unreadable_records{$S}))`).badFrom(1),
				value("Certificates expire in", "s", `
					min(scriptorium_registry_certificate_expiry_timestamp_seconds{$S} or scriptorium_agent_certificate_expiry_timestamp_seconds{$S}
					or scriptorium_operator_certificate_expiry_timestamp_seconds{$S}) - time()`).badBelow(21 * 24 * 60 * 60).says("The one that expires first, of registries, agents and operators."),
			}},
			{"Requests", []Panel{
				lines("Requests", "reqps", Query{`topk(10, sum by (grpc_method) (rate(grpc_server_handled_total{` + grpc + `}[$R])))`, "{{grpc_method}}"}),
				lines("Requests that fail", "reqps", Query{`sum by (grpc_method, grpc_code) (rate(grpc_server_handled_total{` + grpc + `,grpc_code=~"Unavailable|Internal|Unknown|DeadlineExceeded|ResourceExhausted"}[$R])) > 0`, "{{grpc_method}} {{grpc_code}}"}),
				lines("Time of 99 % of requests", "s", Query{`topk(10, histogram_quantile(0.99, sum by (grpc_method, le) (rate(grpc_server_handling_seconds_bucket{` + grpc + `,grpc_type="unary"}[$R]))))`, "{{grpc_method}}"}),
				lines("Writes", "wps", Query{`sum by (change, outcome) (rate(scriptorium_registry_writes_total{$S}[$R]))`, "{{change}}, {{outcome}}"}),
				lines("Callers refused", "reqps", Query{`sum by (reason) (rate(scriptorium_registry_callers_refused_total{$S}[$R]))`, "{{reason}}"}),
				lines("Reports of agents", "cps",
					Query{`sum(rate(scriptorium_registry_agent_reports_total{$S}[$R]))`, "received"},
					Query{`sum by (reason) (rate(scriptorium_registry_agent_reports_ignored_total{$S}[$R])) > 0`, "ignored: {{reason}}"}),
			}},
			{"etcd", []Panel{
				lines("Time of 99 % of requests", "s", Query{`histogram_quantile(0.99, sum by (request, le) (rate(scriptorium_registry_etcd_request_seconds_bucket{$S,outcome="ok"}[$R])))`, "{{request}}"}),
				lines("Requests", "reqps", Query{`sum by (request, outcome) (rate(scriptorium_registry_etcd_request_seconds_count{$S}[$R]))`, "{{request}}, {{outcome}}"}),
				lines("Database", "bytes", Query{`max(scriptorium_registry_etcd_used_bytes{$S})`, "used"}, Query{`max(scriptorium_registry_etcd_quota_bytes{$S})`, "quota"}),
				lines("Garbage collected", "none", Query{`sum by (what) (increase(scriptorium_registry_collected_total{$S}[$R]))`, "{{what}}"}),
				lines("Rounds of garbage collection", "none", Query{`sum by (outcome) (increase(scriptorium_registry_collections_total{$S}[1h]))`, "{{outcome}}, in an hour"}),
				lines("Stored about agents", "bytes", Query{`max(scriptorium_registry_agents_remembered_bytes{$S})`, "in etcd"}, Query{`max(scriptorium_registry_agents_reported_bytes{$S})`, "in memory"}),
			}},
			{"Feed", []Panel{
				lines("Replicas", "none", Query{`scriptorium_registry_leader{$S}`, "{{instance}} leads"}, Query{`scriptorium_registry_feed_running{$S}`, "{{instance}} keeps up"}),
				lines("Published on NATS", "ops",
					Query{`sum(rate(scriptorium_registry_events_published_total{$S}[$R]))`, "events"}, Query{`sum(rate(scriptorium_registry_beacons_published_total{$S}[$R]))`, "beacons"},
					Query{`sum by (reason) (rate(scriptorium_registry_publish_failures_total{$S}[$R]))`, "failed: {{reason}}"}),
				lines("Releases in memory", "none", Query{`max(scriptorium_registry_mirror_releases{$S})`, "releases"}),
				lines("Processors", "none", Query{`rate(process_cpu_seconds_total{$S}[$R]) * on (cluster, namespace, instance) group_left () (scriptorium_registry_leader{$S} >= bool 0)`, "{{instance}}"}),
				lines("Memory", "bytes", Query{`process_resident_memory_bytes{$S} * on (cluster, namespace, instance) group_left () (scriptorium_registry_leader{$S} >= bool 0)`, "{{instance}}"}),
				lines("Takeovers", "none", Query{`sum(increase(scriptorium_registry_takeovers_total{$S}[$R]))`, "a replica began to lead"}),
			}},
		},
	}
}
