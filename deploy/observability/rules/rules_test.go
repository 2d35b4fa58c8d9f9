package rules_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/deploy/observability/rules"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// series are what Prometheus has, as promtool writes it, a sample a minute: "x 1x60" is 1 for an hour.
type series []string

// one is a series without labels.
func constant(name string, value any) series { return series{fmt.Sprintf("%s %vx90", name, value)} }

// scenario is of an alert: it fires in the first state of the world, and not in the second.
type scenario struct {
	alert string
	fires series
	quiet series
	at    string // 20m if empty
}

func agentsOf(connected, unknown, foreign int) series {
	return series{
		fmt.Sprintf(`scriptorium_registry_agents{state="connected",instance="r1"} %dx90`, connected),
		fmt.Sprintf(`scriptorium_registry_agents{state="unknown",instance="r1"} %dx90`, unknown),
		fmt.Sprintf(`scriptorium_registry_agents{state="foreign",instance="r1"} %dx90`, foreign),
	}
}

func troubled(held, failed int) series {
	return series{
		fmt.Sprintf(`scriptorium_registry_agents_troubled{trouble="held"} %dx90`, held),
		fmt.Sprintf(`scriptorium_registry_agents_troubled{trouble="failed"} %dx90`, failed),
	}
}

// calls are of an agent: so many of each outcome a minute.
func calls(ok int, outcome string, bad int) series {
	return series{
		fmt.Sprintf(`scriptorium_agent_calls_total{instance="a1",outcome="OK"} 0+%dx90`, ok),
		fmt.Sprintf(`scriptorium_agent_calls_total{instance="a1",outcome="%s"} 0+%dx90`, outcome, bad),
	}
}

func scriptCalls(ok int, outcome string, bad int) series {
	return series{
		fmt.Sprintf(`scriptorium_script_calls_total{instance="a1",tenant="acme",script="route",outcome="OK"} 0+%dx90`, ok),
		fmt.Sprintf(`scriptorium_script_calls_total{instance="a1",tenant="acme",script="route",outcome="%s"} 0+%dx90`, outcome, bad),
	}
}

// changes are so many a minute, and those of them that took longer than a second.
func changes(minutes, all, slow int) series {
	return series{
		fmt.Sprintf(`scriptorium_registry_converged_seconds_bucket{instance="r1",le="1.024"} 0+%dx%d`, all-slow, minutes),
		fmt.Sprintf(`scriptorium_registry_converged_seconds_count{instance="r1"} 0+%dx%d`, all, minutes),
	}
}

func etcdRequests(ok, failed int) series {
	return series{
		fmt.Sprintf(`scriptorium_registry_etcd_request_seconds_count{request="read",outcome="ok"} 0+%dx90`, ok),
		fmt.Sprintf(`scriptorium_registry_etcd_request_seconds_count{request="read",outcome="failed"} 0+%dx90`, failed),
		`scriptorium_registry_feed_running{instance="r1"} 1x90`,
	}
}

// etcdWrites took less than a quarter of a second, but for those that are slow.
func etcdWrites(all, slow int) series {
	const name = `scriptorium_registry_etcd_request_seconds_bucket{request="write",outcome="ok",le="%s"} 0+%dx90`
	return series{fmt.Sprintf(name, "0.256", all-slow), fmt.Sprintf(name, "1.024", all), fmt.Sprintf(name, "+Inf", all)}
}

func etcdSpace(used, quota int) series {
	return series{fmt.Sprintf("scriptorium_registry_etcd_used_bytes %dx90", used), fmt.Sprintf("scriptorium_registry_etcd_quota_bytes %dx90", quota)}
}

// expiry of a certificate of each part, so many days after the first sample.
func expiry(agent, registry int) series {
	const name = `scriptorium_%s_certificate_expiry_timestamp_seconds{instance="%[1]s",connection="nats",certificate="own"} %[2]dx90`
	return series{fmt.Sprintf(name, "agent", agent*86400), fmt.Sprintf(name, "registry", registry*86400)}
}

func scenarios() []scenario {
	return slices.Concat(ofAgents(), ofScripts(), ofTheRegistry(), ofTrust(), ofTheOperator())
}

