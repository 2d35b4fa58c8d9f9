package v1alpha1_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestDefaults: what is left out has a value where that says what happens, and stays
// away where its absence means something.
func TestDefaults(t *testing.T) {
	namespace := env.Namespace(t, "defaults", nil)
	for manifest, want := range map[string]any{
		"kind: LuaScript\nmetadata: {name: route}\nspec: {tenantId: acme, source: return 1}": map[string]any{
			"tenantId": "acme", "source": "return 1", "entrypoint": "handle", "enabled": true, "revisionHistoryLimit": int64(10),
		},
		"kind: LuaScript\nmetadata: {name: chunk}\nspec: {tenantId: acme, source: return 1, entrypoint: '', enabled: false}": map[string]any{
			"tenantId": "acme", "source": "return 1", "entrypoint": "", "enabled": false, "revisionHistoryLimit": int64(10),
		},
		"kind: LuaScript\nmetadata: {name: nulls}\nspec: {tenantId: acme, source: return 1, entrypoint: null, enabled: null, version: null, limits: null, trigger: null, onError: null, config: null}": map[string]any{
			"tenantId": "acme", "source": "return 1", "entrypoint": "handle", "enabled": true, "revisionHistoryLimit": int64(10),
		},
		"kind: ScriptTenant\nmetadata: {name: defaults}\nspec: {}": map[string]any{"isolation": "shared"},
	} {
		u, err := create(t, namespace, header+manifest, client.DryRunAll)
		if err != nil {
			t.Errorf("%s: %v", manifest, err)
			continue
		}
		if diff := cmp.Diff(want, field(u, "spec")); diff != "" {
			t.Errorf("%s: want -, got +\n%s", manifest, diff)
		}
	}
}

// TestBounds: what is just allowed is allowed, and the bounds are those of the
// registry.
func TestBounds(t *testing.T) {
	namespace := env.Namespace(t, "bounds", nil)
	most := script.MaxLimits()
	if got := limits(); got["instructions"] != int64(most.Instructions) || got["sourceBytes"] != int64(most.SourceBytes) ||
		got["stringBytes"] != int64(most.StringBytes) || got["resultBytes"] != int64(most.ResultBytes) ||
		got["logBytes"] != int64(most.LogBytes) || got["concurrency"] != int64(most.Concurrency) {
		t.Errorf("the definition's limits %v are not the registry's %+v", got, most)
	}
	var all strings.Builder
	for name, n := range limits() {
		fmt.Fprintf(&all, "%s: %d, ", name, n)
	}
	label := strings.Repeat("a", script.MaxLabelLen)
	code := make([]byte, script.MaxSourceBytes)
	for i := range code {
		code[i] = 'x'
	}
	wrapped := func(s string) string { // as `base64` breaks it
		var lines strings.Builder
		for len(s) > 76 {
			lines.WriteString("      " + s[:76] + "\n")
			s = s[76:]
		}
		return lines.String() + "      " + s + "\n"
	}
	for what, manifest := range map[string]string{
		"names":       "kind: LuaScript\nmetadata: {name: " + label + "}\nspec: {tenantId: " + label + ", source: return 1, trigger: {event: " + label + "}, entrypoint: " + label + "a}",
		"onError":     "kind: LuaScript\nmetadata: {name: a}\nspec: {tenantId: a, source: x, onError: {policy: closed, status: 599, body: " + strings.Repeat("x", script.MaxOnErrorBodyBytes) + "}}",
		"open":        "kind: LuaScript\nmetadata: {name: a}\nspec: {tenantId: a, source: x, onError: {policy: open}}",
		"short names": "kind: LuaScript\nmetadata: {name: a}\nspec: {tenantId: a, source: x, trigger: {event: a}, entrypoint: a}",
		"limits":      "kind: LuaScript\nmetadata: {name: limits}\nspec: {tenantId: acme, source: x, limits: {" + all.String() + "timeout: 10s, coroutines: true}, revisionHistoryLimit: 50, version: 9007199254740992}",
		"times":       "kind: LuaScript\nmetadata: {name: times}\nspec: {tenantId: acme, source: x, limits: {timeout: 1s500ms250us1ns}}",
		"fractions":   "kind: LuaScript\nmetadata: {name: fractions}\nspec: {tenantId: acme, source: x, limits: {timeout: 0.5ms}}",
		"text":        "kind: LuaScript\nmetadata: {name: text}\nspec: {tenantId: acme, source: " + string(code) + "}",
		"base64":      "kind: LuaScript\nmetadata: {name: base64}\nspec: {tenantId: acme, script: " + base64.StdEncoding.EncodeToString(code) + "}",
		"lines":       "kind: LuaScript\nmetadata: {name: lines}\nspec:\n  tenantId: acme\n  script: |\n" + wrapped(base64.StdEncoding.EncodeToString(code)),
		"config":      "kind: LuaScript\nmetadata: {name: config}\nspec: {tenantId: acme, source: x, config: {a: [1, {b: null}], c: 1.5}}",
		"tenant":      "kind: ScriptTenant\nmetadata: {name: " + label + "}\nspec: {namespaces: ['*', shop], limits: {" + all.String() + "timeout: 10s}, concurrency: 1024, logBytes: 16777216, cpu: 1k, memory: 64Gi, values: 256Mi}",
		"least":       "kind: ScriptTenant\nmetadata: {name: least}\nspec: {concurrency: 1, logBytes: 1, cpu: 1m, memory: 64Mi, values: 1}",
		"selector":    "kind: ScriptTenant\nmetadata: {name: selector}\nspec: {namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: In, values: [d]}, {key: e, operator: DoesNotExist}]}}",
		"no spec":     "kind: ScriptTenant\nmetadata: {name: nothing}",
	} {
		if _, err := create(t, namespace, header+manifest, client.DryRunAll); err != nil {
			t.Errorf("%s: %.600s", what, err.Error())
		}
	}
}

