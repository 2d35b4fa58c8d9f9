package suite_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
)

// documented are the places where people find objects of either kind with tests.
var documented = []string{"../../docs/reference/luascript.md", "../../docs/kubernetes.md", "../../docs/rollouts.md", "../../examples/kubernetes/rollout.yaml"}

var objectManifest = regexp.MustCompile(`apiVersion: scriptorium\.dev/v1alpha1\nkind: (Lua)?Script\n`)

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
			if !objectManifest.MatchString(manifest) || !strings.Contains(manifest, "\n  tests:\n") {
				continue
			}
			seen++
			ls := &v1alpha1.LuaScript{}
			if err := yaml.UnmarshalStrict([]byte(manifest), ls); err != nil {
				t.Fatalf("%s: %v\n%s", path, err, manifest)
			}
			ls.Spec.TenantID = tenant
			if ls.Kind == string(kinds.Script) {
				w.createScript(ls.Name, ls.Spec)
				w.scriptIs(ls.Name, v1alpha1.ConditionConverged)
				if err := env.Client.Delete(t.Context(), &v1alpha1.Script{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: ls.Name}}); err != nil {
					t.Fatal(err)
				}
				w.leaves(ls.Name)
				continue
			}
			ls.Namespace = w.namespace
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
