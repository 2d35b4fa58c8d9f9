package manifest_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// whole has every setting that a manifest can have.
func whole() manifest.Manifest {
	return manifest.Manifest{
		Name: script.Name{Tenant: "acme", Script: "route"}, Engine: script.EngineLua, Entrypoint: "decide", Pin: 3, Enabled: false,
		Source: []byte("-- a comment\nfunction decide(r)\n\n  return {host = \"a\"}\nend\n"),
		Settings: script.Settings{
			HistoryLimit: 7,
			Spec: script.Spec{
				Limits:    script.Limits{Instructions: 5, Timeout: 50 * time.Millisecond, SourceBytes: 1000, StringBytes: 10, ResultBytes: 20, LogBytes: 30, Concurrency: 4, Coroutines: true},
				Trigger:   script.Trigger{Event: "pre-route", Priority: -5, Match: script.Match{Hosts: []string{"*.shop.example"}, PathPrefixes: []string{"/cart"}, Methods: []string{"GET"}, Headers: map[string]string{"x-on": "on", "x-any": "*"}}},
				OnError:   script.OnError{Status: 429, Body: "later:\n  no"},
				Decisions: &script.Decisions{Sample: 0.01, Errors: true, Mask: []string{"body"}, Fields: []string{"error"}},
				Config:    json.RawMessage(`{"12:30":"12:30:45","big":18446744073709551615,"deep":{"a":[1,2.5,{}],"none":null},"no":"no","true":"true"}`),
				Tests:     []script.Test{{Name: "yes", Request: json.RawMessage(`{"a":1}`), Expect: json.RawMessage(`["x"]`)}, {Name: "fails", Error: script.Script}},
			},
			Rollout: script.Plan{
				Steps: []script.Step{
					{Percent: 5, By: script.ByShadow},
					{Percent: 10, By: script.ByKey, Pause: 10 * time.Minute},
					{Percent: 20, Approval: true, Gate: script.Gate{Kind: script.Prometheus, Source: "main", Query: "up{a=\"b\"}", Min: script.Bound{Set: true, Value: -0.5}, Max: script.Bound{Set: true}}},
					{Selector: "rack=7,zone=a", Gate: script.Gate{Kind: script.Webhook, Source: "ci"}},
				},
				MaxErrorPercent: new(0.0), MaxErrorIncrease: new(1.5), MaxDiffPercent: new(2.0), MinCalls: new(9),
				MaxLatencyIncrease: script.LatencyIncrease{P50: 5, P99: 20}, FailureLimit: script.Amount{Percent: 5}, Tolerate: script.Amount{None: true},
				ProgressDeadline: 2 * time.Hour, OnDeadline: script.PauseOnDeadline,
				After: []script.Name{{Tenant: "acme", Script: "cart"}}, Key: "request.headers.x-user",
			},
		},
	}
}

// said is what a manifest says, without where it says it.
func said(m manifest.Manifest) any { return m.Publish() }

