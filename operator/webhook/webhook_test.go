package webhook_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/testenv/wrong"
)

// apply applies a manifest with kubectl and returns all that it says.
func apply(t *testing.T, manifest string) string {
	t.Helper()
	stdout, stderr, _ := kube.Kubectl(t.Context(), manifest, "apply", "-f", "-")
	return strings.TrimSpace(stderr + stdout)
}

func manifest(name, spec string) string {
	return "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: " + name + ", namespace: default}\nspec:\n" + indent(spec)
}

func tenantManifest(name, spec string) string {
	return "apiVersion: scriptorium.dev/v1alpha1\nkind: ScriptTenant\nmetadata: {name: " + name + "}\nspec:\n" + indent(spec)
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") + "\n"
}

func needTenant(t *testing.T, name, spec string) {
	t.Helper()
	if got := apply(t, tenantManifest(name, spec)); !strings.HasSuffix(got, "scripttenant.scriptorium.dev/"+name+" created") {
		t.Fatal(got)
	}
}

// cleanUp removes all LuaScripts and ScriptTenants when the test ends.
func cleanUp(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if _, _, err := kube.Kubectl(context.Background(), "", "delete", "scripts,luascripts,scripttenants", "--all", "--all-namespaces"); err != nil {
			t.Error(err)
		}
	})
}

// What kubectl apply says of LuaScripts that are wrong, to the letter.
func TestRefusedLuaScripts(t *testing.T) {
	cleanUp(t)
	needTenant(t, "bounded", wrong.Bounded)
	needTenant(t, "closed", wrong.Closed)
	for _, ls := range append(wrong.LuaScripts("default"), wrong.LuaScript{
		Name: "all-at-once",
		Spec: "tenantId: closed\nsource: function handle(\nlimits: {sourceBytes: 5}\nconfig: " + strings.Repeat("{a: ", 33) + "1" + strings.Repeat("}", 33),
		Says: "\n" +
			"* spec.tenantId: the ScriptTenant closed does not let the namespace default act for it: have default added to its spec.namespaces, or use another tenant\n" +
			"* spec.config: is nested deeper than 32\n" +
			"* spec.source: the source has 16 bytes and may have 5: shorten it, or raise spec.limits.sourceBytes (at most 1048576)",
	}) {
		want := fmt.Sprintf("The LuaScript %q is invalid: %s", ls.Name, ls.Says)
		if got := apply(t, manifest(ls.Name, ls.Spec)); got != want {
			t.Errorf("%s: kubectl says\n%s\nwant\n%s", ls.Name, got, want)
		}
	}
}

// TestNothingIsRun: what a script does when it is loaded is not known. One that never ended
// would show nothing: the API server takes what the webhook does not answer to.
func TestNothingIsRun(t *testing.T) {
	cleanUp(t)
	needTenant(t, "acme", "namespaces: [default]")
	if got := apply(t, manifest("loud", "tenantId: acme\nsource: |\n  function handle() end\n  error('it was run')\n")); got != "luascript.scriptorium.dev/loud created" {
		t.Error(got)
	}
}

// What the schema of ScriptTenants cannot say is left to the webhook.
func TestRefusedScriptTenants(t *testing.T) {
	cleanUp(t)
	got := apply(t, tenantManifest("selector", "namespaceSelector: {matchLabels: {'not a key': x}}"))
	if !strings.HasPrefix(got, `The ScriptTenant "selector" is invalid: spec.namespaceSelector: key: Invalid value: "not a key"`) {
		t.Error(got)
	}
}

func TestWarnings(t *testing.T) {
	cleanUp(t)
	needTenant(t, "warned", "namespaces: [default, shop]")
	const source = "tenantId: warned\nsource: function handle() return %d end\n"
	created := "luascript.scriptorium.dev/pinned created"
	if got := apply(t, manifest("pinned", fmt.Sprintf(source, 1)+"version: 1")); got != created {
		t.Error(got)
	}
	if got, want := apply(t, manifest("pinned", fmt.Sprintf(source, 2)+"version: 1")),
		"Warning: spec.version: pins version 1, so the new source is published and does not run: remove spec.version to run it\nluascript.scriptorium.dev/pinned configured"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Together with the removal of the pin it runs.
	if got, want := apply(t, manifest("pinned", fmt.Sprintf(source, 3))), "luascript.scriptorium.dev/pinned configured"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	got := apply(t, manifest("odd", "tenantId: warned\nsource: |\n  function handle(t)\n    print(table.getn(t))\n    return visitr\n  end"))
	want := "Warning: spec.source: line 2: scripts have no print: use log.info\n" +
		"Warning: spec.source: line 2: table.getn is deprecated: use the operator #\n" +
		"Warning: spec.source: line 3: visitr is defined nowhere, and so nil\n" +
		"luascript.scriptorium.dev/odd created"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got = apply(t, manifest("odder", "tenantId: warned\nsource: function handle() a() b() c() d() e() f() g() end"))
	if n := strings.Count(got, "Warning: spec.source: line 1: "); n != 5 || !strings.Contains(got, "Warning: spec.source: and 2 more like these\n") {
		t.Errorf("many warnings: %s", got)
	}
}

