package suite_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/script"
)

// answer42 is a WebAssembly module, in base64, that answers every call with 42.
const answer42 = "AGFzbQEAAAABDAJgAX8Bf2ACf38BfgMDAgABBQMBAAEHJwMGbWVtb3J5AgARc2NyaXB0b3JpdW1fYWxsb2MAAAZoYW5kbGUAAQoRAgUAQYAICwkAQoKAgIDADAsLCQEAQeQACwI0Mg=="

const policy = "package route\n\nhandle := 42\n"

// createScript creates a Script, and returns it as Go's one type of both kinds.
func (w *world) createScript(name string, spec spec) *v1alpha1.LuaScript {
	w.t.Helper()
	spec.Limits = patient()
	s := &v1alpha1.Script{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: spec}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		w.remove(ctx, s)
	})
	if err := env.Client.Create(w.t.Context(), s); err != nil {
		w.t.Fatal(err)
	}
	return kinds.Of(s)
}

// scriptIs waits until a condition of a Script's spec is true, and returns the Script.
func (w *world) scriptIs(name, condition string) *v1alpha1.LuaScript {
	w.t.Helper()
	var last *v1alpha1.LuaScript
	w.eventually(name+" is "+condition, func() bool {
		var err error
		last, err = kinds.Script.Get(w.t.Context(), env.Client, client.ObjectKey{Namespace: w.namespace, Name: name})
		return err == nil && is(last, condition, metav1.ConditionTrue)
	})
	return last
}

// TestScripts: a Script in each language is published, says so in its status, and takes its script along
// when it is deleted.
func TestScripts(t *testing.T) {
	w := start(t, 1)
	for name, spec := range map[string]spec{
		"in-lua":  {Source: source(42)},
		"in-wasm": {Runtime: new(v1alpha1.Runtime(script.EngineWasm)), Script: new(answer42)},
		"in-rego": {Runtime: new(v1alpha1.Runtime(script.EngineRego)), Source: new(policy), Entrypoint: new("route/handle")},
	} {
		spec.TenantID = tenant
		created := w.createScript(name, spec)
		got := w.scriptIs(name, v1alpha1.ConditionPublished)
		if s := got.Status; s.LatestVersion != 1 || s.Revision == 0 || len(s.History) != 1 {
			t.Errorf("%s: its status is %+v", name, s)
		}
		if r, err := w.release(name); err != nil || r.Owner != "script/"+w.namespace+"/"+name {
			t.Errorf("%s: the registry has %+v, %v", name, r, err)
		}
		w.scriptIs(name, v1alpha1.ConditionConverged)
		w.answers(name, 42)
		w.told(created, "Published", "Converged")

		if err := env.Client.Delete(t.Context(), kinds.Script.Object(created)); err != nil {
			t.Fatal(err)
		}
		w.eventually(name+" is gone", func() bool {
			_, err := kinds.Script.Get(t.Context(), env.Client, client.ObjectKeyFromObject(created))
			return err != nil && client.IgnoreNotFound(err) == nil
		})
		if r, err := w.release(name); script.KindOf(err) != script.NotFound && !r.Deleted {
			t.Errorf("%s: deleted, and the registry has %+v, %v", name, r, err)
		}
	}
}

// TestScriptsOfATenant: its ScriptTenant counts the objects of both kinds, and lets them act or not.
func TestScriptsOfATenant(t *testing.T) {
	w := start(t, 1)
	w.createTenant("shop", w.namespace)
	w.createScript("both", spec{TenantID: "shop", Source: source(1)})
	w.create("lua", 1, func(s *spec) { s.TenantID = "shop" })
	w.scriptIs("both", v1alpha1.ConditionPublished)
	w.eventually("two scripts are counted", func() bool {
		st := &v1alpha1.ScriptTenant{}
		err := env.Client.Get(t.Context(), client.ObjectKey{Name: "shop"}, st)
		return err == nil && st.Status.Scripts == 2
	})
	w.createScript("stranger", spec{TenantID: "nobody", Source: source(1)})
	w.scriptIs("stranger", v1alpha1.ConditionStalled)
}

// TestKindsConflict: of a LuaScript and a Script of one name the first has the script, and the other one
// says who has it. When the first has let go, as when manifests change their kind, the other one has it
// with all its versions, and the agents have it all the time.
func TestKindsConflict(t *testing.T) {
	w := start(t, 1)
	first := w.converged(w.create("route", 1))
	w.createScript("route", spec{TenantID: tenant, Source: source(2)})
	got := w.scriptIs("route", v1alpha1.ConditionStalled)
	want := "metadata.name: the LuaScript " + w.namespace + "/route is the script acme/route too, and owns it: give this one another name, or have the other let go of it"
	if text := message(got, v1alpha1.ConditionStalled); text != want {
		t.Errorf("it says\n%s\nwant\n%s", text, want)
	}
	w.answers("route", 1)

	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+v1alpha1.AbandonAnnotation+`":"true"}}}`))
	if err := env.Client.Patch(t.Context(), first, patch); err != nil {
		t.Fatal(err)
	}
	w.deleted(first)
	w.answers("route", 1)
	owner := kinds.Script.Owner(w.namespace, "route")
	write := registryclient.Write{Author: "ann", Owner: kinds.LuaScript.Owner(w.namespace, "route")}
	if _, _, err := w.registry.SetOwner(t.Context(), nameOf("route"), owner, write); err != nil {
		t.Fatal(err)
	}
	got = w.scriptIs("route", v1alpha1.ConditionConverged)
	w.answers("route", 2)
	if got.Status.ActiveVersion != 2 {
		t.Errorf("its status is %+v", got.Status)
	}
}

// TestLuaScriptsAreInLua: the API server refuses a LuaScript in another language, and takes what LuaScripts
// had before: the former names of limits, and the runtime that was the only one.
func TestLuaScriptsAreInLua(t *testing.T) {
	w := start(t, 1)
	for _, runtime := range []string{script.EngineWasm, script.EngineRego} {
		ls := w.luaScript("route", 1)
		ls.Spec.Runtime = new(v1alpha1.Runtime(runtime))
		err := env.Client.Create(t.Context(), ls)
		if err == nil || !strings.Contains(err.Error(), "spec.runtime") || !strings.Contains(err.Error(), "set kind to Script") {
			t.Errorf("%s: %v", runtime, err)
		}
	}
	ls := w.converged(w.create("route", 1, func(s *spec) {
		s.Runtime = new(v1alpha1.Runtime(script.EngineLua))
		s.Limits = &v1alpha1.Limits{Coroutines: new(true), StringBytes: new(int64(4096)), Timeout: new("10s")}
		s.Source = new("function handle()\n  return coroutine.wrap(function() coroutine.yield(7) end)()\nend\n")
	}))
	w.answers("route", 7)
	if r, err := w.release(ls.Name); err != nil || !r.Settings.Limits.Coroutines || r.Settings.Limits.StringBytes != 4096 {
		t.Errorf("the registry has %+v, %v", r.Settings.Limits, err)
	}
}