// TestFormat: what is written is read as what it was.
func TestFormat(t *testing.T) {
	library := manifest.Manifest{Name: script.Name{Tenant: "acme", Script: "lib"}, Engine: script.EngineLua, Enabled: true, Source: []byte("return {}")}
	library.AsLibrary()
	small := manifest.Manifest{Name: script.Name{Tenant: "acme", Script: "a"}, Engine: script.EngineLua, Entrypoint: "handle", Enabled: true, Source: []byte("return 1")}
	bare := small
	bare.Entrypoint = ""
	policy := small
	policy.Engine, policy.Entrypoint, policy.Source = script.EngineRego, "acme/allow", []byte("package acme\n\nallow := true\n")
	policy.Settings.Runtime.Rego = script.RegoOptions{Input: "envoy"}
	artifact := small
	artifact.Engine, artifact.Source = script.EngineWasm, nil
	artifact.Settings.Artifact = "oci://registry.example/acme/route@sha256:" + strings.Repeat("ab", 32)
	artifact.Settings.Runtime.Wasm.Reuse = true
	artifact.Settings.Limits.WasmMemory = 1 << 20
	open := small
	open.Settings.OnError.Policy = script.PolicyOpen
	open.Settings.Decisions = &script.Decisions{}
	for name, m := range map[string]manifest.Manifest{
		"whole": whole(), "library": library, "small": small, "bare": bare, "policy": policy, "artifact": artifact, "open": open,
	} {
		text, err := manifest.Format(&m, manifest.Form{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := manifest.ParseAlone("m.yaml", text, nil)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		if !reflect.DeepEqual(said(got), said(m)) {
			t.Errorf("%s: read %+v, want %+v\n%s", name, said(got), said(m), text)
		}
	}
}

// TestFormatForEditors: a text without the source, and an object of Kubernetes.
func TestFormatForEditors(t *testing.T) {
	m := whole()
	text, err := manifest.Format(&m, manifest.Form{WithoutSource: true, Kind: manifest.LuaKind, Namespace: "shop"})
	if err != nil || strings.Contains(string(text), "source:") || !strings.Contains(string(text), "kind: LuaScript") || !strings.Contains(string(text), "namespace: shop") {
		t.Fatalf("%v\n%s", err, text)
	}
	got, err := manifest.ParseAlone("m.yaml", text, m.Source)
	if err != nil || !reflect.DeepEqual(said(got), said(m)) {
		t.Errorf("%v: %+v, want %+v", err, said(got), said(m))
	}
	m.Engine = script.EngineRego
	if _, err := manifest.Format(&m, manifest.Form{Kind: manifest.LuaKind}); err == nil {
		t.Error("a policy is written as a LuaScript")
	}
	m.Settings.Personal = &script.Personal{Of: "route"}
	if _, err := manifest.Format(&m, manifest.Form{}); err == nil || script.AsError(err).Field != "settings.personal" {
		t.Errorf("%v: want it to refuse a personal version", err)
	}
}

const commented = `# ours
apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata:
  labels: {team: cart} # who
  name: route
spec:
  # twenty at first
  rollout:
    steps:
    - percent: 20 # canary
      pause: 10m
  enabled: true
  tenantId: acme
  limits: {timeout: 50ms}
  source: |
    -- first
    return 1
`

// TestEdit: an edit changes what it changes.
func TestEdit(t *testing.T) {
	m, err := manifest.ParseAlone("m.yaml", []byte(commented), nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func() string {
		t.Helper()
		text, err := manifest.Format(&m, manifest.Form{Previous: []byte(commented)})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := write(); strings.ReplaceAll(got, "      - percent: 20 # canary\n        pause", "    - percent: 20 # canary\n      pause") != commented {
		t.Errorf("an edit of nothing: %s", got)
	}
	m.Settings.Rollout.Steps[0].Percent = 30
	m.Settings.Limits = script.Limits{Concurrency: 2}
	m.Source = []byte("return 2\n")
	got := write()
	for _, want := range []string{"# ours\n", "labels: {team: cart} # who", "# twenty at first", "percent: 30 # canary", "pause: 10m", "concurrency: 2", "enabled: true", "source: |\n    return 2\n", "kind: LuaScript"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not there:\n%s", want, got)
		}
	}
	if strings.Contains(got, "timeout") {
		t.Errorf("what was removed is still there:\n%s", got)
	}
}

// TestEditOfOthers: a text that is no manifest does not count.
func TestEditOfOthers(t *testing.T) {
	m := whole()
	want, err := manifest.Format(&m, manifest.Form{})
	if err != nil {
		t.Fatal(err)
	}
	for _, previous := range []string{"[", "- a", "a: &x 1\nb: *x", "a: 1\na: 2", "a: 1\n---\nb: 1", "\x00", "? [a]\n: b", "a: 1"[:0]} {
		if got, err := manifest.Format(&m, manifest.Form{Previous: []byte(previous)}); err != nil || string(got) != string(want) {
			t.Errorf("%q: %v\n%s", previous, err, got)
		}
	}
}

// TestParseAlone: no file is read, and there is one manifest.
func TestParseAlone(t *testing.T) {
	head := "apiVersion: scriptorium.dev/v1alpha1\nkind: Script\nmetadata: {name: a}\nspec:\n  tenantId: acme\n"
	for text, want := range map[string]string{
		head + "  sourceFile: ../../etc/passwd\n":          `m.yaml:6:15: spec.sourceFile: names a file`,
		head + "  runtime: wasm\n  artifact: route.wasm\n": `m.yaml:7:13: spec.artifact: names a file`,
		head: `spec.source: is missing`,
		"":   `has 0 manifests`,
		head + "  source: return 1\n---\n" + head + "  source: return 1": `has 2 manifests`,
		head + "  source: return 1\n  limits: {timeout: 1}\n":            `m.yaml:7:21: spec.limits.timeout: `,
	} {
		_, err := manifest.ParseAlone("m.yaml", []byte(text), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := manifest.ParseAlone("m.yaml", []byte(head+"  source: return 1\n"), []byte("return 2")); err == nil || !strings.Contains(err.Error(), "beside") {
		t.Errorf("two sources: %v", err)
	}
}

// decoded returns the one member of the config's object.
func decoded(t *testing.T, config json.RawMessage) string {
	t.Helper()
	var object map[string]string
	if config == nil {
		return ""
	}
	if err := json.Unmarshal(config, &object); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%q", object)
}

// TestFormatAnySource: whatever a source is made of, it is read as it was.
func TestFormatAnySource(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	parts := []string{"a", " ", "  ", "\t", "\n", "\n\n", "\r", "\r\n", ":", "# ", "- ", "---\n", "...\n", "\u2028", "\u0085", "ä", "\u00a0", "'", "\"", "|", "%", "\\", "\x1b", "\ufeff", "end", "\x7f", "😀", "\xff", "\x00"}
	for range 5000 {
		var source strings.Builder
		source.WriteString("x")
		for range random.IntN(8) {
			source.WriteString(parts[random.IntN(len(parts))])
		}
		m := manifest.Manifest{Name: script.Name{Tenant: "acme", Script: "a"}, Engine: script.EngineLua, Entrypoint: "handle", Enabled: true, Source: []byte(source.String()[random.IntN(2):])}
		if len(m.Source) == 0 || script.CheckSource(m.Engine, m.Source) != nil {
			continue
		}
		if utf8.Valid(m.Source) {
			m.Settings.Config, _ = json.Marshal(map[string]string{string(m.Source): string(m.Source)})
		}
		text, err := manifest.Format(&m, manifest.Form{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := manifest.ParseAlone("m.yaml", text, nil)
		if err != nil || string(got.Source) != string(m.Source) || decoded(t, got.Settings.Config) != decoded(t, m.Settings.Config) {
			t.Fatalf("%q became %q with %s, %v:\n%s", m.Source, got.Source, got.Settings.Config, err, text)
		}
	}
}