func TestRivals(t *testing.T) {
	cleanUp(t)
	shop := kube.Namespace(t, "rival", nil)
	needTenant(t, "shared", "namespaces: ['*']")
	if got := apply(t, manifest("same", "tenantId: shared\nsource: function handle() end")); got != "luascript.scriptorium.dev/same created" {
		t.Error(got)
	}
	warning := "Warning: metadata.name: the LuaScript default/same is the script shared/same too: the one that was published first owns it, and the other one will stay Stalled"
	err := wait(t.Context(), func() error { // for the cache to know the first
		_, stderr, err := kube.Kubectl(t.Context(), strings.ReplaceAll(manifest("same", "tenantId: shared\nsource: function handle() end"), "namespace: default", "namespace: "+shop),
			"apply", "--dry-run=server", "-f", "-")
		if strings.TrimSpace(stderr) != warning {
			return fmt.Errorf("%q, %w", stderr, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestSuspiciousScriptTenants(t *testing.T) {
	cleanUp(t)
	for spec, want := range map[string]string{
		"isolation: shared":              "spec.namespaces: names none, and there is no namespaceSelector: no script can be the tenant's",
		"namespaceSelector: {}":          "spec.namespaceSelector: is empty, which selects every namespace of the cluster: remove it to select none",
		"namespaces: [a]\nmemory: 128Mi": "spec.memory: has no effect unless spec.isolation is process",
	} {
		_, stderr, err := kube.Kubectl(t.Context(), tenantManifest("odd", spec), "apply", "--dry-run=server", "-f", "-")
		if got := strings.TrimSpace(stderr); got != "Warning: "+want || err != nil {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
}

// Whatever is wrong with a LuaScript, and whatever became of its tenant, it can be
// labelled, be freed of its finalizers, have a status, and be deleted.
func TestNothingKeepsFromDeleting(t *testing.T) {
	cleanUp(t)
	ctx := t.Context()
	st := &v1alpha1.ScriptTenant{ObjectMeta: metav1.ObjectMeta{Name: "gone"}, Spec: v1alpha1.ScriptTenantSpec{Namespaces: []string{"default"}}}
	if err := kube.Client.Create(ctx, st); err != nil {
		t.Fatal(err)
	}
	ls := luaScript("default", "left", "gone", "function handle() end")
	ls.Finalizers = []string{v1alpha1.Finalizer}
	if err := kube.Client.Create(ctx, ls); err != nil {
		t.Fatal(err)
	}
	if err := kube.Client.Delete(ctx, st); err != nil {
		t.Fatal(err)
	}
	err := wait(ctx, func() error {
		changed := ls.DeepCopy()
		changed.Spec.Source = new("function handle() return 1 end")
		if err := kube.Client.Update(ctx, changed, client.DryRunAll); err == nil {
			return fmt.Errorf("the spec can still be changed")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	ls.Labels = map[string]string{"a": "b"}
	if err := kube.Client.Update(ctx, ls); err != nil {
		t.Errorf("a label: %v", err)
	}
	ls.Status.ActiveVersion = 1
	if err := kube.Client.Status().Update(ctx, ls); err != nil {
		t.Errorf("status: %v", err)
	}
	if err := kube.Client.Delete(ctx, ls); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := kube.Client.Get(ctx, client.ObjectKeyFromObject(ls), ls); err != nil {
		t.Fatal(err)
	}
	ls.Finalizers = nil
	if err := kube.Client.Update(ctx, ls); err != nil {
		t.Errorf("the finalizer: %v", err)
	}
	if err := kube.Client.Get(ctx, client.ObjectKeyFromObject(ls), ls); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("it is still there: %v", err)
	}
}

// What a script has had before its tenant's limits were lowered is warned of, and no
// reason to refuse another change.
func TestLoweredCeiling(t *testing.T) {
	cleanUp(t)
	needTenant(t, "lowered", "namespaces: [default]")
	spec := "tenantId: lowered\nlimits: {timeout: 5s}\nsource: function handle() return %d end"
	if got := apply(t, manifest("slow", fmt.Sprintf(spec, 1))); got != "luascript.scriptorium.dev/slow created" {
		t.Fatal(got)
	}
	if got := apply(t, tenantManifest("lowered", "namespaces: [default]\nlimits: {timeout: 1s}")); got != "scripttenant.scriptorium.dev/lowered configured" {
		t.Fatal(got)
	}
	want := "Warning: spec.limits.timeout: 5s is more than the tenant lowered may have, 1s: ask for less, or have the tenant's limits raised; agents cut it down to that\n" +
		"luascript.scriptorium.dev/slow configured"
	n := 1
	err := wait(t.Context(), func() error { // for the cache to know
		n++
		if got := apply(t, manifest("slow", fmt.Sprintf(spec, n))); got != want {
			return fmt.Errorf("got  %s\nwant %s", got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
