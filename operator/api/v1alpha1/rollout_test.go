package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	withRollout = "{tenantId: acme, source: return 1, rollout: %s}"
	withTests   = "{tenantId: acme, source: return 1, tests: %s}"
)

// many returns a list of so many items, each with its number.
func many(n int, item string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(item, i+1)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func invalidRollouts() []invalid {
	const grows = "each step must have a higher percent than the step before"
	const pause = "must be a duration up to 168h, such as 10m"
	const steps = "needs steps: only while some of the agents run the new version are its calls looked at"
	table := []invalid{
		{what: "is text", spec: "slowly", want: []string{"spec.rollout", "object"}},
		{what: "unknown field", spec: "{step: []}", want: []string{`unknown field "spec.rollout.step"`}},
		{what: "steps are an object", spec: "{steps: {}}", want: []string{"spec.rollout.steps", "array"}},
		{what: "unknown field of a step", spec: "{steps: [{percent: 5, wait: 1m}]}", want: []string{`unknown field "spec.rollout.steps[0].wait"`}},
		{what: "a step without percent", spec: "{steps: [{pause: 1m}]}", want: []string{"spec.rollout.steps[0].percent", "is missing: add the percentage of the agents, from 1 to 99, or a selector"}},
		{what: "a selector without labels", spec: "{steps: [{selector: {}}]}", want: []string{"spec.rollout.steps[0].selector", "at least 1"}},
		{what: "a selector of many labels", spec: "{steps: [{selector: {" + strings.Trim(many(script.MaxSelectorLabels+1, "l%d: a"), "[]") + "}}]}", want: []string{"spec.rollout.steps[0].selector", "16"}},
		{what: "a label with a space", spec: "{steps: [{selector: {zone: a b}}]}", want: []string{"spec.rollout.steps[0].selector.zone", "should match"}},
		{what: "a label with a long value", spec: "{steps: [{selector: {zone: " + strings.Repeat("a", 64) + "}}]}", want: []string{"spec.rollout.steps[0].selector.zone", "63"}},
		{what: "a label with a long name", spec: "{steps: [{selector: {" + strings.Repeat("a", 64) + ": a}}]}", want: []string{"spec.rollout.steps[0].selector", "names of labels must"}},
		{what: "a label whose name has a comma", spec: "{steps: [{selector: {'a,b': a}}]}", want: []string{"spec.rollout.steps[0].selector", "names of labels must"}},
		{what: "percent falls around a selector", spec: "{steps: [{percent: 50}, {selector: {zone: a}}, {percent: 10}]}", want: []string{"spec.rollout.steps", grows}},
		{what: "the same percent twice", spec: "{steps: [{percent: 5}, {percent: 5}]}", want: []string{"spec.rollout.steps", grows}},
		{what: "percent falls", spec: "{steps: [{percent: 5}, {percent: 50}, {percent: 10}]}", want: []string{"spec.rollout.steps", grows}},
		{what: "by agents falls around keys", spec: "{steps: [{percent: 5}, {percent: 50, by: key}, {percent: 1}]}", want: []string{"spec.rollout.steps", grows}},
		{what: "by something else", spec: "{steps: [{percent: 5, by: user}]}", want: []string{"spec.rollout.steps[0].by", "key"}},
		{what: "by key without percent", spec: "{steps: [{by: key, selector: {zone: a}}]}", want: []string{"spec.rollout.steps[0].percent", "is missing"}},
		{what: "a shadow of agents", spec: "{steps: [{shadow: 5, percent: 5}]}", want: []string{"spec.rollout.steps[0].shadow", "stands alone"}},
		{what: "a shadow of all and more", spec: "{steps: [{shadow: 101}]}", want: []string{"spec.rollout.steps[0].shadow", "100"}},
		{what: "maxDiffPercent is too high", spec: "{maxDiffPercent: 101, steps: [{shadow: 5}]}", want: []string{"spec.rollout.maxDiffPercent", "100"}},
		{what: "a key of something else", spec: "{key: headers.x-user, steps: [{percent: 5, by: key}]}", want: []string{"spec.rollout.key", "should match"}},
		{what: "many steps", spec: "{steps: " + many(script.MaxSteps+1, "{percent: %d}") + "}", want: []string{"spec.rollout.steps", "10"}},
		{what: "maxErrorPercent alone", spec: "{maxErrorPercent: 5}", want: []string{"spec.rollout.maxErrorPercent: ", steps}},
		{what: "maxErrorPercent of no steps", spec: "{maxErrorPercent: 0, steps: []}", want: []string{"spec.rollout.maxErrorPercent: ", steps}},
		{what: "maxErrorPercent is too low", spec: "{maxErrorPercent: -0.1, steps: [{percent: 5}]}", want: []string{"spec.rollout.maxErrorPercent", "greater than or equal to 0"}},
		{what: "maxErrorPercent is too high", spec: "{maxErrorPercent: 100.1, steps: [{percent: 5}]}", want: []string{"spec.rollout.maxErrorPercent", "less than or equal to 100"}},
		{what: "maxErrorPercent is text", spec: "{maxErrorPercent: many, steps: [{percent: 5}]}", want: []string{"spec.rollout.maxErrorPercent", "number"}},
		{what: "maxErrorIncrease alone", spec: "{maxErrorIncrease: 5}", want: []string{"spec.rollout.maxErrorIncrease: ", steps}},
		{what: "maxLatencyIncrease alone", spec: "{maxLatencyIncrease: {p99: 20%}}", want: []string{"spec.rollout.maxLatencyIncrease: ", steps}},
		{what: "maxLatencyIncrease of nothing", spec: "{maxLatencyIncrease: {}, steps: [{percent: 5}]}", want: []string{"spec.rollout.maxLatencyIncrease", "at least 1 properties"}},
		{what: "maxLatencyIncrease is a number", spec: "{maxLatencyIncrease: {p99: 20}, steps: [{percent: 5}]}", want: []string{"spec.rollout.maxLatencyIncrease.p99", "string"}},
		{what: "maxLatencyIncrease is none", spec: "{maxLatencyIncrease: {p99: 0%}, steps: [{percent: 5}]}", want: []string{"spec.rollout.maxLatencyIncrease.p99", "should match"}},
		{what: "failureLimit is a fraction", spec: "{failureLimit: 0.5, steps: [{percent: 5}]}", want: []string{"spec.rollout.failureLimit"}},
		{what: "failureLimit is most of them", spec: "{failureLimit: 51%, steps: [{percent: 5}]}", want: []string{"spec.rollout.failureLimit"}},
		{what: "after is a name", spec: "{after: acme/lib}", want: []string{"spec.rollout.after", "array"}},
		{what: "after a script without its tenant", spec: "{after: [lib]}", want: []string{"spec.rollout.after[0]", "should match"}},
		{what: "after the same script twice", spec: "{after: [acme/lib, acme/lib]}", want: []string{"spec.rollout.after[1]", "Duplicate"}},
		{what: "after many scripts", spec: "{after: " + many(script.MaxAfter+1, "acme/s%d") + "}", want: []string{"spec.rollout.after", "10"}},
		{what: "tolerate is a word", spec: "{tolerate: some, steps: [{percent: 5}]}", want: []string{"spec.rollout.tolerate"}},
		{what: "progressDeadline in days", spec: "{progressDeadline: 1d}", want: []string{"spec.rollout.progressDeadline", "must be a duration"}},
		{what: "onDeadline without a deadline", spec: "{onDeadline: pause}", want: []string{"spec.rollout.onDeadline", "needs progressDeadline"}},
		{what: "onDeadline is a word", spec: "{onDeadline: wait, progressDeadline: 1h}", want: []string{"spec.rollout.onDeadline", "abort", "pause"}},
		{what: "a gate without a source", spec: "{steps: [{percent: 5, gate: {}}]}", want: []string{"spec.rollout.steps[0].gate", "names no source"}},
		{what: "a gate with two sources", spec: "{steps: [{percent: 5, gate: {prometheus: a, webhook: b, query: up, max: 1}}]}", want: []string{"spec.rollout.steps[0].gate", "names two sources"}},
		{what: "a gate at an address", spec: "{steps: [{percent: 5, gate: {webhook: 'http://a'}}]}", want: []string{"spec.rollout.steps[0].gate.webhook", "should match"}},
		{what: "a gate without a query", spec: "{steps: [{percent: 5, gate: {prometheus: a, max: 1}}]}", want: []string{"spec.rollout.steps[0].gate.query: ", "is for prometheus, which needs it"}},
		{what: "a gate with a long query", spec: "{steps: [{percent: 5, gate: {prometheus: a, max: 1, query: " + strings.Repeat("a", script.MaxQueryBytes+1) + "}}]}", want: []string{"spec.rollout.steps[0].gate.query", "2048"}},
		{what: "a gate without a bound", spec: "{steps: [{percent: 5, gate: {prometheus: a, query: up}}]}", want: []string{"spec.rollout.steps[0].gate.max: ", "prometheus needs one of them"}},
		{what: "a gate that no value passes", spec: "{steps: [{percent: 5, gate: {prometheus: a, query: up, min: 2, max: 1}}]}", want: []string{"spec.rollout.steps[0].gate.min: ", "no value would pass"}},
		{what: "a webhook with a query", spec: "{steps: [{percent: 5, gate: {webhook: a, query: up}}]}", want: []string{"spec.rollout.steps[0].gate.query: ", "is for prometheus"}},
		{what: "a webhook with a bound", spec: "{steps: [{percent: 5, gate: {webhook: a, min: 0}}]}", want: []string{"spec.rollout.steps[0].gate.max: ", "is for prometheus"}},
		{what: "approval is text", spec: "{steps: [{percent: 5, approval: bob}]}", want: []string{"spec.rollout.steps[0].approval", "boolean"}},
		{what: "pause is a number", spec: "{steps: [{percent: 5, pause: 60}]}", want: []string{"spec.rollout.steps[0].pause", "string"}},
		{what: "pause in words", spec: "{steps: [{percent: 5, pause: a while}]}", want: []string{"spec.rollout.steps[0].pause", pause}},
		{what: "pause in days", spec: "{steps: [{percent: 5, pause: 1d}]}", want: []string{"spec.rollout.steps[0].pause", pause}},
		{what: "negative pause", spec: "{steps: [{percent: 5, pause: -1m}]}", want: []string{"spec.rollout.steps[0].pause", pause}},
		{what: "long pause", spec: "{steps: [{percent: 5, pause: 168h1ns}]}", want: []string{"spec.rollout.steps[0].pause", pause}},
		{what: "long text of a pause", spec: "{steps: [{percent: 5, pause: " + strings.Repeat("1s", 17) + "}]}", want: []string{"spec.rollout.steps[0].pause", "32"}},
	}
	for i := range table {
		table[i].what, table[i].spec = "rollout: "+table[i].what, fmt.Sprintf(withRollout, table[i].spec)
	}
	table = append(table, out("rollout.minCalls", 0, 1_000_000, fmt.Sprintf(withRollout, "{steps: [{percent: 5}], maxErrorPercent: 5, minCalls: %v}"))...)
	return append(table, out("rollout.steps[0].percent", 1, 99, fmt.Sprintf(withRollout, "{steps: [{percent: %v}]}"))...)
}

func invalidTests() []invalid {
	table := []invalid{
		{what: "are an object", spec: "{}", want: []string{"spec.tests", "array"}},
		{what: "one is text", spec: "[a]", want: []string{"spec.tests[0]", "object"}},
		{what: "unknown field", spec: "[{name: a, expects: 1}]", want: []string{`unknown field "spec.tests[0].expects"`}},
		{what: "no name", spec: "[{request: 1}]", want: []string{"spec.tests[0].name: Required value"}},
		{what: "empty name", spec: "[{name: ''}]", want: []string{"spec.tests[0].name"}},
		{what: "long name", spec: "[{name: " + strings.Repeat("a", script.MaxTestNameBytes+1) + "}]", want: []string{"spec.tests[0].name", "128"}},
		{what: "name is a number", spec: "[{name: 5}]", want: []string{"spec.tests[0].name", "string"}},
		{what: "a name twice", spec: "[{name: a}, {name: b}, {name: a}]", want: []string{"spec.tests[2]: Duplicate value"}},
		{what: "error that there is not", spec: "[{name: a, error: NOTFOUND}]", want: []string{"spec.tests[0].error", `"SCRIPT", "LIMIT", "TIMEOUT"`}},
		{what: "error in lower case", spec: "[{name: a, error: script}]", want: []string{"spec.tests[0].error"}},
		{what: "many", spec: many(script.MaxTests+1, "{name: t%d}"), want: []string{"spec.tests", "32"}},
	}
	for i := range table {
		table[i].what, table[i].spec = "tests: "+table[i].what, fmt.Sprintf(withTests, table[i].spec)
	}
	return table
}

// TestRolloutBounds: what is just allowed is allowed, and stays what it is.
func TestRolloutBounds(t *testing.T) {
	namespace := env.Namespace(t, "rollouts", nil)
	for _, spec := range []string{
		fmt.Sprintf(withRollout, "{}"),
		fmt.Sprintf(withRollout, "{steps: []}"),
		fmt.Sprintf(withRollout, "{maxErrorPercent: 0, steps: [{percent: 1}]}"),
		fmt.Sprintf(withRollout, "{steps: [{percent: 50}, {selector: {zone: a}, percent: 10}, {selector: {zone: a, topology.kubernetes.io/rack: '7'}}, {percent: 60}]}"),
		fmt.Sprintf(withRollout, "{maxErrorPercent: 100, steps: [{percent: 1}]}"),
		fmt.Sprintf(withRollout, "{maxErrorPercent: 0.1, minCalls: 0, failureLimit: 100, tolerate: 0, progressDeadline: 168h, steps: [{percent: 1, approval: true}]}"),
		fmt.Sprintf(withRollout, "{failureLimit: 50%, tolerate: 1%, steps: [{percent: 1}]}"),
		fmt.Sprintf(withRollout, "{steps: [{percent: 1, gate: {prometheus: a, query: "+strings.Repeat("a", script.MaxQueryBytes)+", min: -1, max: -1}}, {percent: 2, gate: {prometheus: a, query: up, max: 0}}, {percent: 3, gate: {webhook: "+strings.Repeat("a", script.MaxLabelLen)+"}}]}"),
		fmt.Sprintf(withRollout, "{steps: [{percent: 1, pause: 0s}, {percent: 99, pause: 168h}]}"),
		fmt.Sprintf(withRollout, "{steps: [{percent: 5, pause: 1h30m0.5s}]}"),
		fmt.Sprintf(withRollout, "{steps: "+many(script.MaxSteps, "{percent: %d, pause: 10m}")+"}"),
		fmt.Sprintf(withTests, "[]"),
		fmt.Sprintf(withTests, "[{name: "+strings.Repeat("é", script.MaxTestNameBytes/2)+"}]"),
		fmt.Sprintf(withTests, many(script.MaxTests, "{name: t%d, request: {n: 1}, expect: [1]}")),
		fmt.Sprintf(withTests, "[{name: a, error: SCRIPT}, {name: b, error: LIMIT}, {name: c, error: TIMEOUT}]"),
	} {
		if _, err := create(t, namespace, header+"kind: LuaScript\nmetadata: {name: route}\nspec: "+spec, client.DryRunAll); err != nil {
			t.Errorf("%.200s: %.600s", spec, err.Error())
		}
	}
}

// TestAnyJSON: requests and expectations are any JSON but null, and the API server changes
// nothing in them.
func TestAnyJSON(t *testing.T) {
	namespace := env.Namespace(t, "json", nil)
	u, err := create(t, namespace, header+`kind: LuaScript
metadata: {name: route}
spec:
  tenantId: acme
  source: return 1
  tests:
    - {name: object, request: {a: {b: [1, null, {}]}, sorce: x}, expect: {a: null, b: {}}}
    - {name: list, request: [], expect: [[1.5], "<&>"]}
    - {name: text, request: "", expect: "true"}
    - {name: number, request: 9007199254740993, expect: 0}
    - {name: truth, request: false, expect: true}
    - {name: nothing, request: null, expect: null}
`, client.DryRunAll)
	if err != nil {
		t.Fatal(err)
	}
	want := []any{
		map[string]any{
			"name":    "object",
			"request": map[string]any{"a": map[string]any{"b": []any{int64(1), nil, map[string]any{}}}, "sorce": "x"},
			"expect":  map[string]any{"a": nil, "b": map[string]any{}},
		},
		map[string]any{"name": "list", "request": []any{}, "expect": []any{[]any{1.5}, "<&>"}},
		map[string]any{"name": "text", "request": "", "expect": "true"},
		map[string]any{"name": "number", "request": int64(9007199254740993), "expect": int64(0)},
		map[string]any{"name": "truth", "request": false, "expect": true},
		map[string]any{"name": "nothing"}, // null is as good as left out
	}
	if diff := cmp.Diff(want, field(u, "spec", "tests")); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}