func ofAgents() []scenario {
	agent := func(metric string) string { return "scriptorium_agent_" + metric + `{instance="a1"}` }
	return []scenario{
		{alert: "ScriptoriumAgentsUnknown", fires: agentsOf(99, 1, 0), quiet: agentsOf(100, 0, 0)},
		{alert: "ScriptoriumAgentsLost", fires: agentsOf(80, 20, 0), quiet: agentsOf(95, 5, 0)},
		{alert: "ScriptoriumAgentsLost", fires: agentsOf(0, 3, 0), quiet: agentsOf(3, 1, 0)}, // of a small fleet, one is not many
		{
			alert: "ScriptoriumFleetShrank", at: "80m",
			fires: series{`scriptorium_registry_agents{state="connected"} 100x30 50x60`}, quiet: series{`scriptorium_registry_agents{state="connected"} 100x30 90x60`},
		},
		{alert: "ScriptoriumAgentsForeign", fires: agentsOf(9, 0, 1), quiet: agentsOf(9, 1, 0)},
		{alert: "ScriptoriumAgentsHeld", fires: troubled(1, 0), quiet: troubled(0, 1)},
		{alert: "ScriptoriumAgentsFailing", fires: troubled(0, 1), quiet: troubled(1, 0)},
		{
			alert: "ScriptoriumDriftNotHealing", fires: constant(agent("drifting"), 1),
			quiet: series{agent("drifting") + " 1 1 0 1 1 1 0 1 1 0 0 1 1 1 0 1 1 1 0 1 0 0"}, // healed each time
		},
		{alert: "ScriptoriumDriftRepeats", fires: constant(agent("drifts_total"), "0+1"), quiet: series{agent("drifts_total") + " 0x5 1x80"}},
		{alert: "ScriptoriumAgentStale", fires: constant(agent("staleness_seconds"), 45), quiet: constant(agent("staleness_seconds"), 1)},
		{alert: "ScriptoriumAgentStale", fires: constant(agent("staleness_seconds"), -1), quiet: series{agent("staleness_seconds") + " -1x1 0x80"}},
		{alert: "ScriptoriumAgentWithoutNATS", fires: constant(agent("nats_connected"), 0), quiet: constant(agent("nats_connected"), 1)},
		{alert: "ScriptoriumAgentDiskFailing", fires: constant(agent("disk_failing"), 1), quiet: constant(agent("disk_failing"), 0)},
		{
			alert: "ScriptoriumAgentDiskFull",
			fires: append(constant(agent("disk_free_bytes"), 5), constant(agent("disk_size_bytes"), 100)...),
			quiet: append(constant(agent("disk_free_bytes"), 15), constant(agent("disk_size_bytes"), 100)...),
		},
		{alert: "ScriptoriumAgentDiskRefused", fires: constant(`scriptorium_agent_disk_refused{reason="corrupt"}`, 1), quiet: constant(`scriptorium_agent_disk_refused{reason="corrupt"}`, 0)},
		{alert: "ScriptoriumMessagesRefused", fires: constant(`scriptorium_agent_messages_refused_total{reason="forged"}`, "0+1"), quiet: constant(`scriptorium_agent_messages_refused_total{reason="forged"}`, 7)},
		{alert: "ScriptoriumConnectionsRefused", fires: constant(agent("connections_refused_total"), "0+1"), quiet: constant(agent("connections_refused_total"), 7)},
		{alert: "ScriptoriumHeapGrows", fires: constant(agent("heap_spared_total"), "0+1"), quiet: constant(agent("heap_spared_total"), 7)},
	}
}

func ofScripts() []scenario {
	return []scenario{
		{alert: "ScriptoriumScriptErrors", fires: scriptCalls(900, "SCRIPT", 100), quiet: scriptCalls(990, "SCRIPT", 10)},
		{alert: "ScriptoriumScriptErrors", fires: scriptCalls(0, "TIMEOUT", 60), quiet: scriptCalls(900, "NOTFOUND", 900)},
		{alert: "ScriptoriumScriptErrors", fires: scriptCalls(60, "LIMIT", 60), quiet: scriptCalls(2, "SCRIPT", 2)}, // too few to tell
		{alert: "ScriptoriumCallsOverloaded", fires: calls(900, "OVERLOADED", 100), quiet: calls(900, "SCRIPT", 100)},
		{alert: "ScriptoriumCallsTimeOut", fires: calls(900, "TIMEOUT", 100), quiet: calls(999, "TIMEOUT", 1)},
		{alert: "ScriptoriumScriptsQuarantined", fires: constant(`scriptorium_agent_quarantined_scripts`, 1), quiet: constant(`scriptorium_agent_quarantined_scripts`, 0)},
		{alert: "ScriptoriumScriptsUntrusted", fires: constant(`scriptorium_agent_untrusted_scripts`, 1), quiet: constant(`scriptorium_agent_untrusted_scripts`, 0)},
		{alert: "ScriptoriumAuditRefusesCalls", fires: constant(`scriptorium_decision_log_refused_calls_total{instance="a1"}`, "0+9"), quiet: constant(`scriptorium_decision_log_refused_calls_total{instance="a1"}`, 9)},
		{alert: "ScriptoriumDecisionLogDropping", fires: constant(`scriptorium_decision_log_dropped_total{sink="http",reason="queue"}`, "0+9"), quiet: constant(`scriptorium_decision_log_dropped_total{sink="http",reason="queue"}`, 9)},
		{alert: "ScriptoriumTracesDropping", at: "40m", fires: constant(`scriptorium_trace_spans_dropped_total{reason="export"}`, "0+9"), quiet: constant(`scriptorium_trace_spans_dropped_total{reason="rate"}`, "0+9")},
		{alert: "ScriptoriumUsageDropping", at: "40m", fires: constant(`scriptorium_registry_usage_dropped_total{reason="lost"}`, "0+9"), quiet: constant(`scriptorium_registry_usage_dropped_total{reason="lost"}`, 9)},
	}
}

