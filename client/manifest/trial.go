package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// The fields of what a new version goes through before it is live.
var (
	rolloutFields = []string{"steps", "maxErrorPercent", "maxErrorIncrease", "maxDiffPercent", "maxLatencyIncrease", "minCalls", "failureLimit", "tolerate", "progressDeadline", "onDeadline", "after", "key"}
	stepFields    = []string{"percent", "by", "shadow", "selector", "pause", "approval", "gate"}
	gateFields    = []string{"prometheus", "webhook", "query", "min", "max"}
	testFields    = []string{"name", "request", "expect", "error"}
	percentiles   = []string{"p50", "p95", "p99"}
)

const (
	rolloutField = "spec.rollout"
	testsField   = "spec.tests"
)

// rollout returns the plan in n, which stands at the path, for the scripts.
func (d *decoder) rollout(n *yaml.Node, path string, of ...script.Name) script.Plan {
	if n == nil {
		return script.Plan{}
	}
	fields, ok := d.object(n, path, rolloutFields)
	if !ok {
		return script.Plan{}
	}
	before := len(d.faults)
	var plan script.Plan
	if most := fields["maxErrorPercent"]; most != nil {
		plan.MaxErrorPercent = new(d.percent(most, path+".maxErrorPercent"))
	}
	if most := fields["maxDiffPercent"]; most != nil {
		plan.MaxDiffPercent = new(d.percent(most, path+".maxDiffPercent"))
	}
	if most := fields["maxErrorIncrease"]; most != nil {
		plan.MaxErrorIncrease = new(d.percent(most, path+".maxErrorIncrease"))
	}
	plan.MaxLatencyIncrease = d.latencyIncrease(fields["maxLatencyIncrease"], path+".maxLatencyIncrease")
	if least := fields["minCalls"]; least != nil {
		plan.MinCalls = new(d.whole(least, path+".minCalls", "calls"))
	}
	plan.FailureLimit = d.amount(fields["failureLimit"], path+".failureLimit")
	plan.Tolerate = d.amount(fields["tolerate"], path+".tolerate")
	if deadline := fields["progressDeadline"]; deadline != nil {
		plan.ProgressDeadline = d.pause(deadline, path+".progressDeadline")
	}
	plan.OnDeadline = d.deadlineAction(fields["onDeadline"], path+".onDeadline")
	plan.Key = d.keySource(fields["key"], path+".key")
	for i, item := range d.list(fields["after"], path+".after") {
		plan.After = append(plan.After, d.name(item, fmt.Sprintf("%s.after[%d]", path, i)))
	}
	for i, item := range d.list(fields["steps"], path+".steps") {
		plan.Steps = append(plan.Steps, d.step(item, fmt.Sprintf("%s.steps[%d]", path, i)))
	}
	if len(d.faults) == before {
		err := plan.Validate(path)
		for i := 0; err == nil && i < len(of); i++ {
			err = plan.ValidateAfter(path, of[i])
		}
		d.blame(n, path, err)
	}
	return plan
}

func (d *decoder) deadlineAction(n *yaml.Node, path string) script.DeadlineAction {
	if n == nil {
		return script.AbortOnDeadline
	}
	text, ok := d.text(n, path)
	if !ok {
		return script.AbortOnDeadline
	}
	action, err := script.ParseDeadlineAction(path, text)
	d.blame(n, path, err)
	return action
}

// keySource returns where keys come from; the zero KeySource if nothing is said.
func (d *decoder) keySource(n *yaml.Node, path string) script.KeySource {
	if n == nil {
		return ""
	}
	text, ok := d.text(n, path)
	if !ok {
		return ""
	}
	source, err := script.ParseKeySource(path, text)
	d.blame(n, path, err)
	return source
}

// by returns of what the step takes a share.
func (d *decoder) by(n *yaml.Node, path string) script.By {
	if n == nil {
		return script.ByAgent
	}
	text, ok := d.text(n, path)
	if !ok {
		return script.ByAgent
	}
	by, err := script.ParseBy(path, text)
	d.blame(n, path, err)
	return by
}

// name returns the script that is named; the zero Name if none is.
func (d *decoder) name(n *yaml.Node, path string) script.Name {
	text, ok := d.text(n, path)
	if !ok {
		return script.Name{}
	}
	name, err := script.ParseName(text)
	if err != nil {
		d.fault(n, path, "%s", script.AsError(err).Message)
	}
	return name
}

