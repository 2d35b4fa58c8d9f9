package suite_test

import (
	"encoding/base64"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/testenv/wrong"
	"github.com/scriptorium-dev/scriptorium/script"
)

type spec = v1alpha1.LuaScriptSpec

// TestLife: a LuaScript from its creation to its end, with all that can be changed.
func TestLife(t *testing.T) {
	w := start(t, 2)

	ls := w.converged(w.create("route", 1))
	w.answers("route", 1)
	s := ls.Status
	if s.Phase != v1alpha1.PhaseActive || s.ActiveVersion != 1 || s.LatestVersion != 1 || s.Agents == nil || s.Agents.Summary != "2/2" ||
		s.Digest != script.DigestOf([]byte(*ls.Spec.Source)).String() || len(s.History) != 1 || s.Revision == 0 || s.LastUpdateTime == nil {
		t.Errorf("created: %+v", s)
	}
	for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if message(ls, kind) != "" {
			t.Errorf("created: %s, %s", kind, message(ls, kind))
		}
	}
	w.tells(ls, "Published", "Converged")
	if note := w.events(ls)["Converged"]; !strings.Contains(note, "2 of 2 agents") || !strings.Contains(note, "after it was committed") {
		t.Errorf("the event says %q", note)
	}
	if r, err := w.release("route"); err != nil || r.Owner != "luascript/"+w.namespace+"/route" {
		t.Errorf("the registry has %+v, %v", r, err)
	}

	ls = w.converged(w.change(ls, func(s *spec) { s.Source = source(2) }))
	w.answers("route", 2)
	ls = w.converged(w.change(ls, func(s *spec) {
		s.Source, s.Script = nil, new(base64.StdEncoding.EncodeToString([]byte(*source(3))))
	}))
	w.answers("route", 3)
	if ls.Status.ActiveVersion != 3 || len(ls.Status.History) != 3 || ls.Status.History[0].Version != 3 {
		t.Errorf("changed: %+v", ls.Status)
	}

	ls = w.converged(w.change(ls, func(s *spec) { s.Version = new(int64(3)) }))
	w.told(ls, "Pinned")
	ls = w.converged(w.change(ls, func(s *spec) { s.Source, s.Script = source(4), nil }))
	w.answers("route", 3)
	if ls.Status.ActiveVersion != 3 || ls.Status.LatestVersion != 4 {
		t.Errorf("published while pinned: %+v", ls.Status)
	}
	ls = w.converged(w.change(ls, func(s *spec) { s.Version = new(int64(1)) }))
	w.answers("route", 1)
	w.told(ls, "RolledBack")
	ls = w.converged(w.change(ls, func(s *spec) { s.Version = nil }))
	w.answers("route", 4)
	w.told(ls, "Unpinned")

	ls = w.converged(w.change(ls, func(s *spec) { s.Enabled = new(false) }))
	w.fails("route", script.Disabled)
	w.told(ls, "Disabled")
	ls = w.converged(w.change(ls, func(s *spec) { s.Enabled = new(true) }))
	w.answers("route", 4)
	w.told(ls, "Enabled")

	ls = w.converged(w.change(ls, func(s *spec) { s.Source = new("function handle()\n  return config.answer\nend\n") }))
	ls = w.converged(w.change(ls, func(s *spec) {
		s.Config = &apiextensionsv1.JSON{Raw: []byte(`{"answer": 42}`)}
		s.Limits = &v1alpha1.Limits{Timeout: new("9s")}
		s.Trigger = &v1alpha1.Trigger{Event: "http-request"}
	}))
	w.answers("route", 42)
	w.told(ls, "Configured")
	r, err := w.release("route")
	if err != nil || r.Settings.Limits.Timeout.String() != "9s" || r.Settings.Trigger.Event != "http-request" || r.Latest != 6 {
		t.Errorf("configured: %+v, %v", r, err)
	}

	w.deleted(ls)
	w.leaves("route")
	if r, err := w.release("route"); script.KindOf(err) != script.NotFound && !r.Deleted {
		t.Errorf("deleted: %+v, %v", r, err)
	}
	w.told(ls, "Deleted")
	was := ls

	// The same name again is another script: it begins where the numbers went on.
	ls = w.converged(w.create("route", 7))
	w.answers("route", 7)
	if ls.Status.ActiveVersion != 7 {
		t.Errorf("created again: version %d, want 7", ls.Status.ActiveVersion)
	}

	w.tells(ls, "Published", "Converged")
	var all []string
	for _, reason := range []string{
		"Published", "Published", "Published", "Pinned", "Published", "RolledBack", "Unpinned", "Disabled", "Enabled", "Published",
	} {
		all = append(all, reason, "Converged")
	}
	w.tells(was, append(all, "Published", "Configured", "Converged", "Deleted")...)
}

// deleted deletes a LuaScript and waits until it is gone.
func (w *world) deleted(ls *v1alpha1.LuaScript) {
	w.t.Helper()
	if err := env.Client.Delete(w.t.Context(), ls); err != nil {
		w.t.Fatal(err)
	}
	w.gone(ls)
}

// gone waits until there is no such LuaScript.
func (w *world) gone(ls *v1alpha1.LuaScript) {
	w.t.Helper()
	w.eventually(ls.Name+" is gone", func() bool {
		err := env.Client.Get(w.t.Context(), client.ObjectKeyFromObject(ls), &v1alpha1.LuaScript{})
		return client.IgnoreNotFound(err) == nil && err != nil
	})
}