// TestTheTenantStays: of a spec, all may change but whose script it is.
func TestTheTenantStays(t *testing.T) {
	namespace := env.Namespace(t, "immutable", nil)
	ls := &v1alpha1.LuaScript{}
	ls.Namespace, ls.Name = namespace, "route"
	ls.Spec = v1alpha1.LuaScriptSpec{TenantID: "acme", Source: new("return 1")}
	if err := env.Client.Create(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	other := ls.DeepCopy()
	other.Spec.TenantID = "shop"
	err := env.Client.Update(t.Context(), other)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.tenantId: Invalid value") ||
		!strings.Contains(err.Error(), "cannot be changed: delete the object and create another") {
		t.Errorf("another tenant: %v", err)
	}
	ls.Spec = v1alpha1.LuaScriptSpec{
		TenantID: "acme", Script: new("cmV0dXJuIDI="), Entrypoint: new(""), Enabled: new(false), Version: new(int64(2)),
		Trigger: &v1alpha1.Trigger{Event: "http-request"}, OnError: &v1alpha1.OnError{Status: new(int32(429))}, Limits: &v1alpha1.Limits{Timeout: new("50ms")}, RevisionHistoryLimit: new(int32(5)),
	}
	if err := env.Client.Update(t.Context(), ls); err != nil {
		t.Errorf("everything else: %v", err)
	}
}

// TestStatusIsTheOperators: who writes a LuaScript does not write its status, and the
// other way round; a status that nobody should write is refused.
func TestStatusIsTheOperators(t *testing.T) {
	namespace := env.Namespace(t, "status", nil)
	u, err := create(t, namespace, header+"kind: LuaScript\nmetadata: {name: route}\nspec: {tenantId: acme, source: return 1}\nstatus: {phase: Active, activeVersion: 7}")
	if err != nil {
		t.Fatal(err)
	}
	if field(u, "status", "phase") != nil || field(u, "status", "activeVersion") != nil {
		t.Errorf("its author wrote the status: %v", field(u, "status"))
	}
	ls := &v1alpha1.LuaScript{}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(u), ls); err != nil {
		t.Fatal(err)
	}
	ls.Spec.Source, ls.Status.Phase = new("return 2"), v1alpha1.PhaseActive
	if err := env.Client.Status().Update(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	if *ls.Spec.Source != "return 1" || ls.Status.Phase != v1alpha1.PhaseActive || ls.Generation != 1 {
		t.Errorf("the status was written with the spec: source %q, phase %q, generation %d", *ls.Spec.Source, ls.Status.Phase, ls.Generation)
	}
	ls.Status.Phase = "Converged"
	if err := env.Client.Status().Update(t.Context(), ls); !apierrors.IsInvalid(err) {
		t.Errorf("a phase that there is not: %v", err)
	}
	ls.Status.Phase = v1alpha1.PhaseError
	ls.Status.Agents = &v1alpha1.AgentsStatus{Failing: make([]v1alpha1.FailingAgent, 6)}
	if err := env.Client.Status().Update(t.Context(), ls); !apierrors.IsInvalid(err) {
		t.Errorf("six failing agents: %v", err)
	}
}

// TestSelectByTenant: a tenant's scripts can be listed by themselves.
func TestSelectByTenant(t *testing.T) {
	namespace := env.Namespace(t, "select", nil)
	for name, tenant := range map[string]string{"a": "acme", "b": "shop", "c": "shop"} {
		if _, err := create(t, namespace, header+"kind: LuaScript\nmetadata: {name: "+name+"}\nspec: {tenantId: "+tenant+", source: return 1}"); err != nil {
			t.Fatal(err)
		}
	}
	var list v1alpha1.LuaScriptList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace), client.MatchingFields{"spec.tenantId": "shop"}); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 2 {
		t.Errorf("found %d scripts of the tenant, want 2", len(list.Items))
	}
}

// TestScheme: the types are registered, and nothing else is.
func TestScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]bool{"Script": true, "ScriptList": true, "LuaScript": true, "LuaScriptList": true, "ScriptTenant": true, "ScriptTenantList": true, "Namespace": false} {
		if got := scheme.Recognizes(v1alpha1.GroupVersion.WithKind(kind)); got != want {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
}
