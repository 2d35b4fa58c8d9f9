package scrape_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/scriptorium-dev/scriptorium/deploy/observability/dashboards"
	"github.com/scriptorium-dev/scriptorium/deploy/observability/rules"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
)

// elsewhere are metrics of what this stack does not have, and who looks that they are there.
var elsewhere = []string{
	"scriptorium_operator_", "controller_runtime_", "workqueue_", // TestOperators of internal/operatord
	"scriptorium_registry_certificate_", "scriptorium_agent_certificate_", // nothing is encrypted: TestExpiries of internal/tlsfiles
	"scriptorium_registry_gate_answers_total", // there are no gates: tests of internal/registryd
	"scriptorium_trace_spans_dropped_total",   // nothing is traced: tests of internal/tracing
	"scriptorium_script_call_seconds_bucket",  // agents have native histograms, unless a flag says otherwise
}

// missing reports whether the metric may be missing.
func missing(name string) bool {
	return slices.ContainsFunc(elsewhere, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// quiet are parts of expressions that find nothing in a stack without trouble.
var quiet = []string{
	"> 0", // shows what is not zero
	"scriptorium:changes_slow:ratio_rate1d",
}

// TestDashboardsAndRules: each metric that a panel or a rule names is there, with the labels that it is
// selected by, and each expression has an answer of a real Prometheus that scrapes a stack at work.
func TestDashboardsAndRules(t *testing.T) {
	const every = time.Second
	s := start(t, every)
	s.furnish(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := s.work(ctx, t)
	defer func() { cancel(); wait() }()
	s.scraped(t, 5)
	s.eventually(t, `scriptorium_registry_candidates{state="failed"} > 0`)
	s.eventually(t, `rate(scriptorium_registry_converged_seconds_count[10s]) > 0`)
	s.eventually(t, `rate(scriptorium_agent_calls_total{outcome="TIMEOUT"}[10s]) > 0`)

	there := s.names(t)
	for where, expr := range expressions() {
		s.check(t, where, expr, there)
	}
	s.evaluated(t)
	s.variables(t)
}

// expressions are all of panels and rules, by where they are.
func expressions() map[string]string {
	all := map[string]string{}
	for _, d := range dashboards.All() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for i, q := range p.Queries {
					all[fmt.Sprintf("dashboard %s, row %s, panel %q, query %c", d.Name, row.Title, p.Title, 'A'+i)] = q.For(d, "10s")
				}
			}
		}
	}
	for _, a := range rules.Alerts() {
		all["alert "+a.Name] = a.Expression()
	}
	return all
}

// check parses the expression, looks for what it names, and runs it.
func (s *stack) check(t *testing.T, where, expr string, there map[string]bool) {
	t.Helper()
	may := false
	for _, selector := range s.selectors(t, where, expr) {
		if missing(selector.Name) {
			may = true
			continue
		}
		if strings.Contains(selector.Name, ":") {
			continue // of a recording rule, which evaluated looks at
		}
		if !there[selector.Name] {
			t.Errorf("%s: there is no metric %s", where, selector.Name)
			continue
		}
		for _, m := range selector.Matchers {
			if m.Name == "__name__" || m.Name == "cluster" || m.Name == "namespace" {
				continue
			}
			if !s.comes(t, fmt.Sprintf(`%s{%s!=""}`, selector.Name, m.Name)) {
				t.Errorf("%s: %s has no label %s", where, selector.Name, m.Name)
			}
		}
	}
	found := s.find(t, expr)
	isQuiet := func(part string) bool { return strings.Contains(expr, part) }
	if len(found) == 0 && !strings.HasPrefix(where, "alert ") && !may && !slices.ContainsFunc(quiet, isQuiet) && !s.comes(t, expr) {
		t.Errorf("%s finds nothing: %s", where, expr)
	}
}

// selector is of an expression.
type selector struct {
	Name     string
	Matchers []struct{ Name, Value string }
}