func ofTheRegistry() []scenario {
	registry := func(metric string) string { return "scriptorium_registry_" + metric + `{instance="r1"}` }
	leaders := func(all ...int) (s series) {
		for i, leads := range all {
			s = append(s, fmt.Sprintf(`scriptorium_registry_leader{instance="r%d"} %dx90`, i, leads))
		}
		return s
	}
	return []scenario{
		{alert: "ScriptoriumConvergenceSlow", at: "80m", fires: changes(90, 10, 3), quiet: changes(90, 100, 5)}, // less than six times the budget
		{alert: "ScriptoriumConvergenceSlow", at: "6h30m", fires: changes(400, 10, 1), quiet: changes(400, 100, 5)},
		{alert: "ScriptoriumConvergenceSlow", at: "110m", fires: changes(120, 1, 1), quiet: series{ // it is over
			`scriptorium_registry_converged_seconds_bucket{le="1.024"} 0x60 0+10x60`, `scriptorium_registry_converged_seconds_count 0+10x120`,
		}},
		{alert: "ScriptoriumConvergenceDegraded", at: "25h", fires: changes(1600, 100, 4), quiet: changes(1600, 1000, 1)},
		{alert: "ScriptoriumConvergenceDegraded", at: "25h", fires: changes(1600, 100, 2), quiet: changes(1600, 0, 0)},
		{alert: "ScriptoriumChangesNotLive", fires: constant(registry("agents_behind_seconds"), 90), quiet: constant(registry("agents_behind_seconds"), 2)},
		{alert: "ScriptoriumRegistryAbsent", fires: constant(`up{job="scriptorium-registry"}`, 0), quiet: leaders(1)},
		{alert: "ScriptoriumRegistryWithoutLeader", fires: leaders(0, 0), quiet: leaders(0, 1)},
		{alert: "ScriptoriumRegistryWithoutLeader", fires: leaders(1, 1), quiet: leaders(1)},
		{alert: "ScriptoriumFleetUnavailable", fires: constant(registry("fleet_available"), 0), quiet: constant(registry("fleet_available"), 1)},
		{alert: "ScriptoriumNATSDown", fires: constant(registry("nats_connected"), 0), quiet: constant(registry("nats_connected"), 1)},
		{alert: "ScriptoriumRegistryWritesFail", fires: constant(`scriptorium_registry_writes_total{outcome="failed"}`, "0+1"), quiet: constant(`scriptorium_registry_writes_total{outcome="refused"}`, "0+1")},
		{
			alert: "ScriptoriumReportsIgnored", at: "40m",
			fires: constant(`scriptorium_registry_agent_reports_ignored_total{reason="impossible"}`, "0+1"), quiet: constant(`scriptorium_registry_agent_reports_ignored_total{reason="stale"}`, "0+1"),
		},
		{alert: "ScriptoriumEtcdUnreachable", fires: etcdRequests(0, 60), quiet: etcdRequests(60, 1)},
		{alert: "ScriptoriumEtcdUnreachable", fires: constant(registry("feed_running"), 0), quiet: constant(registry("feed_running"), 1)},
		{alert: "ScriptoriumEtcdSlow", at: "40m", fires: etcdWrites(100, 5), quiet: etcdWrites(1000, 1)},
		{alert: "ScriptoriumEtcdQuotaLow", fires: etcdSpace(80, 100), quiet: etcdSpace(70, 100)},
		{alert: "ScriptoriumEtcdQuotaReached", fires: etcdSpace(91, 100), quiet: etcdSpace(91, 0)}, // an etcd that does not say
		{alert: "ScriptoriumUnreadableRecords", fires: constant(`scriptorium_registry_unreadable_records{kind="releases"}`, 1), quiet: constant(`scriptorium_registry_unreadable_records{kind="releases"}`, 0)},
		{
			alert: "ScriptoriumGarbageCollectionStopped", at: "3h",
			fires: series{`scriptorium_registry_leader 1x200`, `scriptorium_registry_collections_total{outcome="failed"} 0+1x200`},
			quiet: series{`scriptorium_registry_leader 1x200`, `scriptorium_registry_collections_total{outcome="done"} 0+1x200`},
		},
		{alert: "ScriptoriumGarbageCollectionStopped", at: "3h", fires: series{`scriptorium_registry_collections_total{outcome="done"} 7x200`}, quiet: series{`scriptorium_registry_leader 0x200`}},
		{alert: "ScriptoriumCandidateStuck", fires: constant(registry("candidate_waiting_seconds"), 3600), quiet: constant(registry("candidate_waiting_seconds"), 600)},
		{alert: "ScriptoriumCandidateFailed", fires: constant(`scriptorium_registry_candidates{state="failed"}`, 1), quiet: constant(`scriptorium_registry_candidates{state="testing"}`, 1)},
		{alert: "ScriptoriumVersionsFrozen", at: "25h", fires: series{`scriptorium_registry_candidates{state="frozen"} 1x1600`}, quiet: series{`scriptorium_registry_candidates{state="frozen"} 1x600 0x1000`}},
	}
}

