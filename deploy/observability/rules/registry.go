package rules

// registry is the control plane, and what it needs.
func registry() Group {
	return Group{Name: "registry", Alerts: append(controlPlane(), storage()...)}
}

func controlPlane() []Alert {
	return []Alert{
		{
			Name: "ScriptoriumRegistryAbsent", For: "5m", Severity: Critical,
			Expr:        `absent(scriptorium_registry_leader)`,
			Summary:     "Prometheus scrapes no registry.",
			Description: "All replicas of the registry are down, or Prometheus cannot reach them. Agents serve what they have. Nobody can publish.",
		},
		{
			Name: "ScriptoriumRegistryWithoutLeader", For: "1m", Severity: Critical,
			Expr:        `sum by ($BY) (scriptorium_registry_leader) != 1`,
			Summary:     "{{ $value }} replicas of the registry lead, and one must.",
			Description: "Without a leader nothing is published on NATS, rollouts stand still, and agents poll.",
		},
		{
			Name: "ScriptoriumFleetUnavailable", For: "1m", Severity: Critical,
			Expr:        `min by ($BY) (scriptorium_registry_fleet_available) == 0`,
			Summary:     "etcd does not have the fleet that the registry serves.",
			Description: "The registry refuses all requests. etcd lost its data, or --etcd-prefix is wrong. Agents serve what they have.",
		},
		{
			Name: "ScriptoriumNATSDown", For: "1m", Severity: Critical,
			Expr:        `min by ($BY) (scriptorium_registry_nats_connected) == 0`,
			Summary:     "A registry has no connection to NATS.",
			Description: "Agents poll the registry about once a second. Changes take longer, and the registry hears no agents.",
		},
		{
			Name: "ScriptoriumRegistryWritesFail", For: "5m", Severity: Warning,
			Expr:        `sum by ($BY) (rate(scriptorium_registry_writes_total{outcome="failed"}[5m])) > 0`,
			Summary:     "Writes to the registry fail.",
			Description: "{{ $value | humanize }} publishes or other writes a second fail for a reason that is not the caller's.",
		},
		{
			Name: "ScriptoriumReportsIgnored", For: "15m", Severity: Warning,
			Expr:        `sum by ($BY, reason) (rate(scriptorium_registry_agent_reports_ignored_total{reason!="stale"}[5m])) > 0`,
			Summary:     "The registry ignores reports of agents: {{ $labels.reason }}.",
			Description: "Somebody sends false statuses of agents, or agents have no session.",
		},
	}
}

func storage() []Alert {
	return []Alert{
		{
			Name: "ScriptoriumEtcdUnreachable", For: "1m", Severity: Critical,
			Expr: `
				sum by ($BY) (rate(scriptorium_registry_etcd_request_seconds_count{outcome="failed"}[2m]))
				/ sum by ($BY) (rate(scriptorium_registry_etcd_request_seconds_count[2m])) > 0.5
				or max by ($BY) (scriptorium_registry_feed_running) == 0`,
			Summary:     "etcd does not answer the registry.",
			Description: "Reads and writes fail with UNAVAILABLE. Agents serve what they have.",
		},
		{
			Name: "ScriptoriumEtcdSlow", For: "10m", Severity: Warning,
			Expr:        `histogram_quantile(0.99, sum by ($BY, le) (rate(scriptorium_registry_etcd_request_seconds_bucket{request="write",outcome="ok"}[10m]))) > 0.5`,
			Summary:     "One write in 100 takes etcd {{ $value | humanizeDuration }} or longer.",
			Description: "etcd needs a disk that syncs in milliseconds. Slow writes delay changes, and can cost the leader its lease.",
		},
		{
			Name: "ScriptoriumEtcdQuotaLow", For: "5m", Severity: Warning,
			Expr:        `max by ($BY) (scriptorium_registry_etcd_used_bytes / (scriptorium_registry_etcd_quota_bytes > 0)) > 0.75`,
			Summary:     "etcd uses {{ $value | humanizePercentage }} of its quota.",
			Description: "At 90 % the registry refuses publishes, values and imports.",
		},
		{
			Name: "ScriptoriumEtcdQuotaReached", For: "1m", Severity: Critical,
			Expr:        `max by ($BY) (scriptorium_registry_etcd_used_bytes / (scriptorium_registry_etcd_quota_bytes > 0)) > 0.9`,
			Summary:     "etcd uses {{ $value | humanizePercentage }} of its quota, and the registry refuses publishes.",
			Description: "Deletes, pins and rollbacks still work.",
		},
		{
			Name: "ScriptoriumUnreadableRecords", For: "1m", Severity: Critical,
			Expr:        `max by ($BY, kind) (scriptorium_registry_unreadable_records) > 0`,
			Summary:     "{{ $value }} records of {{ $labels.kind }} in etcd cannot be read.",
			Description: "What was live before stays live. Objects with such a record cannot be changed.",
		},
		{
			Name: "ScriptoriumGarbageCollectionStopped", For: "1h", Severity: Warning,
			Expr: `
				sum by ($BY) (increase(scriptorium_registry_collections_total{outcome="done"}[1h])) == 0
				or (sum by ($BY) (scriptorium_registry_leader) == 1) unless on ($BY) sum by ($BY) (scriptorium_registry_collections_total{outcome="done"})`,
			Summary:     "The registry collects no garbage.",
			Description: "Tombstones, sources and audit entries that nobody needs stay in etcd, until its quota is reached.",
		},
	}
}

func rollouts() Group {
	return Group{Name: "rollouts", Alerts: []Alert{
		{
			Name: "ScriptoriumCandidateStuck", For: "5m", Severity: Warning,
			Expr:        `max by ($BY) (scriptorium_registry_candidate_waiting_seconds) > 1800`,
			Summary:     "A candidate waits in its step for {{ $value | humanizeDuration }}.",
			Description: "It waits for agents, calls, a gate, an approval or another script. The pause of its step is not part of this time.",
		},
		{
			Name: "ScriptoriumCandidateFailed", For: "5m", Severity: Warning,
			Expr:        `max by ($BY) (scriptorium_registry_candidates{state="failed"}) > 0`,
			Summary:     "{{ $value }} scripts have a candidate that failed.",
			Description: "The version before stays active. Tell the authors.",
		},
		{
			Name: "ScriptoriumVersionsFrozen", For: "1d", Severity: Warning,
			Expr:        `max by ($BY) (scriptorium_registry_candidates{state="frozen"}) > 0`,
			Summary:     "{{ $value }} versions wait for the end of a freeze for a day.",
			Description: "Somebody has frozen the registry, and perhaps forgotten it.",
		},
	}}
}
