package suite_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
)

// documented are the places where people find LuaScripts with tests.
var documented = []string{"../../docs/reference/luascript.md", "../../docs/kubernetes.md", "../../docs/rollouts.md", "../../examples/kubernetes/rollout.yaml"}

const luaScriptManifest = "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\n"

// TestDocumentedTestsPass: the tests that documentation and examples show are right.
func TestDocumentedTestsPass(t *testing.T) {
	w := start(t, 1)
	seen := 0
	for _, path := range documented {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		manifests := []string{string(text)}
		if strings.HasSuffix(path, ".md") {
			manifests = page.Blocks(string(text), "yaml")
		}
		for _, manifest := range manifests {
			if !strings.Contains(manifest, luaScriptManifest) || !strings.Contains(manifest, "\n  tests:\n") {
				continue
			}
			seen++
			ls := &v1alpha1.LuaScript{}
			if err := yaml.UnmarshalStrict([]byte(manifest), ls); err != nil {
				t.Fatalf("%s: %v\n%s", path, err, manifest)
			}
			ls.Namespace, ls.Spec.TenantID = w.namespace, tenant
			if err := env.Client.Create(t.Context(), ls); err != nil {
				t.Fatalf("%s: %v\n%s", path, err, manifest)
			}
			ls = w.converged(ls)
			w.deleted(ls)
			w.leaves(ls.Name)
		}
	}
	if seen < 6 {
		t.Errorf("found %d manifests with tests: does the pattern still match?", seen)
	}
}