func ofTrust() []scenario {
	const policy = "scriptorium_registry_access_policy_current"
	const token = "scriptorium_registry_access_token_expiry_timestamp_seconds"
	return []scenario{
		{alert: "ScriptoriumCertificateExpires", fires: expiry(100, 20), quiet: expiry(100, 30)},
		{alert: "ScriptoriumCertificateExpires", fires: constant(`scriptorium_operator_certificate_expiry_timestamp_seconds{connection="registry",certificate="own"}`, 86400), quiet: expiry(90, 90)},
		{alert: "ScriptoriumCertificateExpiresSoon", fires: expiry(2, 100), quiet: expiry(20, 100)},
		{alert: "ScriptoriumTokenExpires", fires: constant(token, 6*86400), quiet: constant(token, 0)},
		{alert: "ScriptoriumAccessPolicyUnusable", fires: series{policy + " 1x5 0x80"}, quiet: constant(policy, 0)}, // there is none
		{alert: "ScriptoriumCallersRefused", at: "40m", fires: constant(`scriptorium_registry_callers_refused_total{reason="unknown"}`, "0+60"), quiet: constant(`scriptorium_registry_callers_refused_total{reason="unknown"}`, "0+1")},
		{alert: "ScriptoriumSigningKeysDiffer", at: "80m", fires: constant("scriptorium_registry_other_signing_keys", 1), quiet: series{"scriptorium_registry_other_signing_keys 1x30 0x60"}},
	}
}

func ofTheOperator() []scenario {
	const errs, depth = `controller_runtime_reconcile_errors_total{controller="%s"}`, `workqueue_depth{controller="%s"}`
	return []scenario{
		{alert: "ScriptoriumOperatorWithoutLeader", fires: constant("scriptorium_operator_leader", 0), quiet: constant("scriptorium_operator_leader", 1)},
		{alert: "ScriptoriumOperatorBlind", fires: constant("scriptorium_operator_fleet_watch_live", 0), quiet: constant("scriptorium_operator_fleet_watch_live", 1)},
		{alert: "ScriptoriumReconcileErrors", at: "40m", fires: constant(fmt.Sprintf(errs, "luascript"), "0+60"), quiet: constant(fmt.Sprintf(errs, "deployment"), "0+60")},
		{alert: "ScriptoriumReconcileQueueGrows", at: "40m", fires: constant(fmt.Sprintf(depth, "scripttenant"), 200), quiet: constant(fmt.Sprintf(depth, "scripttenant"), 20)},
	}
}

// The file of `promtool test rules`.
type (
	suite struct {
		RuleFiles          []string `yaml:"rule_files"`
		EvaluationInterval string   `yaml:"evaluation_interval"`
		Tests              []world  `yaml:"tests"`
	}
	world struct {
		Name     string   `yaml:"name"`
		Interval string   `yaml:"interval"`
		Input    []input  `yaml:"input_series"`
		Checks   []promQL `yaml:"promql_expr_test"`
	}
	input  struct{ Series, Values string }
	promQL struct {
		Expr    string   `yaml:"expr"`
		At      string   `yaml:"eval_time"`
		Samples []sample `yaml:"exp_samples"`
	}
	sample struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
)