// selectors are those of the expression, as Prometheus parses it.
func (s *stack) selectors(t *testing.T, where, expr string) (all []selector) {
	t.Helper()
	resp, err := http.Get(s.url + "/api/v1/parse_query?query=" + url.QueryEscape(expr))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          any
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Status != "success" {
		t.Errorf("%s: %s: %s", where, answer.Error, expr)
		return nil
	}
	var walk func(node any)
	walk = func(node any) {
		switch n := node.(type) {
		case []any:
			for _, child := range n {
				walk(child)
			}
		case map[string]any:
			if kind := n["type"]; kind == "vectorSelector" || kind == "matrixSelector" {
				var one selector
				text, err := json.Marshal(n)
				if err == nil {
					err = json.Unmarshal(text, &one)
				}
				if err != nil || one.Name == "" {
					t.Errorf("%s: a selector without a name (%v): %s", where, err, expr)
				}
				all = append(all, one)
				return
			}
			for _, child := range n {
				walk(child)
			}
		}
	}
	walk(answer.Data)
	if len(all) == 0 {
		t.Errorf("%s names no metric: %s", where, expr)
	}
	return all
}

// names are those of all metrics that are there.
func (s *stack) names(t *testing.T) map[string]bool {
	t.Helper()
	values, _, _, err := s.prometheus.LabelValues(t.Context(), "__name__", nil, time.Now().Add(-time.Hour), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, v := range values {
		all[string(v)] = true
	}
	return all
}

// find is what the expression has now.
func (s *stack) find(t *testing.T, expr string) model.Vector {
	t.Helper()
	found, warnings, _, err := s.prometheus.Query(t.Context(), expr, time.Now())
	if err != nil {
		t.Errorf("%v: %s", err, expr)
		return nil
	}
	if len(warnings) > 0 {
		t.Errorf("%v: %s", warnings, expr)
	}
	vector, ok := found.(model.Vector)
	if !ok {
		t.Errorf("is a %s: %s", found.Type(), expr)
	}
	return vector
}

// eventually waits until the expression finds something.
func (s *stack) eventually(t *testing.T, expr string) {
	t.Helper()
	if !s.comes(t, expr) {
		t.Fatalf("never: %s", expr)
	}
}

// comes reports whether the expression finds something before patience ends.
func (s *stack) comes(t *testing.T, expr string) bool {
	t.Helper()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(2 * localtest.Patience)
	for len(s.find(t, expr)) == 0 {
		select {
		case <-ticker.C:
		case <-deadline:
			return false
		}
	}
	return true
}

// scraped waits until each part was scraped so many times.
func (s *stack) scraped(t *testing.T, times int) {
	t.Helper()
	s.eventually(t, fmt.Sprintf(`count(count_over_time(up[1m]) >= %d and up == 1) == %d`, times, s.targets))
}

// evaluated looks that Prometheus evaluates all rules, and that a stack without trouble has no alerts but those of its
// candidate that failed.
func (s *stack) evaluated(t *testing.T) {
	t.Helper()
	s.eventually(t, `count(scriptorium:changes_slow:ratio_rate5m) > 0`)
	result, err := s.prometheus.Rules(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// The disk is the machine's.
	expected := []string{"ScriptoriumCandidateFailed", "ScriptoriumScriptErrors", "ScriptoriumOperatorBlind", "ScriptoriumAgentDiskFull"}
	// A busy machine makes these pending for a moment. They fire after minutes.
	passing := []string{"ScriptoriumEtcdSlow", "ScriptoriumConvergenceSlow", "ScriptoriumConvergenceDegraded", "ScriptoriumRegistryWithoutLeader"}
	n := 0
	for _, g := range result.Groups {
		for _, rule := range g.Rules {
			n++
			switch r := rule.(type) {
			case v1.RecordingRule:
				if r.Health != v1.RuleHealthGood {
					t.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
				}
			case v1.AlertingRule:
				if r.Health != v1.RuleHealthGood {
					t.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
				}
				passes := r.State == "pending" && slices.Contains(passing, r.Name)
				if r.State != "inactive" && !passes && !slices.Contains(expected, r.Name) {
					t.Errorf("%s is %s: %v", r.Name, r.State, r.Alerts)
				}
			}
		}
	}
	if want := len(rules.Alerts()); n < want {
		t.Errorf("Prometheus has %d rules, and there are %d alerts", n, want)
	}
}

// variables looks that each variable of a dashboard has values.
func (s *stack) variables(t *testing.T) {
	t.Helper()
	for _, d := range dashboards.All() {
		for _, v := range d.Variables {
			if missing(v.Metric) {
				continue
			}
			if !s.comes(t, fmt.Sprintf(`%s{%s!=""}`, v.Metric, v.Values())) {
				t.Errorf("dashboard %s: the variable %s has no values in %s", d.Name, v.Name, v.Metric)
			}
		}
	}
}
