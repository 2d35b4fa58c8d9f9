package manifest

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// planNode writes a rollout's plan; nil for the plan of one that says nothing.
func planNode(p script.Plan) *yaml.Node {
	var o object
	var steps []*yaml.Node
	for _, s := range p.Steps {
		steps = append(steps, stepNode(s))
	}
	o.add("steps", sequence(steps))
	for _, bound := range []struct {
		name  string
		value *float64
	}{{"maxErrorPercent", p.MaxErrorPercent}, {"maxErrorIncrease", p.MaxErrorIncrease}, {"maxDiffPercent", p.MaxDiffPercent}} {
		if bound.value != nil {
			o.add(bound.name, number(*bound.value))
		}
	}
	var latency object
	latency.add("p50", percentage(p.MaxLatencyIncrease.P50))
	latency.add("p95", percentage(p.MaxLatencyIncrease.P95))
	latency.add("p99", percentage(p.MaxLatencyIncrease.P99))
	o.add("maxLatencyIncrease", latency.node())
	if p.MinCalls != nil {
		o.add("minCalls", integer(*p.MinCalls))
	}
	o.add("failureLimit", amount(p.FailureLimit))
	o.add("tolerate", amount(p.Tolerate))
	o.add("progressDeadline", duration(p.ProgressDeadline))
	o.add("onDeadline", text(string(p.OnDeadline)))
	var after []string
	for _, name := range p.After {
		after = append(after, name.String())
	}
	o.add("after", texts(after))
	o.add("key", text(string(p.Key)))
	return o.node()
}

func stepNode(s script.Step) *yaml.Node {
	var o object
	switch {
	case s.By == script.ByShadow:
		o.add("shadow", integer(s.Percent))
	case s.Percent != 0:
		o.add("percent", integer(s.Percent))
		o.add("by", text(string(s.By)))
	}
	o.add("selector", labels(s.Selector.Labels()))
	o.add("pause", duration(s.Pause))
	if s.Approval {
		o.add("approval", boolean(true))
	}
	o.add("gate", gateNode(s.Gate))
	return o.node()
}

func gateNode(g script.Gate) *yaml.Node {
	if g.IsZero() {
		return nil
	}
	var o object
	o.add(string(g.Kind), text(g.Source))
	o.add("query", text(g.Query))
	if g.Min.Set {
		o.add("min", number(g.Min.Value))
	}
	if g.Max.Set {
		o.add("max", number(g.Max.Value))
	}
	return o.node()
}

func percentage(n int) *yaml.Node {
	if n == 0 {
		return nil
	}
	return text(fmt.Sprintf("%d%%", n))
}

func amount(a script.Amount) *yaml.Node {
	switch {
	case a.IsZero():
		return nil
	case a.Percent > 0:
		return percentage(a.Percent)
	}
	return integer(a.Count) // 0 is none
}

// duration writes 10m0s as 10m, as people do.
func duration(d time.Duration) *yaml.Node {
	if d == 0 {
		return nil
	}
	s := d.String()
	if short, ok := strings.CutSuffix(s, "m0s"); ok {
		s = short + "m"
	}
	if short, ok := strings.CutSuffix(s, "h0m"); ok {
		s = short + "h"
	}
	return text(s)
}