func (d *decoder) step(n *yaml.Node, path string) (s script.Step) {
	fields, ok := d.object(n, path, stepFields)
	if !ok {
		return s
	}
	s.By = d.by(fields["by"], path+".by")
	switch {
	case fields["shadow"] != nil:
		s.By, s.Percent = script.ByShadow, d.whole(fields["shadow"], path+".shadow", "percent")
		for _, other := range []string{"percent", "by"} {
			if n := fields[other]; n != nil {
				d.fault(n, path+"."+other, "is not for a shadow step: leave it out")
			}
		}
	case fields["percent"] != nil:
		s.Percent = d.whole(fields["percent"], path+".percent", "percent")
		if s.Percent == 0 && fields["selector"] != nil {
			d.fault(fields["percent"], path+".percent", "0 is not between 1 and 99: leave it out to take all agents that the selector selects")
		}
	case fields["selector"] == nil:
		d.fault(n, path+".percent", "is missing: add the percentage of the agents, from 1 to 99, or a selector")
	}
	if fields["selector"] != nil {
		s.Selector = d.selector(fields["selector"], path+".selector")
	}
	if pause := fields["pause"]; pause != nil {
		s.Pause = d.pause(pause, path+".pause")
	}
	s.Approval = d.boolean(fields["approval"], path+".approval", false)
	if gate := fields["gate"]; gate != nil {
		s.Gate = d.gate(gate, path+".gate")
	}
	return s
}

// gate returns what is asked before a step passes; what its query and bounds are to be is the plan's.
func (d *decoder) gate(n *yaml.Node, path string) (g script.Gate) {
	fields, ok := d.object(n, path, gateFields)
	if !ok {
		return g
	}
	prometheus, webhook := fields["prometheus"], fields["webhook"]
	switch {
	case prometheus != nil && webhook != nil:
		d.fault(n, path, "names two sources, prometheus and webhook: leave one of them out")
		return g
	case prometheus == nil && webhook == nil:
		d.fault(n, path, "names no source: add prometheus or webhook with the name of one")
		return g
	case prometheus != nil:
		g.Kind = script.Prometheus
		g.Source, _ = d.text(prometheus, path+".prometheus")
	default:
		g.Kind = script.Webhook
		g.Source, _ = d.text(webhook, path+".webhook")
	}
	if query := fields["query"]; query != nil {
		g.Query, _ = d.text(query, path+".query")
	}
	g.Min, g.Max = d.bound(fields["min"], path+".min"), d.bound(fields["max"], path+".max")
	return g
}

// bound returns a number that a value may reach; none of an absent one.
func (d *decoder) bound(n *yaml.Node, field string) script.Bound {
	if n == nil {
		return script.Bound{}
	}
	var v float64
	if !isScalar(n, "!!int") && !isScalar(n, "!!float") || n.Decode(&v) != nil {
		d.fault(n, field, "is %s, want a number, such as 0.01", describe(n))
	}
	return script.Bound{Set: true, Value: v}
}

// selector returns which agents have the labels.
func (d *decoder) selector(n *yaml.Node, path string) script.AgentSelector {
	if n.Kind != yaml.MappingNode {
		d.fault(n, path, "is %s, want labels of agents, such as zone: a", describe(n))
		return ""
	}
	var names []string
	for i := 0; i < len(n.Content); i += 2 {
		names = append(names, n.Content[i].Value)
	}
	before, labels := len(d.faults), map[string]string{}
	fields, _ := d.object(n, path, names)
	for name, value := range fields {
		labels[name], _ = d.text(value, path+"."+name)
	}
	if len(d.faults) > before {
		return ""
	}
	selector, err := script.NewAgentSelector(path, labels)
	d.blame(n, path, err)
	return selector
}

func (d *decoder) latencyIncrease(n *yaml.Node, path string) (l script.LatencyIncrease) {
	if n == nil {
		return l
	}
	fields, ok := d.object(n, path, percentiles)
	if !ok {
		return l
	}
	if len(n.Content) == 0 {
		d.fault(n, path, "names no percentile: want one of %s, such as {p99: 20%%}", strings.Join(percentiles, ", "))
	}
	for name, percent := range map[string]*int{"p50": &l.P50, "p95": &l.P95, "p99": &l.P99} {
		if fields[name] != nil {
			*percent = d.increase(fields[name], path+"."+name)
		}
	}
	return l
}

// increase returns a percentage; its upper bound is the plan's.
func (d *decoder) increase(n *yaml.Node, field string) int {
	a, err := script.ParseAmount(field, n.Value)
	if !isScalar(n, "!!str") || err != nil || a.Percent == 0 {
		d.fault(n, field, "is %s, want a percentage, such as 20%%", describe(n))
	}
	return a.Percent
}

// whole returns a whole number; its bounds are the plan's.
func (d *decoder) whole(n *yaml.Node, field, of string) int {
	var v int
	if !isScalar(n, "!!int") || n.Decode(&v) != nil {
		d.fault(n, field, "is %s, want a whole number of %s", describe(n), of)
	}
	return v
}