// in returns the series as those of a cluster, so that many scenarios share a world.
func (s series) in(cluster string) (all []input) {
	for _, one := range s {
		end := strings.IndexByte(one, ' ')
		if brace := strings.IndexByte(one, '}'); brace >= 0 {
			end = brace + 1
		}
		name, labels, _ := strings.Cut(one[:end], "{")
		all = append(all, input{Series: fmt.Sprintf(`%s{cluster="%s",%s}`, name, cluster, strings.TrimSuffix(labels, "}")), Values: strings.TrimSpace(one[end:])})
	}
	return all
}

// firing checks in how many ways the alert fires in the cluster: once or not at all.
func firing(alert, cluster, at string, want bool) promQL {
	check := promQL{Expr: fmt.Sprintf(`count(ALERTS{alertname="%s",cluster=~"%s|",alertstate="firing"}) > bool 0`, alert, cluster), At: at}
	if want {
		check.Samples = []sample{{"{}", 1}}
	}
	return check
}

// worlds returns those of the scenarios, by when they are looked at. What is absent is so in a whole world.
func worlds() map[string][]world {
	all := map[string][]world{}
	for i, s := range scenarios() {
		at := cmp.Or(s.at, "20m")
		if s.alert == "ScriptoriumRegistryAbsent" {
			for want, has := range map[bool]series{true: s.fires, false: s.quiet} {
				all[at] = append(all[at], world{Name: fmt.Sprintf("%s, %t", s.alert, want), Interval: "1m", Input: has.in("all"), Checks: []promQL{firing(s.alert, "all", at, want)}})
			}
			continue
		}
		if len(all[at]) == 0 {
			all[at] = []world{{Name: "after " + at, Interval: "1m"}}
		}
		w, fires, quiet := &all[at][0], fmt.Sprintf("%d-fires", i), fmt.Sprintf("%d-quiet", i)
		w.Input = slices.Concat(w.Input, s.fires.in(fires), s.quiet.in(quiet))
		w.Checks = append(w.Checks, firing(s.alert, fires, at, true), firing(s.alert, quiet, at, false))
	}
	return all
}

// TestAlerts: each alert fires when it must, and not when it must not, as promtool finds.
func TestAlerts(t *testing.T) {
	promtool, dir := needs.Program(t, "promtool"), t.TempDir()
	text, err := rules.File()
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rules.yaml", text)
	tests := []string{"test", "rules"}
	for at, all := range worlds() {
		one := suite{RuleFiles: []string{"rules.yaml"}, EvaluationInterval: "1m", Tests: all}
		if after, err := time.ParseDuration(at); err == nil && after > 2*time.Hour {
			one.EvaluationInterval = "5m" // a day has many minutes
		}
		text, err := yaml.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		write(at+".yaml", text)
		tests = append(tests, at+".yaml")
	}
	tested := map[string]bool{}
	for _, s := range scenarios() {
		tested[s.alert] = true
	}
	for _, a := range rules.Alerts() {
		if !tested[a.Name] {
			t.Errorf("%s has no scenario", a.Name)
		}
		delete(tested, a.Name)
	}
	for name := range tested {
		t.Errorf("there is no alert %s", name)
	}
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"}, tests} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestRunbooks: each alert has a section of the page, with what it means, what to look at and what to do;
// and the page has no other sections of alerts.
func TestRunbooks(t *testing.T) {
	text, err := os.ReadFile("../../../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := page.Headings(string(text))
	for _, a := range rules.Alerts() {
		if !slices.Contains(headings, a.Name) {
			t.Errorf("docs/runbooks.md has no section %s, which the alert links to", a.Name)
			continue
		}
		section, err := page.ReadSection("../../../docs/runbooks.md", a.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, part := range []string{"**Means:**", "**Look at:**", "**Do:**"} {
			if !strings.Contains(section, part) {
				t.Errorf("the section %s does not say %q", a.Name, part)
			}
		}
		if _, anchor, ok := strings.Cut(a.RunbookURL(), "#"); !ok || anchor != strings.ToLower(a.Name) {
			t.Errorf("%s links to %s", a.Name, a.RunbookURL())
		}
	}
	for _, h := range headings {
		if strings.HasPrefix(h, "Scriptorium") && !slices.ContainsFunc(rules.Alerts(), func(a rules.Alert) bool { return a.Name == h }) {
			t.Errorf("docs/runbooks.md describes %s, which is no alert", h)
		}
	}
}
