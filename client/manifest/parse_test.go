package manifest_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

const head = "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: route}\n"

const full = `
apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata:
  name: route
  namespace: gateways
  labels: {app: shop}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
  uid: 6e2b
  resourceVersion: "12"
  managedFields: [{manager: kubectl}]
spec:
  tenantId: acme
  source: |
    function decide() end
  entrypoint: decide
  enabled: false
  version: 7
  trigger: {event: http-request}
  config: {b: [1, 2.5, true, null, "<x>"], a: {}}
  limits: {instructions: 1000, timeout: 50ms, sourceBytes: 2000, stringBytes: 3000, resultBytes: 4000, logBytes: 5000, concurrency: 6, coroutines: true}
  revisionHistoryLimit: 3
  rollout:
    key: request.headers.X-User
    maxDiffPercent: 0.5
    steps: [{shadow: 5, pause: 10m}, {percent: 1, by: key}, {percent: 10, pause: 10m}, {percent: 50}, {selector: {zone: a, topology.kubernetes.io/rack: "7"}}]
    maxErrorPercent: 0
    maxErrorIncrease: 0.5
    maxLatencyIncrease: {p50: 5%, p99: 20%}
    progressDeadline: 90m
    onDeadline: pause
  tests:
  - {name: defaults}
  - name: routes
    request: {headers: {host: "<a>"}, n: 7}
    expect: [{pool: null}]
  - {name: nothing, request: null}
  - {name: refuses, request: "x", error: SCRIPT}
status:
  phase: Active
`