// percent returns a number, which may have decimals; its bounds are the plan's.
func (d *decoder) percent(n *yaml.Node, field string) float64 {
	var v float64
	if !isScalar(n, "!!int") && !isScalar(n, "!!float") || n.Decode(&v) != nil {
		d.fault(n, field, "is %s, want a number of percent, such as 5 or 0.1", describe(n))
	}
	return v
}

// amount returns a number of agents, or a percentage of them; zero for none.
func (d *decoder) amount(n *yaml.Node, field string) script.Amount {
	if n == nil {
		return script.Amount{}
	}
	if !isScalar(n, "!!int") && !isScalar(n, "!!str") {
		d.fault(n, field, "is %s, want a number of agents, such as 3, or a percentage, such as 5%%", describe(n))
		return script.Amount{}
	}
	a, err := script.ParseAmount(field, n.Value)
	if e := script.AsError(err); e != nil {
		d.fault(n, field, "%s", e.Message)
	}
	return a
}

func (d *decoder) pause(n *yaml.Node, field string) time.Duration {
	const want = "a duration such as 90s, 10m or 2h"
	if !isScalar(n, "!!str") {
		d.fault(n, field, "is %s, want %s", describe(n), want)
		return 0
	}
	pause, err := time.ParseDuration(n.Value)
	if err != nil {
		d.fault(n, field, "%.80q is not a duration: want %s", n.Value, want)
	}
	return pause
}

func (d *decoder) tests(n *yaml.Node) []script.Test {
	items := d.list(n, testsField)
	if len(items) > script.MaxTests {
		d.blame(n, testsField, script.ValidateTests(testsField, make([]script.Test, len(items))))
		return nil
	}
	before := len(d.faults)
	var tests []script.Test
	for i, item := range items {
		tests = append(tests, d.test(item, fmt.Sprintf("%s[%d]", testsField, i)))
	}
	if len(d.faults) == before && n != nil {
		d.blame(n, testsField, script.ValidateTests(testsField, tests))
	}
	return tests
}

func (d *decoder) test(n *yaml.Node, path string) (t script.Test) {
	fields, ok := d.object(n, path, testFields)
	if !ok {
		return t
	}
	t.Name, _ = d.requiredText(n, fields["name"], path+".name", "what the test is called")
	t.Request = d.json(fields["request"], path+".request")
	t.Expect = d.json(fields["expect"], path+".expect")
	if expect, _ := child(n, ".expect"); expect != nil && fields["expect"] == nil { // a cluster would drop it
		d.fault(expect, path+".expect", "null cannot be expected: leave expect out if the result does not matter")
	}
	if kind := fields["error"]; kind != nil {
		text, _ := d.text(kind, path+".error")
		t.Error = script.Kind(text)
	}
	return t
}

// valueOf returns what stands in the field of an object.
func valueOf(n *yaml.Node, field string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == field {
			return n.Content[i+1]
		}
	}
	return nil
}

// list returns the items of a list, and none of an absent one.
func (d *decoder) list(n *yaml.Node, path string) []*yaml.Node {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		d.fault(n, path, "is %s, want a list", describe(n))
		return nil
	}
	return n.Content
}

// json returns the value in n as JSON; nil for none.
func (d *decoder) json(n *yaml.Node, path string) json.RawMessage {
	if n == nil {
		return nil
	}
	before := len(d.faults)
	budget := maxConfigNodes
	v := d.configValue(n, path, 0, &budget)
	if budget < 0 && len(d.faults) == before {
		d.fault(n, path, "has more than %d values", maxConfigNodes)
	}
	if len(d.faults) > before {
		return nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		d.fault(n, path, "cannot be written as JSON: %v", err)
		return nil
	}
	return bytes.TrimSpace(buf.Bytes())
}

// blame reports err, if it is one, where the field that it names is: below n, which
// stands at the path.
func (d *decoder) blame(n *yaml.Node, path string, err error) {
	e, ok := errors.AsType[*script.Error](err)
	if !ok {
		return
	}
	at := n
	for below := strings.TrimPrefix(e.Field, path); below != ""; {
		next, rest := child(at, below)
		if next == nil {
			break
		}
		at, below = next, rest
	}
	d.fault(at, e.Field, "%s", e.Message)
}

// child returns the part of n that a path such as ".steps[1].percent" or "[1].percent"
// begins with, and the rest of the path; nil if there is none.
func child(n *yaml.Node, path string) (part *yaml.Node, rest string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if index, ok := strings.CutPrefix(path, "["); ok {
		var i int
		if _, err := fmt.Sscanf(index, "%d]", &i); err != nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
			return nil, ""
		}
		_, rest, _ = strings.Cut(path, "]")
		return n.Content[i], rest
	}
	path = strings.TrimPrefix(path, ".")
	name := path
	if end := strings.IndexAny(path, ".["); end >= 0 {
		name, rest = path[:end], path[end:]
	}
	if n.Kind != yaml.MappingNode {
		return nil, ""
	}
	return valueOf(n, name), rest
}
