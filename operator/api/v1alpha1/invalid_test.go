package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// invalid is a manifest that somebody might write, and what the answer has to name.
type invalid struct {
	what     string
	metadata string // instead of a good name
	spec     string
	want     []string
}

const isLabel = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`

// out returns manifests with numbers below and above the bounds of a field, and with
// what is no number.
func out(field string, least, most int64, spec string) []invalid {
	path := "spec." + field
	return []invalid{
		{what: field + " too low", spec: fmt.Sprintf(spec, least-1), want: []string{path, fmt.Sprintf("greater than or equal to %d", least)}},
		{what: field + " too high", spec: fmt.Sprintf(spec, most+1), want: []string{path, fmt.Sprintf("less than or equal to %d", most)}},
		{what: field + " is text", spec: fmt.Sprintf(spec, `"many"`), want: []string{path, "integer"}},
		{what: field + " is a fraction", spec: fmt.Sprintf(spec, "1.5"), want: []string{path, "integer"}},
	}
}

func invalidLuaScripts() []invalid {
	long := strings.Repeat("a", 64)
	table := []invalid{
		{what: "no spec", want: []string{"spec: Required value"}},
		{what: "spec is a list", spec: "[]", want: []string{"spec", "object"}},
		{what: "nothing in it", spec: "{}", want: []string{"spec.tenantId: Required value"}},
		{what: "no tenant", spec: "{source: return 1}", want: []string{"spec.tenantId: Required value"}},
		{what: "empty tenant", spec: `{tenantId: "", source: return 1}`, want: []string{"spec.tenantId"}},
		{what: "upper-case tenant", spec: "{tenantId: Acme, source: return 1}", want: []string{"spec.tenantId", isLabel}},
		{what: "tenant with a dot", spec: "{tenantId: acme.com, source: return 1}", want: []string{"spec.tenantId", isLabel}},
		{what: "tenant that ends in a hyphen", spec: "{tenantId: acme-, source: return 1}", want: []string{"spec.tenantId", isLabel}},
		{what: "long tenant", spec: "{tenantId: " + long + ", source: return 1}", want: []string{"spec.tenantId", "63"}},
		{what: "tenant is a number", spec: "{tenantId: 5, source: return 1}", want: []string{"spec.tenantId", "string"}},

		{what: "no source", spec: "{tenantId: acme}", want: []string{"spec", "exactly one of script, source and artifact must be set"}},
		{what: "null source", spec: "{tenantId: acme, source: null}", want: []string{"spec", "exactly one of script, source and artifact must be set"}},
		{what: "two sources", spec: "{tenantId: acme, source: return 1, script: cmV0dXJuIDE=}", want: []string{"spec", "exactly one of script, source and artifact must be set"}},
		{what: "empty source", spec: `{tenantId: acme, source: ""}`, want: []string{"spec.source", "at least 1"}},
		{what: "large source", spec: "{tenantId: acme, source: " + strings.Repeat("x", 1<<20+1) + "}", want: []string{"spec.source", "1048576"}},
		{what: "empty base64", spec: `{tenantId: acme, script: ""}`, want: []string{"spec.script", "at least 1"}},
		{what: "text where base64 belongs", spec: `{tenantId: acme, script: "return 'x'"}`, want: []string{"spec.script", "is not base64: write the plain text to spec.source instead"}},
		{what: "text that could be base64", spec: "{tenantId: acme, script: return 1}", want: []string{"spec.script", "is not base64, or not all of it"}},
		{what: "base64 that lost its end", spec: "{tenantId: acme, script: cmV0dXJuIDE}", want: []string{"spec.script", "is not base64, or not all of it"}},
		{what: "base64 of the other alphabet", spec: "{tenantId: acme, script: cmV0_XJu-DE=}", want: []string{"spec.script", "is not base64"}},
		{what: "base64 with = inside", spec: "{tenantId: acme, script: cm=V0dXJuIDE=}", want: []string{"spec.script", "is not base64"}},
		{what: "a file", spec: "{tenantId: acme, sourceFile: x.lua}", want: []string{`unknown field "spec.sourceFile"`}},

		{what: "entrypoint is no name", spec: "{tenantId: acme, source: return 1, entrypoint: a-b}", want: []string{"spec.entrypoint", "should match"}},
		{what: "entrypoint begins with a digit", spec: "{tenantId: acme, source: return 1, entrypoint: 1st}", want: []string{"spec.entrypoint", "should match"}},
		{what: "long entrypoint", spec: "{tenantId: acme, source: return 1, entrypoint: " + long + "a}", want: []string{"spec.entrypoint", "64"}},
		{what: "enabled in words", spec: "{tenantId: acme, source: return 1, enabled: 'yes'}", want: []string{"spec.enabled", "boolean"}},
		{what: "empty trigger", spec: "{tenantId: acme, source: return 1, trigger: {}}", want: []string{"spec.trigger.event: Required value"}},
		{what: "trigger is text", spec: "{tenantId: acme, source: return 1, trigger: http-request}", want: []string{"spec.trigger", "object"}},
		{what: "event is no label", spec: "{tenantId: acme, source: return 1, trigger: {event: HTTP request}}", want: []string{"spec.trigger.event", isLabel}},
		{what: "long event", spec: "{tenantId: acme, source: return 1, trigger: {event: " + long + "}}", want: []string{"spec.trigger.event", "63"}},
		{what: "priority without event", spec: "{tenantId: acme, source: return 1, trigger: {priority: 1}}", want: []string{"spec.trigger.event: Required value"}},
		{what: "high priority", spec: "{tenantId: acme, source: return 1, trigger: {event: a, priority: 1000001}}", want: []string{"spec.trigger.priority", "1000000"}},
		{what: "no hosts", spec: "{tenantId: acme, source: return 1, trigger: {event: a, match: {hosts: []}}}", want: []string{"spec.trigger.match.hosts", "at least 1"}},
		{what: "host in capitals", spec: "{tenantId: acme, source: return 1, trigger: {event: a, match: {hosts: [Shop.example]}}}", want: []string{"spec.trigger.match.hosts[0]", "should match"}},
		{what: "a host twice", spec: "{tenantId: acme, source: return 1, trigger: {event: a, match: {hosts: [b, b]}}}", want: []string{"spec.trigger.match.hosts[1]", "Duplicate"}},
		{what: "prefix without slash", spec: "{tenantId: acme, source: return 1, trigger: {event: a, match: {pathPrefixes: [cart]}}}", want: []string{"spec.trigger.match.pathPrefixes[0]", "should match"}},
		{what: "method in small letters", spec: "{tenantId: acme, source: return 1, trigger: {event: a, match: {methods: [get]}}}", want: []string{"spec.trigger.match.methods[0]", "should match"}},
		{what: "no headers", spec: "{tenantId: acme, source: return 1, trigger: {event: a, match: {headers: {}}}}", want: []string{"spec.trigger.match.headers", "at least 1"}},
		{what: "unknown policy", spec: "{tenantId: acme, source: return 1, onError: {policy: ajar}}", want: []string{"spec.onError.policy", `supported values: "closed", "open"`}},
		{what: "open with a status", spec: "{tenantId: acme, source: return 1, onError: {policy: open, status: 503}}", want: []string{"spec.onError.status", "only goes with the policy closed"}},
		{what: "open with a body", spec: "{tenantId: acme, source: return 1, onError: {policy: open, body: x}}", want: []string{"spec.onError.body", "only goes with the policy closed"}},
		{what: "status that lets through", spec: "{tenantId: acme, source: return 1, onError: {status: 200}}", want: []string{"spec.onError.status", "300"}},
		{what: "no status", spec: "{tenantId: acme, source: return 1, onError: {status: 600}}", want: []string{"spec.onError.status", "599"}},
		{what: "long body", spec: "{tenantId: acme, source: return 1, onError: {body: " + strings.Repeat("x", 4097) + "}}", want: []string{"spec.onError.body", "4096"}},
		{what: "config is a list", spec: "{tenantId: acme, source: return 1, config: [1]}", want: []string{"spec.config", "object"}},
		{what: "config is text", spec: "{tenantId: acme, source: return 1, config: dark}", want: []string{"spec.config", "object"}},
		{what: "timeout without a unit", spec: "{tenantId: acme, source: return 1, limits: {timeout: '50'}}", want: []string{"spec.limits.timeout", "must be a duration above 0 and up to 10s, such as 50ms"}},
		{what: "timeout is a number", spec: "{tenantId: acme, source: return 1, limits: {timeout: 50}}", want: []string{"spec.limits.timeout", "string"}},
		{what: "timeout in words", spec: "{tenantId: acme, source: return 1, limits: {timeout: soon}}", want: []string{"spec.limits.timeout", "must be a duration"}},
		{what: "no time", spec: "{tenantId: acme, source: return 1, limits: {timeout: 0s}}", want: []string{"spec.limits.timeout", "must be a duration"}},
		{what: "negative time", spec: "{tenantId: acme, source: return 1, limits: {timeout: -5ms}}", want: []string{"spec.limits.timeout", "must be a duration"}},
		{what: "a minute", spec: "{tenantId: acme, source: return 1, limits: {timeout: 1m}}", want: []string{"spec.limits.timeout", "must be a duration"}},
		{what: "a bit too much time", spec: "{tenantId: acme, source: return 1, limits: {timeout: 10s1ns}}", want: []string{"spec.limits.timeout", "up to 10s"}},
		{what: "coroutines in words", spec: "{tenantId: acme, source: return 1, limits: {coroutines: many}}", want: []string{"spec.limits.coroutines", "boolean"}},

		{what: "another runtime", spec: "{tenantId: acme, runtime: wasm, script: cmV0dXJuIDE=}", want: []string{"spec.runtime", "set kind to Script"}},
		{what: "unknown runtime", spec: "{tenantId: acme, runtime: js, source: return 1}", want: []string{"spec.runtime", `"lua", "wasm", "rego"`}},
		{what: "unknown field", spec: "{tenantId: acme, source: return 1, sorce: x}", want: []string{`unknown field "spec.sorce"`}},
		{what: "unknown limit", spec: "{tenantId: acme, source: return 1, limits: {memory: 1}}", want: []string{`unknown field "spec.limits.memory"`}},

		{what: "name with a dot", metadata: "{name: a.b}", spec: "{tenantId: acme, source: return 1}", want: []string{"metadata.name must be a DNS label"}},
		{what: "long name", metadata: "{name: " + long + "}", spec: "{tenantId: acme, source: return 1}", want: []string{"metadata.name must be a DNS label"}},
		{what: "name in upper case", metadata: "{name: Route}", spec: "{tenantId: acme, source: return 1}", want: []string{"metadata.name", "lowercase"}},
		{what: "no name", metadata: "{}", spec: "{tenantId: acme, source: return 1}", want: []string{"name", "required"}},
	}
	const number, limit = "{tenantId: acme, source: return 1, %s: %%v}", "{tenantId: acme, source: return 1, limits: {%s: %%v}}"
	table = append(table, out("version", 1, 1<<53, fmt.Sprintf(number, "version"))...)
	table = append(table, out("revisionHistoryLimit", 1, 50, fmt.Sprintf(number, "revisionHistoryLimit"))...)
	for name, most := range limits() {
		table = append(table, out("limits."+name, 1, most, fmt.Sprintf(limit, name))...)
	}
	return append(append(table, invalidRollouts()...), invalidTests()...)
}

// limits are the highest values of the limits that are numbers.
func limits() map[string]int64 {
	return map[string]int64{
		"instructions": 100_000_000, "sourceBytes": 4 << 20, "stringBytes": 4 << 20,
		"resultBytes": 1 << 20, "logBytes": 1 << 20, "concurrency": 1024,
	}
}

func invalidScriptTenants() []invalid {
	table := []invalid{
		{what: "name with a dot", metadata: "{name: acme.com}", spec: "{}", want: []string{"metadata.name must be a DNS label"}},
		{what: "long name", metadata: "{name: " + strings.Repeat("a", 64) + "}", spec: "{}", want: []string{"metadata.name must be a DNS label"}},
		{what: "namespace is no label", spec: "{namespaces: [Shop]}", want: []string{"spec.namespaces[0]", "should match"}},
		{what: "namespace is a glob", spec: "{namespaces: ['shop-*']}", want: []string{"spec.namespaces[0]", "should match"}},
		{what: "a namespace twice", spec: "{namespaces: [shop, shop]}", want: []string{"spec.namespaces[1]", "Duplicate value"}},
		{what: "namespaces is text", spec: "{namespaces: shop}", want: []string{"spec.namespaces", "array"}},
		{what: "selector without a key", spec: "{namespaceSelector: {matchExpressions: [{operator: Exists}]}}", want: []string{"spec.namespaceSelector.matchExpressions[0].key: Required value"}},
		{what: "operator that there is not", spec: "{namespaceSelector: {matchExpressions: [{key: a, operator: Is, values: [b]}]}}", want: []string{"spec.namespaceSelector", "In or NotIn"}},
		{what: "In without values", spec: "{namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}", want: []string{"spec.namespaceSelector", "with values"}},
		{what: "Exists with values", spec: "{namespaceSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}", want: []string{"spec.namespaceSelector", "without"}},
		{what: "isolation that there is not", spec: "{isolation: vm}", want: []string{"spec.isolation", `"shared", "process"`}},
		{what: "coroutines", spec: "{limits: {coroutines: true}}", want: []string{"spec.limits.coroutines", "is not for a tenant to bound"}},
		{what: "timeout", spec: "{limits: {timeout: 11s}}", want: []string{"spec.limits.timeout", "must be a duration"}},
		{what: "no cpu", spec: "{cpu: 0}", want: []string{"spec.cpu", "must be above 0 and up to 1000 cores"}},
		{what: "negative cpu", spec: "{cpu: -500m}", want: []string{"spec.cpu", "must be above 0"}},
		{what: "too much cpu", spec: "{cpu: 1001}", want: []string{"spec.cpu", "up to 1000 cores"}},
		{what: "cpu in words", spec: "{cpu: half}", want: []string{"spec.cpu"}},
		{what: "little memory", spec: "{memory: 63Mi}", want: []string{"spec.memory", "must be from 64Mi"}},
		{what: "memory as a number of MiB", spec: "{memory: 256}", want: []string{"spec.memory", "must be from 64Mi"}},
		{what: "much memory", spec: "{memory: 65Gi}", want: []string{"spec.memory", "to 64Gi"}},
		{what: "memory in words", spec: "{memory: lots}", want: []string{"spec.memory"}},
		{what: "no values", spec: "{values: 0}", want: []string{"spec.values", "must be above 0 and up to 256Mi"}},
		{what: "many values", spec: "{values: 257Mi}", want: []string{"spec.values", "must be above 0 and up to 256Mi"}},
		{what: "unknown field", spec: "{namespace: shop}", want: []string{`unknown field "spec.namespace"`}},
	}
	table = append(table, out("concurrency", 1, 1024, "{concurrency: %v}")...)
	table = append(table, out("logBytes", 1, 16<<20, "{logBytes: %v}")...)
	for name, most := range limits() {
		table = append(table, out("limits."+name, 1, most, "{limits: {"+name+": %v}}")...)
	}
	return table
}

// TestInvalid: the API server rejects mistakes that a person might make, without a
// webhook, and names the field.
func TestInvalid(t *testing.T) {
	namespace := env.Namespace(t, "invalid", nil)
	for kind, table := range map[string][]invalid{"LuaScript": invalidLuaScripts(), "ScriptTenant": invalidScriptTenants()} {
		for _, test := range table {
			t.Run(kind+"/"+test.what, func(t *testing.T) {
				t.Parallel()
				manifest := header + "kind: " + kind + "\nmetadata: " + or(test.metadata, "{name: route}") + "\n"
				if test.spec != "" {
					manifest += "spec: " + test.spec + "\n"
				}
				_, err := create(t, namespace, manifest, client.DryRunAll)
				if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
					t.Fatalf("got %v, want a refusal", err)
				}
				answer := err.Error()
				for _, want := range test.want {
					if !strings.Contains(answer, want) {
						t.Errorf("the answer does not say %q: %.600s", want, answer)
					}
				}
				if len(answer) > 4<<10 {
					t.Errorf("the answer has %d bytes", len(answer))
				}
			})
		}
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// TestKubectlApplySaysIt: what the server answers is what `kubectl apply` shows.
func TestKubectlApplySaysIt(t *testing.T) {
	namespace := env.Namespace(t, "kubectl", nil)
	for spec, want := range map[string]string{
		"{tenantId: acme}":                                 "spec: Invalid value: exactly one of script, source and artifact must be set",
		"{tenantId: Acme, source: return 1}":               "spec.tenantId: Invalid value",
		"{tenantId: acme, source: return 1, sourc: x}":     `unknown field "spec.sourc"`,
		"{tenantId: acme, script: 'print(1)'}":             "is not base64: write the plain text to spec.source instead",
		"{tenantId: acme, source: return 1, version: '1'}": "spec.version: Invalid value",
	} {
		manifest := header + "kind: LuaScript\nmetadata: {name: route}\nspec: " + spec + "\n"
		_, stderr, err := env.Kubectl(t.Context(), manifest, "apply", "-n", namespace, "-f", "-")
		if err == nil || !strings.Contains(stderr, want) {
			t.Errorf("%s: kubectl said\n%s\nwhich does not have %s", spec, stderr, want)
		}
	}
}
