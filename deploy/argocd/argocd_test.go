// Package argocd_test runs the health check for Argo CD on its cases.
package argocd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
)

// health is what a health check of Argo CD returns.
type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// suite is a file as Argo CD has one beside each of its own health checks.
type suite struct {
	Tests []struct {
		HealthStatus health `json:"healthStatus"`
		InputPath    string `json:"inputPath"`
	} `json:"tests"`
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// configured returns the health checks that the patch of argocd-cm brings, by kind.
func configured(t *testing.T) map[string]string {
	t.Helper()
	const prefix = "resource.customizations.health.scriptorium.dev_"
	var patch struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]any    `json:"metadata"`
		Data       map[string]string `json:"data"`
	}
	read(t, "argocd-cm.yaml", &patch)
	if len(patch.Data) != 3 {
		t.Errorf("argocd-cm.yaml has %d health checks, want one for each kind", len(patch.Data))
	}
	return map[string]string{"Script": patch.Data[prefix+"Script"], "LuaScript": patch.Data[prefix+"LuaScript"], "ScriptTenant": patch.Data[prefix+"ScriptTenant"]}
}

// TestHealth runs what argocd-cm.yaml has for an object's kind, as Argo CD does: the chunk
// gets the object as the global obj, and returns the health.
func TestHealth(t *testing.T) {
	scripts := configured(t)
	var cases suite
	read(t, "health_test.yaml", &cases)
	var seen []string
	for _, test := range cases.Tests {
		t.Run(filepath.Base(test.InputPath), func(t *testing.T) {
			var object map[string]any
			read(t, test.InputPath, &object)
			if got := run(t, scripts[object["kind"].(string)], object); got != test.HealthStatus {
				t.Errorf("it is %+v, want %+v", got, test.HealthStatus)
			}
		})
		seen = append(seen, test.InputPath)
	}
	inputs, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(seen)
	if diff := cmp.Diff(inputs, seen); diff != "" {
		t.Errorf("testdata has -, health_test.yaml +\n%s", diff)
	}
}

func run(t *testing.T, source string, object map[string]any) health {
	t.Helper()
	program, err := lua.New().Compile(engine.Source{Code: []byte(source)})
	if err != nil {
		t.Fatal(err)
	}
	argument, err := json.Marshal(map[string]any{"obj": object})
	if err != nil {
		t.Fatal(err)
	}
	var result engine.Result
	if err := program.Run(t.Context(), &engine.Invocation{Tenant: "argocd", Args: [][]byte{argument}}, &result); err != nil {
		t.Fatal(err)
	}
	if result.Len() != 1 {
		t.Fatalf("it returns %d values", result.Len())
	}
	var got health
	if err := json.Unmarshal(result.Value(0), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestThePatchHasTheScript: what Argo CD gets is health.lua, for both kinds.
func TestThePatchHasTheScript(t *testing.T) {
	text, err := os.ReadFile("health.lua")
	if err != nil {
		t.Fatal(err)
	}
	for kind, got := range configured(t) {
		if diff := cmp.Diff(string(text), got); diff != "" {
			t.Errorf("%s in argocd-cm.yaml is not health.lua: copy it there\n%s", kind, diff)
		}
	}
}