// TestRefused: what cannot be becomes a condition that names the field, changes
// nothing, and is over once the spec is right.
func TestRefused(t *testing.T) {
	w := start(t, 1)
	good := w.converged(w.create("good", 1))
	for _, test := range []struct {
		name  string
		bad   func(*spec)
		words []string
	}{
		// The API server sees to most of base64 itself: this is what it lets through.
		{"base64", func(s *spec) { s.Source, s.Script = nil, new("A=======") }, []string{"spec.script", "is not base64"}},
		{"lua", func(s *spec) { s.Source = new("function handle()\n  retrun 1\nend\n") }, []string{"spec.source", "line 2"}},
		{"lua-in-base64", func(s *spec) { s.Source, s.Script = nil, new(base64.StdEncoding.EncodeToString([]byte("return ("))) }, []string{"spec.script", "line 1"}},
		{"entrypoint", func(s *spec) { s.Entrypoint = new("main") }, []string{"spec.entrypoint", "main"}},
		{"pin", func(s *spec) { s.Version = new(int64(99)) }, []string{"spec.version", "99"}},
		{"size", func(s *spec) { s.Limits = &v1alpha1.Limits{SourceBytes: new(int64(5))} }, []string{"spec.source", "spec.limits.sourceBytes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			fresh := w.luaScript("fresh-"+test.name, 1)
			test.bad(&fresh.Spec)
			if err := env.Client.Create(t.Context(), fresh); err != nil {
				t.Fatal(err)
			}
			fresh = w.stalled(fresh, test.words...)
			if fresh.Status.Phase != v1alpha1.PhaseError || is(fresh, v1alpha1.ConditionReady, metav1.ConditionTrue) ||
				is(fresh, v1alpha1.ConditionConverged, metav1.ConditionTrue) || is(fresh, v1alpha1.ConditionReconciling, metav1.ConditionTrue) {
				t.Errorf("%+v", fresh.Status)
			}
			w.told(fresh, "Refused")
			w.fails(fresh.Name, script.NotFound)

			// The one that runs goes on.
			good = w.stalled(w.change(good, test.bad), test.words...)
			w.answers("good", 1)
			if good.Status.ActiveVersion == 0 || good.Status.Agents == nil {
				t.Errorf("the status does not say what runs: %+v", good.Status)
			}
			good = w.converged(w.change(good, func(s *spec) { *s = w.luaScript("good", 1).Spec }))

			w.converged(w.change(fresh, func(s *spec) { *s = w.luaScript("", 2).Spec }))
			w.answers(fresh.Name, 2)
		})
	}
}

// TestRefusedInTheSameWords: a condition says what kubectl apply would have said.
func TestRefusedInTheSameWords(t *testing.T) {
	w := start(t, 1)
	for name, spec := range map[string]string{"bounded": wrong.Bounded, "closed": wrong.Closed} {
		st := &v1alpha1.ScriptTenant{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := yaml.UnmarshalStrict([]byte(spec), &st.Spec); err != nil {
			t.Fatal(err)
		}
		if err := env.Client.Create(t.Context(), st); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range wrong.LuaScripts(w.namespace) {
		ls := &v1alpha1.LuaScript{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: bad.Name}}
		if err := yaml.UnmarshalStrict([]byte(bad.Spec), &ls.Spec); err != nil {
			t.Fatal(err)
		}
		if err := env.Client.Create(t.Context(), ls); err != nil {
			t.Fatal(err)
		}
		ls = w.stalled(ls, bad.Says)
		if got := message(ls, v1alpha1.ConditionStalled); got != bad.Says {
			t.Errorf("%s: the condition says\n%s\nand kubectl apply\n%s", bad.Name, got, bad.Says)
		}
	}
}

// TestTenancy: a namespace acts for the tenants that let it, from the moment that they
// do; what it has goes on when they do not anymore.
func TestTenancy(t *testing.T) {
	w := start(t, 1)
	ls := w.create("route", 1, func(s *spec) { s.TenantID = "shop" })
	ls = w.stalled(ls, "spec.tenantId", "there is no ScriptTenant shop", w.namespace)
	w.createTenant("shop", "elsewhere")
	ls = w.stalled(ls, "spec.tenantId", "does not let the namespace "+w.namespace)
	shop := &v1alpha1.ScriptTenant{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	set := func(namespaces string) {
		t.Helper()
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"namespaces":[`+namespaces+`]}}`))
		if err := env.Client.Patch(t.Context(), shop, patch); err != nil {
			t.Fatal(err)
		}
	}
	set(`"` + w.namespace + `"`)
	ls = w.converged(ls)
	set("")
	ls = w.stalled(ls, "does not let the namespace")
	ls = w.stalled(w.change(ls, func(s *spec) { s.Source = source(2) }), "does not let the namespace")
	result, err := w.agents[0].Call(t.Context(), "shop/route")
	if err != nil || string(result.Values[0]) != "1" {
		t.Errorf("what was there: %v, %v", result, err)
	}
	w.deleted(ls)
	w.eventually("the agent has let go of it", func() bool {
		_, err := w.agents[0].Call(t.Context(), "shop/route")
		return script.KindOf(err) == script.NotFound
	})
}
