package spec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// plan returns how new versions come to the agents; the zero Plan if nothing is said.
func (r *reader) plan(field string, rollout *v1alpha1.Rollout, of script.Name) script.Plan {
	if rollout == nil {
		return script.Plan{}
	}
	var p script.Plan
	before := len(r.faults)
	for i, s := range rollout.Steps {
		step := script.Step{Percent: int(s.Percent), By: script.By(s.By), Approval: s.Approval}
		if s.Shadow != 0 {
			step.By, step.Percent = script.ByShadow, int(s.Shadow)
		}
		if s.Pause != nil {
			step.Pause = r.pause(fmt.Sprintf("%s.steps[%d].pause", field, i), *s.Pause)
		}
		if s.Selector != nil {
			step.Selector = r.agents(fmt.Sprintf("%s.steps[%d].selector", field, i), s.Selector)
		}
		if s.Gate != nil {
			step.Gate = gate(s.Gate)
		}
		p.Steps = append(p.Steps, step)
	}
	if rollout.MaxErrorPercent != nil {
		p.MaxErrorPercent = new(*rollout.MaxErrorPercent)
	}
	if rollout.MaxDiffPercent != nil {
		p.MaxDiffPercent = new(*rollout.MaxDiffPercent)
	}
	if rollout.MaxErrorIncrease != nil {
		p.MaxErrorIncrease = new(*rollout.MaxErrorIncrease)
	}
	if l := rollout.MaxLatencyIncrease; l != nil {
		field := field + ".maxLatencyIncrease"
		p.MaxLatencyIncrease = script.LatencyIncrease{P50: r.percentage(field+".p50", l.P50), P95: r.percentage(field+".p95", l.P95), P99: r.percentage(field+".p99", l.P99)}
	}
	if rollout.MinCalls != nil {
		p.MinCalls = new(int(*rollout.MinCalls))
	}
	p.FailureLimit, p.Tolerate = r.amount(field+".failureLimit", rollout.FailureLimit), r.amount(field+".tolerate", rollout.Tolerate)
	if rollout.ProgressDeadline != nil {
		p.ProgressDeadline = r.pause(field+".progressDeadline", *rollout.ProgressDeadline)
	}
	if rollout.OnDeadline == "pause" { // the schema allows abort and pause
		p.OnDeadline = script.PauseOnDeadline
	}
	for i, text := range rollout.After {
		name, err := script.ParseName(text)
		if err != nil {
			r.fault(fmt.Sprintf("%s.after[%d]", field, i), "%s", script.AsError(err).Message)
		}
		p.After = append(p.After, name)
	}
	if rollout.Key != "" {
		key, err := script.ParseKeySource(field+".key", rollout.Key)
		r.check(err)
		p.Key = key
	}
	if len(r.faults) == before {
		r.check(cmp.Or(p.Validate(field), p.ValidateAfter(field, of)))
	}
	return p
}

// gate returns what is asked; the plan says what is wrong with it.
func gate(of *v1alpha1.RolloutGate) script.Gate {
	g := script.Gate{Kind: script.Prometheus, Source: string(of.Prometheus), Query: of.Query, Min: bound(of.Min), Max: bound(of.Max)}
	if of.Webhook != "" {
		g.Kind, g.Source = script.Webhook, string(of.Webhook)
	}
	return g
}

func bound(v *float64) script.Bound {
	if v == nil {
		return script.Bound{}
	}
	return script.Bound{Set: true, Value: *v}
}

func (r *reader) agents(field string, of map[string]v1alpha1.AgentLabel) script.AgentSelector {
	labels := make(map[string]string, len(of))
	for name, value := range of {
		labels[name] = string(value)
	}
	selector, err := script.NewAgentSelector(field, labels)
	r.check(err)
	return selector
}

func (r *reader) amount(field string, v *intstr.IntOrString) script.Amount {
	if v == nil {
		return script.Amount{}
	}
	a, err := script.ParseAmount(field, v.String())
	r.check(err)
	return a
}

// percentage returns the number of percent; 0 for none.
func (r *reader) percentage(field string, v v1alpha1.Percentage) int {
	if v == "" {
		return 0
	}
	a, err := script.ParseAmount(field, string(v))
	if err != nil || a.Percent == 0 {
		r.fault(field, "%.80q is not a percentage, such as 20%%", string(v))
	}
	return a.Percent
}

func (r *reader) pause(field, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		r.fault(field, "%.80q is not a duration: want a number and a unit, such as 10m", s)
	}
	return d
}

// tests returns the tests with the keys of their JSON in order, so that equal tests are
// equal bytes, whoever wrote them; nil for none.
func (r *reader) tests(field string, list []v1alpha1.Test) []script.Test {
	var tests []script.Test
	before := len(r.faults)
	for i, t := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		test := script.Test{Name: t.Name, Request: r.value(at+".request", t.Request), Expect: r.value(at+".expect", t.Expect)}
		if string(test.Request) == "{}" { // which a registry takes for none
			test.Request = nil
		}
		if t.Error != nil {
			test.Error = script.Kind(*t.Error)
		}
		tests = append(tests, test)
	}
	if len(r.faults) == before {
		r.check(script.ValidateTests(field, tests))
	}
	return tests
}

// value returns any JSON value in the one form in which equal ones are equal bytes; nil
// for none, and for null.
func (r *reader) value(field string, value *apiextensionsv1.JSON) json.RawMessage {
	if value == nil || len(value.Raw) == 0 || bytes.Equal(value.Raw, []byte("null")) {
		return nil
	}
	v, err := decode(value.Raw)
	if err != nil {
		r.fault(field, "is not JSON: %v", err)
		return nil
	}
	return r.encode(field, v)
}
