package rules

// fleet is what the registry knows of all agents.
func fleet() Group {
	return Group{Name: "fleet", Alerts: []Alert{
		{
			Name: "ScriptoriumAgentsUnknown", For: "5m", Severity: Warning,
			Expr:        `max by ($BY) (scriptorium_registry_agents{state="unknown"}) > 0`,
			Summary:     "{{ $value }} agents are not heard.",
			Description: "The registry has not heard {{ $value }} agents for more than 15 seconds. They may be down, or cut off from NATS. They serve what they had.",
		},
		{
			Name: "ScriptoriumAgentsLost", For: "2m", Severity: Critical,
			Expr: `
				max by ($BY) (scriptorium_registry_agents{state="unknown"})
				/ (max by ($BY) (scriptorium_registry_agents{state="unknown"}) + max by ($BY) (scriptorium_registry_agents{state="connected"})) > 0.1
				and max by ($BY) (scriptorium_registry_agents{state="unknown"}) >= 2`,
			Summary:     "{{ $value | humanizePercentage }} of the agents are not heard.",
			Description: "More than 10 % of the fleet is unknown at the same time. This is rarely a problem of single nodes: look at NATS, the network and the last upgrade first.",
		},
		{
			Name: "ScriptoriumFleetShrank", For: "10m", Severity: Warning,
			Expr: `
				max by ($BY) (scriptorium_registry_agents{state="connected"})
				< 0.67 * max by ($BY) (max_over_time(scriptorium_registry_agents{state="connected"}[3h]))`,
			Summary:     "Only {{ $value }} agents are connected, a third fewer than three hours ago.",
			Description: "The registry forgets an agent an hour after it was last heard. This alert still shows that the fleet has shrunk. If nodes were removed on purpose, it ends after three hours.",
		},
		{
			Name: "ScriptoriumAgentsForeign", For: "5m", Severity: Warning,
			Expr:        `max by ($BY) (scriptorium_registry_agents{state="foreign"}) > 0`,
			Summary:     "{{ $value }} agents belong to another fleet.",
			Description: "These agents run the scripts of another fleet, and take nothing from this registry.",
		},
		{
			Name: "ScriptoriumAgentsHeld", For: "1m", Severity: Critical,
			Expr:        `max by ($BY) (scriptorium_registry_agents_troubled{trouble="held"}) > 0`,
			Summary:     "{{ $value }} agents keep scripts that the registry does not have.",
			Description: "The registry has no record of many scripts, or of their removal, so these agents keep what was live. The registry has probably lost data.",
		},
		{
			Name: "ScriptoriumAgentsFailing", For: "5m", Severity: Warning,
			Expr:        `max by ($BY) (scriptorium_registry_agents_troubled{trouble="failed"}) > 0`,
			Summary:     "{{ $value }} agents could not activate a release.",
			Description: "These agents run the version that they had before.",
		},
	}}
}

// agents is what each agent says of itself.
func agents() Group {
	return Group{Name: "agents", Alerts: []Alert{
		{
			Name: "ScriptoriumDriftNotHealing", For: "5m", Severity: Warning,
			Expr:        `scriptorium_agent_drifting == 1`,
			Summary:     "The agent {{ $labels.instance }} differs from the registry and does not repair itself.",
			Description: "What is live on the agent differs from the registry's checksum for more than five minutes, although the agent fetched everything again.",
		},
		{
			Name: "ScriptoriumDriftRepeats", For: "0m", Severity: Warning,
			Expr:        `increase(scriptorium_agent_drifts_total[1h]) > 3`,
			Summary:     "The agent {{ $labels.instance }} drifts again and again.",
			Description: "The agent differed from the registry {{ $value | humanize }} times within an hour, and repaired itself each time.",
		},
		{
			Name: "ScriptoriumAgentStale", For: "2m", Severity: Warning,
			Expr:        `scriptorium_agent_staleness_seconds > 30 or scriptorium_agent_staleness_seconds == -1`,
			Summary:     "The agent {{ $labels.instance }} hears neither NATS nor the registry.",
			Description: "The agent was last current {{ $value | humanizeDuration }} ago; -1 means never since its start. It serves what it has, and gets no changes.",
		},
		{
			Name: "ScriptoriumAgentWithoutNATS", For: "5m", Severity: Warning,
			Expr:        `scriptorium_agent_nats_connected == 0`,
			Summary:     "The agent {{ $labels.instance }} has no connection to NATS.",
			Description: "The agent polls the registry about once a second. Changes take longer, and the registry does not hear the agent.",
		},
		{
			Name: "ScriptoriumAgentDiskFailing", For: "1m", Severity: Critical,
			Expr:        `scriptorium_agent_disk_failing == 1`,
			Summary:     "The agent {{ $labels.instance }} cannot write its state folder.",
			Description: "Changes do not go live on this node until the disk can be written. What was live stays live.",
		},
		{
			Name: "ScriptoriumAgentDiskFull", For: "15m", Severity: Warning,
			Expr:        `scriptorium_agent_disk_free_bytes / scriptorium_agent_disk_size_bytes < 0.1`,
			Summary:     "The disk of the agent {{ $labels.instance }} has {{ $value | humanizePercentage }} left.",
			Description: "Without room for its state folder the agent takes no changes.",
		},
		{
			Name: "ScriptoriumAgentDiskRefused", For: "0m", Severity: Warning,
			Expr:        `scriptorium_agent_disk_refused > 0`,
			Summary:     "The agent {{ $labels.instance }} rejected {{ $value }} files of its state folder: {{ $labels.reason }}.",
			Description: "At its start the agent found files that are corrupt or not signed by a trusted key. It fetches them again.",
		},
		{
			Name: "ScriptoriumMessagesRefused", For: "5m", Severity: Warning,
			Expr:        `sum by ($BY, reason) (rate(scriptorium_agent_messages_refused_total[5m])) > 0`,
			Summary:     "Agents refuse messages: {{ $labels.reason }}.",
			Description: "Somebody sends forged, altered, old or foreign messages on NATS, or a registry signs with a key that the agents do not trust.",
		},
		{
			Name: "ScriptoriumConnectionsRefused", For: "5m", Severity: Warning,
			Expr:        `rate(scriptorium_agent_connections_refused_total[5m]) > 0`,
			Summary:     "The agent {{ $labels.instance }} refuses connections of callers.",
			Description: "A caller, or all callers together, have as many connections as they may.",
		},
		{
			Name: "ScriptoriumHeapGrows", For: "5m", Severity: Warning,
			Expr:        `rate(scriptorium_agent_heap_spared_total[5m]) > 0`,
			Summary:     "The heap of the agent {{ $labels.instance }} grows, and no script is the reason.",
			Description: "The agent needs much memory for unread replies, caches or garbage.",
		},
	}}
}
