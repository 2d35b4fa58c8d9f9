package webhook_test

import (
	"strings"
	"testing"
)

// What the schema cannot say of tests and rollouts is left to the webhook, which compiles
// the script and runs no test.
func TestTestsAndRollouts(t *testing.T) {
	cleanUp(t)
	needTenant(t, "acme", "namespaces: [default]")
	const script = "tenantId: acme\nsource: function handle() return 1 end\n"
	const refused, warned = `The LuaScript "route" is invalid: `, "Warning: "
	for spec, want := range map[string]string{
		"tests: [{name: a, expect: 2}, {name: b, request: {x: [1]}, error: LIMIT}]": "",
		"rollout: {}": "",
		"rollout: {maxErrorPercent: 5, steps: [{percent: 10, pause: 1m}, {percent: 50, pause: 1h}]}": "",

		"rollout: {maxErrorPercent: 5}": refused + `spec.rollout.maxErrorPercent: Invalid value: needs steps: only while some of the agents run the new version are its calls looked at`,

		"tests: [{name: a, expect: 1, error: SCRIPT}]":                                          refused + "spec.tests[0].error: a call that fails has no result: leave out one of expect and error",
		"tests: [{name: a, expect: " + strings.Repeat("[", 33) + strings.Repeat("]", 33) + "}]": refused + "spec.tests[0].expect: is nested deeper than 32",
		"tests: [{name: a, expect: " + strings.Repeat("x", 40<<10) + "}, {name: b, request: " + strings.Repeat("x", 40<<10) + "}]": refused +
			"spec.tests: have 81924 bytes of requests and expectations together, at most 65536 (64 KiB) are allowed",

		"tests: [{name: a, expect: 1}, {name: b}]": warned + "spec.tests[1]: expects nothing: it passes whenever the call does not fail; say what it should answer in expect",
		"rollout: {maxErrorPercent: 5, steps: [{percent: 10}], failureLimit: 3, tolerate: 5%, progressDeadline: 30m}": "",
		"rollout: {maxErrorIncrease: 0.5, maxLatencyIncrease: {p99: 20%}, steps: [{percent: 10}]}":                    "",
		"rollout: {maxErrorPercent: 5, minCalls: 0, steps: [{percent: 10}]}":                                          warned + "spec.rollout.steps[0].pause: without one the step is over after 10s, and minCalls of 0 has it pass without any call",

		"rollout: {steps: [{percent: 10, pause: 1h}], minCalls: 5}": refused + "spec.rollout.minCalls: needs maxErrorPercent, maxErrorIncrease, maxDiffPercent or maxLatencyIncrease: without them calls are not looked at",
		"rollout: {failureLimit: 3}":                                refused + "spec.rollout.failureLimit: needs steps: only while some of the agents run the new version can they be lost",
		"rollout: {steps: [{percent: 10, pause: 1m}, {percent: 50}]}": warned + "spec.rollout.steps[1].pause: without one the step is over as soon as the version runs on 50 % of the agents, " +
			"before calls show how it does there",
		"rollout: {steps: [{selector: {zone: a}, pause: 1m}, {selector: {zone: b}}]}": warned + "spec.rollout.steps[1].pause: without one the step is over as soon as the version runs on the agents with zone=b, " +
			"before calls show how it does there",
		"rollout: {steps: [{selector: {zone: a}, pause: 1m}, {selector: {rack: '7', zone: a}, pause: 1m}]}": refused + "spec.rollout.steps[1].selector: all agents with rack=7,zone=a run the version since step 1: leave the step out",
	} {
		if want == "" || strings.HasPrefix(want, warned) {
			want = strings.TrimPrefix(want+"\nluascript.scriptorium.dev/route created", "\n")
		}
		got := apply(t, manifest("route", script+spec))
		if got != want {
			t.Errorf("%.100s: kubectl says\n%.500s\nwant\n%s", spec, got, want)
		}
		if strings.HasSuffix(got, " created") {
			if _, _, err := kube.Kubectl(t.Context(), "", "delete", "luascript", "route"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
