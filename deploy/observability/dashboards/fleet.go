package dashboards

import "github.com/scriptorium-dev/scriptorium/deploy/observability/rules"

func fleet() Dashboard {
	return Dashboard{
		Name: "fleet", Title: "Scriptorium / Fleet",
		Description: "Is the fleet healthy: do all agents run what was published, how fast do changes reach them, and do calls succeed?",
		Variables:   variables("scriptorium_registry_leader"),
		Rows: []Row{
			{"Now", []Panel{
				value("Agents connected", "none", `sum(max by (cluster, namespace) (scriptorium_registry_agents{$S,state="connected"}))`),
				value("Agents unknown", "none", `sum(max by (cluster, namespace) (scriptorium_registry_agents{$S,state="unknown"}))`).badFrom(1).says("Not heard for 15 seconds."),
				value("Agents that failed", "none", `sum(max by (cluster, namespace) (scriptorium_registry_agents_troubled{$S,trouble="failed"}))`).badFrom(1).says("They could not activate a release."),
				value("Oldest change not live", "s", `max(scriptorium_registry_agents_behind_seconds{$S})`).badFrom(60).says("How long ago the oldest change was published that a connected agent has not activated."),
				value("Calls", "reqps", `sum(rate(scriptorium_agent_calls_total{$S}[$R]))`),
				value("Calls that fail", "percentunit", `
					sum(rate(scriptorium_agent_calls_total{$S,outcome=~"`+rules.Faults+`"}[$R]))
					/ sum(rate(scriptorium_agent_calls_total{$S}[$R]))`).badFrom(0.05),
			}},
			{"Changes", []Panel{
				quantiles("scriptorium_registry_converged_seconds", "$S", "From commit to live everywhere").says("Until the last connected agent runs the change."),
				quantiles("scriptorium_registry_rollout_seconds", "$S", "From commit to live, each agent"),
				lines("Changes that took more than a second", "percentunit",
					Query{`scriptorium:changes_slow:ratio_rate1h{$S}`, "last hour"}, Query{`scriptorium:changes_slow:ratio_rate1d{$S}`, "last day"},
				).says("The objective is 1 % at most in 30 days. The alerts' recording rules compute it."),
				lines("Writes", "wps", Query{`sum by (change, outcome) (rate(scriptorium_registry_writes_total{$S}[$R]))`, "{{change}}, {{outcome}}"}),
				lines("Candidates", "none", Query{`max by (state) (scriptorium_registry_candidates{$S})`, "{{state}}"}).stacked(),
				lines("Events and beacons", "ops",
					Query{`sum(rate(scriptorium_registry_events_published_total{$S}[$R]))`, "events"}, Query{`sum(rate(scriptorium_registry_beacons_published_total{$S}[$R]))`, "beacons"},
					Query{`sum(rate(scriptorium_registry_publish_failures_total{$S}[$R]))`, "failed"}),
			}},
			{"Agents", []Panel{
				lines("Agents by state", "none", Query{`max by (state) (scriptorium_registry_agents{$S})`, "{{state}}"}).stacked(),
				lines("Agents by version", "none", Query{`count by (version) (scriptorium_agent_info{$S})`, "{{version}}"}).stacked(),
				lines("Least current agents", "s", Query{named(`topk(5, scriptorium_agent_staleness_seconds{$S})`), "{{agent}}"}).says("Time since the agent last knew that it was current. -1 means never since its start."),
				lines("Drifts", "none",
					Query{`sum(increase(scriptorium_agent_drifts_total{$S}[$R]))`, "found"}, Query{`sum(scriptorium_agent_drifting{$S})`, "agents that have yet to heal"}),
				lines("Agents that keep what is gone", "none", Query{`sum(scriptorium_agent_held{$S})`, "held"}),
				lines("Syncs with the registry", "ops",
					Query{`sum(rate(scriptorium_agent_syncs_total{$S}[$R]))`, "done"}, Query{`sum(rate(scriptorium_agent_syncs_failed_total{$S}[$R]))`, "failed"}),
			}},
			{"Calls", []Panel{
				lines("Calls by outcome", "reqps", Query{`sum by (outcome) (rate(scriptorium_agent_calls_total{$S}[$R])) > 0`, "{{outcome}}"}).stacked(),
				quantiles("scriptorium_agent_call_seconds", "$S", "Time of calls").says("From call to answer inside the agent, waiting for a turn included."),
				lines("Calls refused, by bound", "reqps", Query{`sum by (reason) (rate(scriptorium_agent_calls_overloaded_total{$S}[$R]))`, "{{reason}}"}),
			}},
		},
	}
}

// named gives series of agents the label agent.
func named(expr string) string {
	return expr + ` * on (cluster, namespace, instance) group_left (agent) scriptorium_agent_info{$S}`
}