func TestParseFull(t *testing.T) {
	got, err := manifest.Parse("route.yaml", []byte(full), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 {
		t.Fatalf("got %d manifests, want 1", len(got))
	}
	m := got[0]
	p := m.Publish()
	if p.Name != (script.Name{Tenant: "acme", Script: "route"}) || string(p.Source) != "function decide() end\n" ||
		p.Engine != "lua" || *p.Entrypoint != "decide" || *p.Enabled || *p.Pin != 7 {
		t.Errorf("got %+v", p)
	}
	want := script.Settings{
		Spec: script.Spec{
			Limits: script.Limits{
				Instructions: 1000, Timeout: 50 * time.Millisecond, SourceBytes: 2000, StringBytes: 3000, ResultBytes: 4000,
				LogBytes: 5000, Concurrency: 6, Coroutines: true,
			},
			Trigger: script.Trigger{Event: "http-request"},
			Config:  []byte(`{"a":{},"b":[1,2.5,true,null,"<x>"]}`),
			Tests: []script.Test{
				{Name: "defaults"},
				{Name: "routes", Request: []byte(`{"headers":{"host":"<a>"},"n":7}`), Expect: []byte(`[{"pool":null}]`)},
				{Name: "nothing"},
				{Name: "refuses", Request: []byte(`"x"`), Error: script.Script},
			},
		},
		HistoryLimit: 3,
		Rollout: script.Plan{
			Key:             "request.headers.x-user",
			MaxDiffPercent:  new(0.5),
			Steps:           []script.Step{{Percent: 5, By: script.ByShadow, Pause: 10 * time.Minute}, {Percent: 1, By: script.ByKey}, {Percent: 10, Pause: 10 * time.Minute}, {Percent: 50}, {Selector: "topology.kubernetes.io/rack=7,zone=a"}},
			MaxErrorPercent: new(0.0), MaxErrorIncrease: new(0.5), MaxLatencyIncrease: script.LatencyIncrease{P50: 5, P99: 20}, ProgressDeadline: 90 * time.Minute, OnDeadline: script.PauseOnDeadline,
		},
	}
	if d := cmp.Diff(want, *p.Settings); d != "" {
		t.Error(d)
	}
}

func TestParseDefaults(t *testing.T) {
	got, err := manifest.Parse("m.yaml", []byte("---\n---\n"+head+"spec: {tenantId: acme, source: return 1, entrypoint: , config: null}\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	m := got[0]
	if m.Entrypoint != "handle" || !m.Enabled || m.Pin != 0 || m.Line != 3 || m.Settings.Config != nil {
		t.Errorf("got %+v", m)
	}
}

func TestParseEmptyEntrypoint(t *testing.T) {
	got, err := manifest.Parse("m.yaml", []byte(head+`spec: {tenantId: acme, source: return 1, entrypoint: ""}`), "")
	if err != nil || got[0].Entrypoint != "" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestParseJSON(t *testing.T) {
	const doc = `{
	"apiVersion": "scriptorium.dev\/v1alpha1", "kind": "LuaScript",
	"metadata": {"name": "route"},
	"spec": {"tenantId": "acme", "source": "return \"\ud83d\ude00\\ud83d\\ude00\""}
}`
	got, err := manifest.Parse("m.json", []byte(doc), "")
	if err != nil {
		t.Fatal(err)
	}
	if s := string(got[0].Source); s != `return "😀\ud83d\ude00"` {
		t.Errorf("source = %q", s)
	}
}

func TestParseAlias(t *testing.T) {
	got, err := manifest.Parse("m.yaml", []byte(head+"spec: {tenantId: &t acme, source: return 1, config: {owner: *t}}"), "")
	if err != nil {
		t.Fatal(err)
	}
	if s := string(got[0].Settings.Config); s != `{"owner":"acme"}` {
		t.Errorf("config = %s", s)
	}
}

func spec(lines string) string { return head + "spec:\n  tenantId: acme\n" + lines }

func TestParseFaults(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	bomb := "  config:\n    a: &a [1,1,1,1,1,1,1,1,1,1]\n"
	for i := 'b'; i < 'j'; i++ {
		bomb += "    " + string(i) + ": &" + string(i) + " [" + strings.Repeat("*"+string(i-1)+",", 10) + "]\n"
	}
	tests := []struct {
		name string
		doc  string
		want []string // what each line of the error contains
	}{
		{"unknown field", spec("  source: return 1\n  rollin: {}\n"), []string{"m.yaml:7:3: spec.rollin: is not a field; the fields here are tenantId,"}},
		{"wrong case", head + "spec: {tenantID: acme, source: return 1}", []string{"m.yaml:4:7: spec.tenantId: is missing", "m.yaml:4:8: spec.tenantID: is not a field: write it as tenantId"}},
		{"doubled field", spec("  source: return 1\n  source: return 2\n"), []string{"m.yaml:7:3: spec.source: is there twice, first in line 6"}},
		{"wrong types", spec("  source: [a]\n  enabled: yes\n  version: '7'\n  entrypoint: 5\n  config: []\n  limits: {timeout: 50}\n"), []string{
			"m.yaml:6:11: spec.source: is a list, want text",
			`m.yaml:7:12: spec.enabled: is the text "yes", want true or false`,
			`m.yaml:8:12: spec.version: is the text "7", want a whole number`,
			"m.yaml:9:15: spec.entrypoint: is the number 5, want text: put it in quotes",
			"m.yaml:10:11: spec.config: is a list, want an object",
			"m.yaml:11:21: spec.limits.timeout: is the number 50, want a duration such as 50ms",
		}},
		{"bad base64", spec("  script: '!!!'\n"), []string{"m.yaml:6:11: spec.script: is not base64"}},
		{"script and source", spec("  script: cmV0dXJu\n  source: return\n"), []string{"m.yaml:7:11: spec.source: there is spec.script as well"}},
		{"no source", spec(""), []string{"m.yaml:5:3: spec.source: is missing"}},
		{"empty source", spec("  source: '  '\n"), []string{"spec.source: is empty"}},
		{"NUL in source", spec("  source: \"a\\nb\\0\"\n"), []string{"m.yaml:6:11: spec.source: the source, in line 2: a NUL byte"}},
		{"NUL in base64", spec("  script: " + b64([]byte("a\x00")) + "\n"), []string{"spec.script: the source, in line 1: a NUL byte"}},
		{"not UTF-8 in base64", spec("  script: " + b64([]byte("a\xff")) + "\n"), []string{"spec.script: the source, in line 1: not valid UTF-8"}},
		{"NUL in the file", "kind: LuaScript\na: \x00", []string{"m.yaml:2:4: there is a NUL byte here"}},
		{"not UTF-8", "kind: \xff", []string{"m.yaml:1:7: this is not valid UTF-8"}},
		{"labels", strings.Replace(head, "route", "Route_1", 1) + "spec: {tenantId: '-a', source: return 1}", []string{
			`m.yaml:3:18: metadata.name: "Route_1" is not a DNS label`, `m.yaml:4:18: spec.tenantId: "-a" is not a DNS label`,
		}},
		{"source too large", spec("  limits: {sourceBytes: 3}\n  source: return 1\n"), []string{"m.yaml:7:11: spec.source: the source has 8 bytes and may have 3: shorten it, or raise spec.limits.sourceBytes"}},
		{"limits too high", spec("  source: return 1\n  limits: {instructions: 1000000000, timeout: 1h, stringBytes: 0, resultBytes: -1, logBytes: 1048577, concurrency: 1025, coroutines: 1}\n"), []string{
			"spec.limits.instructions: 1000000000 is not between 1 and 100000000", "spec.limits.timeout: 1h0m0s is not above 0 and at most 10s",
			"spec.limits.stringBytes: 0 is not between", "spec.limits.resultBytes: is the number -1, want",
			"spec.limits.logBytes: 1048577 is not between 1 and 1048576", "spec.limits.concurrency: 1025 is not between 1 and 1024",
			"spec.limits.coroutines: is the number 1, want true or false",
		}},
		{"version zero", spec("  source: return 1\n  version: 0\n"), []string{"spec.version: 0 is not between"}},
		{"history", spec("  source: return 1\n  revisionHistoryLimit: 51\n"), []string{"spec.revisionHistoryLimit: 51 is not between 1 and 50"}},
		{"entrypoint", spec("  source: return 1\n  entrypoint: a b\n"), []string{`spec.entrypoint: "a b" is not the name of a function`}},
		{"long entrypoint", spec("  source: return 1\n  entrypoint: " + strings.Repeat("a", 65) + "\n"), []string{"spec.entrypoint: has 65 bytes, at most 64 are allowed"}},
		{"trigger without event", spec("  source: return 1\n  trigger: {}\n"), []string{"spec.trigger.event: is missing"}},
		{"other kind", "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n", []string{`m.yaml:2:7: kind: is "ConfigMap", want Script`}},
		{"other API version", strings.Replace(head, "v1alpha1", "v1", 1) + "spec: {tenantId: acme, source: return 1}", []string{`apiVersion: is "scriptorium.dev/v1", want scriptorium.dev/v1alpha1`}},
		{"nothing but a kind", "kind: LuaScript", []string{"apiVersion: is missing", "metadata: is missing", "spec: is missing"}},
		{"not an object", "- a\n", []string{"m.yaml:1:1: is a list, want a Script manifest"}},
		{"tab", head + "spec:\n\ttenantId: acme\n", []string{"m.yaml:5: is not YAML: found character that cannot start any token: indent with spaces"}},
		{"labels of another type", "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: route, labels: {a: 1}}\nspec: {tenantId: acme, source: return 1}", []string{"m.yaml:3:37: metadata.labels.a: is the number 1, want text"}},
		{"config keys", spec("  source: return 1\n  config: {1: a, b: {c: .inf, c: 2}}\n"), []string{"has a key that is the number 1", "spec.config.b.c: is .inf, which JSON has not", "spec.config.b.c: is there twice"}},
		{"rollout of a wrong type", spec("  source: return 1\n  rollout: fast\n  tests: {}\n"), []string{
			`m.yaml:7:12: spec.rollout: is the text "fast", want fields: steps, maxErrorPercent`,
			"m.yaml:8:10: spec.tests: is an object, want a list",
		}},
		{"steps", spec("  source: return 1\n  rollout:\n    steps:\n    - {percent: ten}\n    - {pause: 5, stop: 1}\n    - {percent: 3, pause: soon}\n    - 4\n    maxErrorPercent: '5'\n"), []string{
			`m.yaml:9:17: spec.rollout.steps[0].percent: is the text "ten", want a whole number of percent`,
			"m.yaml:10:7: spec.rollout.steps[1].percent: is missing",
			"m.yaml:10:15: spec.rollout.steps[1].pause: is the number 5, want a duration",
			"m.yaml:10:18: spec.rollout.steps[1].stop: is not a field; the fields here are percent, by, shadow, selector, pause",
			`m.yaml:11:27: spec.rollout.steps[2].pause: "soon" is not a duration`,
			"m.yaml:12:7: spec.rollout.steps[3]: is the number 4, want fields: percent, by, shadow, selector, pause",
			`m.yaml:13:22: spec.rollout.maxErrorPercent: is the text "5", want a number of percent`,
		}},
		{"selectors", spec("  source: return 1\n  rollout:\n    steps:\n    - {selector: a}\n    - {selector: {}}\n    - {selector: {zone: 1, rack: ''}}\n    - {percent: 0, selector: {zone: a b}}\n    - {selector: {zone: a, zone: b}}\n"), []string{
			`m.yaml:9:18: spec.rollout.steps[0].selector: is the text "a", want labels of agents, such as zone: a`,
			"m.yaml:10:18: spec.rollout.steps[1].selector: names no label: add one",
			"m.yaml:11:25: spec.rollout.steps[2].selector.zone: is the number 1, want text: put it in quotes",
			"m.yaml:12:17: spec.rollout.steps[3].percent: 0 is not between 1 and 99: leave it out to take all agents",
			`m.yaml:12:37: spec.rollout.steps[3].selector.zone: "a b" is not the value of a label`,
			"m.yaml:13:28: spec.rollout.steps[4].selector.zone: is there twice",
		}},
		{"zones that all run it", spec("  source: return 1\n  rollout:\n    steps:\n    - {selector: {zone: a}}\n    - {selector: {zone: a, rack: '7'}}\n"), []string{
			"m.yaml:10:18: spec.rollout.steps[1].selector: all agents with rack=7,zone=a run the version since step 1: leave the step out",
		}},
		{"gates", spec("  source: return 1\n  rollout:\n    steps:\n    - {percent: 1, gate: main}\n    - {percent: 2, gate: {}}\n    - {percent: 3, gate: {prometheus: a, webhook: b}}\n    - {percent: 4, gate: {prometheus: 5, query: [up], max: '1', url: x}}\n"), []string{
			`m.yaml:9:26: spec.rollout.steps[0].gate: is the text "main", want fields: prometheus, webhook, query, min, max`,
			"m.yaml:10:26: spec.rollout.steps[1].gate: names no source: add prometheus or webhook with the name of one",
			"m.yaml:11:26: spec.rollout.steps[2].gate: names two sources, prometheus and webhook: leave one of them out",
			"m.yaml:12:39: spec.rollout.steps[3].gate.prometheus: is the number 5, want text: put it in quotes",
			"m.yaml:12:49: spec.rollout.steps[3].gate.query: is a list, want text",
			`m.yaml:12:60: spec.rollout.steps[3].gate.max: is the text "1", want a number, such as 0.01`,
			"m.yaml:12:65: spec.rollout.steps[3].gate.url: is not a field; the fields here are prometheus, webhook, query, min, max",
		}},
		{"a gate with a typo", spec("  source: return 1\n  rollout:\n    steps:\n    - {percent: 1, gate: {prometheus: main, query: 'up{a=\"$tennant\"}', max: 1}}\n"), []string{
			"m.yaml:9:52: spec.rollout.steps[0].gate.query: $tennant is no variable: there are $tenant, $script, $version, $active, $step",
		}},
		{"a gate that no value passes", spec("  source: return 1\n  rollout: {steps: [{percent: 1, gate: {prometheus: main, query: up, min: 2, max: 1}}]}\n"), []string{
			"spec.rollout.steps[0].gate.min: 2 is more than max, 1: no value would pass",
		}},
		{"a gate at an address", spec("  source: return 1\n  rollout: {steps: [{percent: 1, gate: {webhook: 'http://169.254.169.254'}}]}\n"), []string{
			`spec.rollout.steps[0].gate.webhook: "http://169.254.169.254" is no source of gates`,
		}},
		{"steps that go back", spec("  source: return 1\n  rollout:\n    steps:\n    - {percent: 5}\n    - {percent: 5}\n"), []string{
			"m.yaml:10:17: spec.rollout.steps[1].percent: 5 is not more than 5, the percent of the step before",
		}},
		{"a long pause", spec("  source: return 1\n  rollout: {steps: [{percent: 5, pause: 200h}]}\n"), []string{"m.yaml:7:41: spec.rollout.steps[0].pause: 200h0m0s is not between"}},
		{"errors above all", spec("  source: return 1\n  rollout: {maxErrorPercent: 101}\n"), []string{"m.yaml:7:30: spec.rollout.maxErrorPercent: 101 is not between 0 and 100"}},
		{"latency", spec("  source: return 1\n  rollout:\n    steps: [{percent: 5}]\n    maxLatencyIncrease: {p50: 20, p99: 0%}\n"), []string{
			`m.yaml:9:31: spec.rollout.maxLatencyIncrease.p50: is the number 20, want a percentage, such as 20%`,
			`m.yaml:9:40: spec.rollout.maxLatencyIncrease.p99: is the text "0%", want a percentage, such as 20%`,
		}},
		{"latency of nothing", spec("  source: return 1\n  rollout: {steps: [{percent: 5}], maxLatencyIncrease: {}}\n"), []string{"m.yaml:7:56: spec.rollout.maxLatencyIncrease: names no percentile"}},
		{"latency of another percentile", spec("  source: return 1\n  rollout: {steps: [{percent: 5}], maxLatencyIncrease: {p999: 20%}}\n"), []string{"spec.rollout.maxLatencyIncrease"}},
		{"latency of no steps", spec("  source: return 1\n  rollout: {maxLatencyIncrease: {p99: 20%}}\n"), []string{"m.yaml:7:33: spec.rollout.maxLatencyIncrease: needs steps: "}},
		{"much more latency", spec("  source: return 1\n  rollout: {steps: [{percent: 5}], maxLatencyIncrease: {p99: 1001%}}\n"), []string{"spec.rollout.maxLatencyIncrease.p99: 1001 % is not between 1 % and 1000 %"}},
		{"a deadline that does what nobody knows", spec("  source: return 1\n  rollout: {progressDeadline: 1h, onDeadline: wait}\n"), []string{`m.yaml:7:47: spec.rollout.onDeadline: "wait" is neither abort nor pause`}},
		{"by something else", spec("  source: return 1\n  rollout: {steps: [{percent: 1, by: user}]}\n"), []string{`m.yaml:7:38: spec.rollout.steps[0].by: "user" is not key: leave it out to take a share of the agents`}},
		{"a shadow of agents", spec("  source: return 1\n  rollout: {steps: [{shadow: 5, percent: 1}]}\n"), []string{"spec.rollout.steps[0].percent: is not for a shadow step: leave it out"}},
		{"a shadow after agents", spec("  source: return 1\n  rollout: {steps: [{percent: 1}, {shadow: 5}]}\n"), []string{"spec.rollout.steps[1].shadow: step 1 makes the version live on some agents"}},
		{"a key of nothing", spec("  source: return 1\n  rollout: {key: user, steps: [{percent: 1, by: key}]}\n"), []string{`m.yaml:7:18: spec.rollout.key: "user" is no part of a request that can be a key: want request.headers.NAME, request.cookies.NAME, request.query_params.NAME or request.remote_addr`}},
		{"a key that nobody takes", spec("  source: return 1\n  rollout: {key: request.remote_addr, steps: [{percent: 1}]}\n"), []string{"spec.rollout.key: needs a step with by: key"}},
		{"a pause at no time", spec("  source: return 1\n  rollout: {onDeadline: pause}\n"), []string{"spec.rollout.onDeadline: needs progressDeadline"}},
		{"more errors than there can be", spec("  source: return 1\n  rollout: {steps: [{percent: 5}], maxErrorIncrease: 101}\n"), []string{"spec.rollout.maxErrorIncrease: 101 is not between 0 and 100"}},
		{"errors of no steps", spec("  source: return 1\n  rollout: {maxErrorPercent: 5}\n"), []string{"m.yaml:7:30: spec.rollout.maxErrorPercent: needs steps: "}},
		{"too many steps", spec("  source: return 1\n  rollout: {steps: [" + strings.Repeat("{percent: 5},", 11) + "]}\n"), []string{"m.yaml:7:20: spec.rollout.steps: 11 are too many"}},
		{"tests", spec("  source: return 1\n  tests:\n  - {request: 1}\n  - {name: 7, expect: .inf}\n  - {name: a, errors: SCRIPT}\n"), []string{
			"m.yaml:8:5: spec.tests[0].name: is missing: add what the test is called",
			"m.yaml:9:12: spec.tests[1].name: is the number 7, want text",
			"m.yaml:9:23: spec.tests[1].expect: is .inf, which JSON has not",
			"m.yaml:10:15: spec.tests[2].errors: is not a field",
		}},
		{"tests that cannot be", spec("  source: return 1\n  tests:\n  - {name: a}\n  - {name: b, error: NOTFOUND}\n"), []string{`m.yaml:9:22: spec.tests[1].error: "NOTFOUND" is no kind of error`}},
		{"two tests of a name", spec("  source: return 1\n  tests: [{name: a}, {name: a}]\n"), []string{`m.yaml:7:29: spec.tests[1].name: there is another test "a"`}},
		{"a test of both", spec("  source: return 1\n  tests: [{name: a, expect: 1, error: LIMIT}]\n"), []string{"m.yaml:7:39: spec.tests[0].error: a call that fails has no result"}},
		{"a test of nothing", spec("  source: return 1\n  tests:\n  - &t {name: a, expect: &n null}\n  - *t\n  - {name: b, expect: *n}\n  - {name: c, expect: ~}\n  - {name: d, expect: }\n  - {name: e, expect: [null]}\n"), []string{
			"m.yaml:8:26: spec.tests[0].expect: null cannot be expected: leave expect out",
			"m.yaml:8:26: spec.tests[1].expect: null",
			"m.yaml:10:23: spec.tests[2].expect: null",
			"m.yaml:11:23: spec.tests[3].expect: null",
			"spec.tests[4].expect: null",
		}},
		{"too many tests", spec("  source: return 1\n  tests: [" + strings.Repeat("{},", 33) + "]\n"), []string{"m.yaml:7:10: spec.tests: 33 are too many"}},
		{"a bomb of a test", spec("  source: return 1\n" + "  tests:\n  - name: a\n    expect:\n" + strings.ReplaceAll(strings.TrimPrefix(bomb, "  config:\n"), "    ", "      ")), []string{"spec.tests[0].expect: has more than 10000 values"}},
		{"alias bomb", spec("  source: return 1\n" + bomb), []string{"spec.config: has more than 10000 values"}},
		{"alias of itself", spec("  source: return 1\n  config: &c {a: *c}\n"), []string{"is nested deeper than 32"}},
		{"control characters", spec("  source: return 1\n  \"a\\e[2J\\nb\": 1\n"), []string{`"spec.a\x1b[2J\nb": is not a field`}},
		{"merge key", spec("  source: return 1\n  <<: {enabled: true}\n"), []string{"<<: merge keys are not supported"}},
		{"every document", head + "spec: {}\n---\n" + head + "spec: {tenantId: 5, source: a}\n", []string{"m.yaml:4:7: spec.tenantId: is missing", "m.yaml:4:7: spec.source: is missing", "m.yaml:9:18: spec.tenantId: is the number 5"}},
		{"same script twice", head + "spec: {tenantId: acme, source: a}\n---\n" + head + "spec: {tenantId: acme, source: a}\n", []string{"m.yaml:6:1: metadata.name: acme/route already has a manifest, m.yaml:1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := manifest.Parse("m.yaml", []byte(tt.doc), t.TempDir())
			if err == nil {
				t.Fatal("no error")
			}
			if k := script.KindOf(err); k != script.Invalid {
				t.Errorf("kind = %s, want INVALID", k)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Fatalf("got %d faults, want %d:\n%v", len(lines), len(tt.want), err)
			}
			for i, want := range tt.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("got  %s\nwant %s", lines[i], want)
				}
			}
		})
	}
}

func TestParseKeepsTheRightOnes(t *testing.T) {
	got, err := manifest.Parse("m.yaml", []byte(head+"spec: {tenantId: acme, source: a}\n---\nkind: LuaScript\n"), "")
	if err == nil || len(got) != 1 || got[0].Name.Script != "route" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestBadJSON(t *testing.T) {
	_, err := manifest.Parse("m.json", []byte("{\n  \"kind\": LuaScript\n}"), "")
	if err == nil || !strings.HasPrefix(err.Error(), "m.json:2:11: is not JSON: ") {
		t.Fatalf("got %v", err)
	}
}

func TestPosition(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "route.lua", "return 1")
	tests := []struct {
		name, doc string
		line, col int
		want      string
	}{
		{"file", spec("  sourceFile: route.lua\n"), 3, 7, filepath.Join(dir, "route.lua") + ":3:7"},
		{"file, no column", spec("  sourceFile: route.lua\n"), 3, 0, filepath.Join(dir, "route.lua") + ":3"},
		{"block", spec("  source: |\n    local a\n    x = = 1\n"), 2, 5, "m.yaml:8:9"},
		{"block after an empty line", spec("  source: |\n\n    x = = 1\n"), 2, 5, "m.yaml:8:9"},
		{"block with a comment", spec("  source: |- # code\n    x = = 1"), 1, 5, "m.yaml:7:9"},
		{"block with an indicator", spec("  source: |2\n      x = = 1\n"), 1, 7, "m.yaml:7:11"},
		{"block in a later document", "---\nkind: Other\n---\n" + spec("  source: |\n    x = = 1\n"), 1, 0, "m.yaml:10"},
		{"block with CRLF", strings.ReplaceAll(spec("  source: |\n    local a\n    x = = 1\n"), "\n", "\r\n"), 2, 5, "m.yaml:8:9"},
		{"plain", spec("  source: x = = 1\n"), 1, 5, "m.yaml:6:11 (line 1 of the source)"},
		{"base64", spec("  script: eCA9ID0gMQ==\n"), 1, 5, "m.yaml:6:11 (line 1 of the source)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ms, err := manifest.Parse("m.yaml", []byte(tt.doc), dir)
			if len(ms) != 1 {
				t.Fatal(err)
			}
			if got := ms[0].Position(tt.line, tt.col); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestLocate(t *testing.T) {
	ms, err := manifest.Parse("m.yaml", []byte(spec("  source: |\n    x = = 1\n")), "")
	if err != nil {
		t.Fatal(err)
	}
	compile := &script.Error{Kind: script.Script, Message: "unexpected '='", Line: 1, Column: 5}
	located := ms[0].Locate(compile)
	if got := located.Error(); got != "m.yaml:7:9: unexpected '='" {
		t.Errorf("got %s", got)
	}
	if script.KindOf(located) != script.Script {
		t.Errorf("kind = %s", script.KindOf(located))
	}
	if other := errors.New("other"); ms[0].Locate(other) != other { //nolint:errorlint // the very same
		t.Error("another error was changed")
	}
}

func TestLocateWithoutLine(t *testing.T) {
	const fields = `  version: 99
  entrypoint: run
  trigger: {event: http-request}
  limits:
    timeout: 50ms
  config: {a: 1}
  revisionHistoryLimit: 3
  tests: [{name: a, expect: [{b: 1}]}]
`
	noEntrypoint := script.Errorf(script.Script, "", `the script defines no global function "run"; define it or set the entrypoint`)
	dir := t.TempDir()
	write(t, dir, "a.lua", "return 1")
	tests := []struct {
		name, spec string
		err        *script.Error
		want       string
	}{
		{"pin", fields, script.Errorf(script.NotFound, "pin", "acme/a has no version 99"), "m.yaml:7:12: spec.version: acme/a has no version 99"},
		{"no entrypoint", fields, noEntrypoint, `m.yaml:8:15: spec.entrypoint: the script defines no global function "run"`},
		{"no entrypoint, says the registry", fields, script.Errorf(script.Script, "source", "define it or set the entrypoint"), "m.yaml:8:15: spec.entrypoint: define it"},
		{"entrypoint", fields, script.Errorf(script.Invalid, "entrypoint", "has 65 bytes"), "m.yaml:8:15: spec.entrypoint: has 65 bytes"},
		{"event", fields, script.Errorf(script.Invalid, "settings.trigger.event", "is bad"), "m.yaml:9:20: spec.trigger.event: is bad"},
		{"limit", fields, script.Errorf(script.Invalid, "settings.limits.timeout", "is bad"), "m.yaml:11:14: spec.limits.timeout: is bad"},
		{"a test", fields, script.Errorf(script.Invalid, "settings.tests[0].expect", "is bad"), "m.yaml:14:29: spec.tests[0].expect: is bad"},
		{"config", fields, script.Errorf(script.Invalid, "settings.config", "is bad"), "m.yaml:12:11: spec.config: is bad"},
		{"history", fields, script.Errorf(script.Invalid, "settings.historyLimit", "is bad"), "m.yaml:13:25: spec.revisionHistoryLimit: is bad"},
		{"source", fields, script.Errorf(script.Invalid, "source", "has 9 bytes"), "m.yaml:6:11: spec.source: has 9 bytes"},
		{"another fault of the source", fields, script.Errorf(script.Script, "source", "is too deep"), "m.yaml:6:11: is too deep"},
		{"default entrypoint", "", noEntrypoint, "m.yaml:6:11: the script defines"},
		{"field that is not there", "", script.Errorf(script.Invalid, "settings.limits.timeout", "is bad"), ""},
		{"no field", fields, script.Errorf(script.Conflict, "", "changed"), ""},
		{"field of the request", fields, script.Errorf(script.Invalid, "note", "has 600 bytes"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ms, err := manifest.Parse("m.yaml", []byte(spec("  source: return 1\n"+tt.spec)), dir)
			if err != nil {
				t.Fatal(err)
			}
			checkLocated(t, ms[0].Locate(tt.err), tt.err, tt.want)
		})
	}
	ms, err := manifest.Parse("m.yaml", []byte(spec("  sourceFile: a.lua\n")), dir)
	if err != nil {
		t.Fatal(err)
	}
	checkLocated(t, ms[0].Locate(noEntrypoint), noEntrypoint, filepath.Join(dir, "a.lua")+":1:1: the script defines")
	large := script.Errorf(script.Invalid, "source", "has 9 bytes")
	checkLocated(t, ms[0].Locate(large), large, "m.yaml:6:15: spec.sourceFile: has 9 bytes")
}

// checkLocated checks what Locate made of err; want is "" for nothing.
func checkLocated(t *testing.T, located error, err *script.Error, want string) {
	t.Helper()
	switch {
	case want == "" && located != error(err): //nolint:errorlint // the very same
		t.Errorf("got %v, want the same error", located)
	case !strings.HasPrefix(located.Error(), want):
		t.Errorf("got %v, want %s", located, want)
	case script.KindOf(located) != err.Kind:
		t.Errorf("kind = %s, want %s", script.KindOf(located), err.Kind)
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full), "m.yaml")
	f.Add([]byte(spec("  source: |2\n      x\n")), "m.yaml")
	f.Add([]byte(spec("  sourceFile: ../x\n")), "m.yaml")
	f.Add([]byte(spec("  script: eCA9ID0gMQ==\n")), "m.yml")
	f.Add([]byte(spec("  source: return 1\n  config: &c {a: *c}\n")), "m.yaml")
	f.Add([]byte(spec("  source: return 1\n  rollout: {steps: [{percent: 5, pause: 1m, gate: {prometheus: a, query: up, max: 1}}], maxErrorPercent: 3}\n  tests: &t [{name: a, request: [1], expect: {b: *t}}, *t]\n")), "m.yaml")
	f.Add([]byte(`{"kind": "LuaScript", "spec": {"source": "\ud83d\ude00"}}`), "m.json")
	f.Add([]byte("{?"), "m.json")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		ms, err := manifest.Parse(name, data, dir)
		for _, m := range ms {
			if err := m.Name.Validate(); err != nil {
				t.Errorf("an invalid name was accepted: %v", err)
			}
			if len(m.Source) == 0 {
				t.Error("an empty source was accepted")
			}
			m.Position(1, 1)
		}
		if err != nil && script.KindOf(err) != script.Invalid {
			t.Errorf("%v is of kind %s", err, script.KindOf(err))
		}
	})
}
