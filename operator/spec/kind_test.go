package spec_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestKinds: the kind is in the owner, and a LuaScript is in Lua.
func TestKinds(t *testing.T) {
	const says = "spec.runtime: a LuaScript is in Lua: set kind to Script for the other runtimes"
	for _, runtime := range []string{script.EngineLua, script.EngineRego} {
		object := luaScript(func(ls *v1alpha1.LuaScript) {
			ls.Spec.Runtime = new(v1alpha1.Runtime(runtime))
			if runtime == script.EngineRego {
				ls.Spec.Source, ls.Spec.Entrypoint = new("package route\n\nhandle := 42\n"), new("route/handle")
			}
		})
		for _, kind := range kinds.All() {
			w, err := spec.From(kind, object)
			switch {
			case kind == kinds.LuaScript && runtime != script.EngineLua:
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%s in %s: %v", kind, runtime, err)
				}
			case err != nil, w.Engine != runtime, w.Owner != kind.Lower()+"/"+object.Namespace+"/"+object.Name:
				t.Errorf("%s in %s: %+v, %v", kind, runtime, w, err)
			}
		}
	}
}

// TestRivalsOfEachKind: the words name the kind of the object that has the script.
func TestRivalsOfEachKind(t *testing.T) {
	name := script.Name{Tenant: "acme", Script: "route"}
	for owner, want := range map[string]string{
		"script/web/route":    "the Script web/route is the script acme/route too",
		"luascript/web/route": "the LuaScript web/route is the script acme/route too",
		"team-web":            "team-web has the script acme/route too",
	} {
		if got := spec.Rival(owner, name); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
