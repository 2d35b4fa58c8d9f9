package validate_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestChartAndOverlaysAreTheSame compares every field of every object, but for what
// each tool adds of its own.
func TestChartAndOverlaysAreTheSame(t *testing.T) {
	for _, tt := range []struct {
		name           string
		overlay, chart func(*testing.T) string
	}{
		{"try", overlay(kustomize + "/try"), template("--set=etcd.persistence.enabled=false", "--set=agent.allow={*}")},
		{"production", overlay(kustomize + "/production"), template("--values=" + production)},
		{"monitoring", overlay("testdata/monitoring"), template("--set=agent.allow={*}", "--set=serviceMonitors.enabled=true", "--set=monitoring.rules.enabled=true", "--set=monitoring.dashboards.enabled=true", "--set=etcd.persistence.enabled=false")},
		{"tracing", overlay("testdata/tracing"), template("--set=agent.allow={*}", "--set=tracing.endpoint=http://otel-collector.observability.svc:4317", "--set=etcd.persistence.enabled=false")},
		{"persistence", overlay("testdata/persistence"), template("--set=agent.allow={*}")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, got := normal(t, tt.overlay(t)), normal(t, tt.chart(t))
			delete(want, "Namespace/"+namespace) // helm --create-namespace
			for _, name := range slices.Sorted(maps.Keys(want)) {
				if got[name] == nil {
					t.Errorf("%s is not in the chart", name)
				} else if diff := gocmp.Diff(want[name], got[name]); diff != "" {
					t.Errorf("%s differs (-overlay +chart):\n%s", name, diff)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(got)) {
				if want[name] == nil {
					t.Errorf("%s is in the chart alone", name)
				}
			}
		})
	}
}

// normal returns the objects by kind and name, without what the tools add.
func normal(t *testing.T, rendered string) map[string]map[string]any {
	t.Helper()
	rendered = hashed.ReplaceAllString(rendered, "scriptorium-$1")
	objects := map[string]map[string]any{}
	for _, o := range parse(t, rendered) {
		if o.GetKind() == "Job" {
			o.SetName(jobNumber.ReplaceAllString(o.GetName(), "")) // of the chart's
			// Helm removes the Job of the release before; nobody does it for kubectl.
			delete(o.Object["spec"].(map[string]any), "ttlSecondsAfterFinished")
		}
		walk(o.Object, func(m map[string]any) {
			for _, added := range []struct{ in, key string }{
				{"labels", "app.kubernetes.io/instance"},
				{"labels", "app.kubernetes.io/managed-by"},
				{"labels", "app.kubernetes.io/version"},
				{"labels", "helm.sh/chart"},
				{"annotations", "checksum/config"},
				{"annotations", "helm.sh/resource-policy"},
				{"annotations", "argocd.argoproj.io/hook"}, // to be replaced without another name: see TestAJobIsReplaced
				{"annotations", "argocd.argoproj.io/hook-delete-policy"},
				{"annotations", "kustomize.toolkit.fluxcd.io/force"},
			} {
				if values, ok := m[added.in].(map[string]any); ok {
					delete(values, added.key)
				}
			}
			if values, ok := m["annotations"].(map[string]any); ok && len(values) == 0 {
				delete(m, "annotations")
			}
			if variables, ok := m["env"].([]any); ok { // patches put theirs first
				slices.SortFunc(variables, func(a, b any) int {
					return cmp.Compare(fmt.Sprint(a.(map[string]any)["name"]), fmt.Sprint(b.(map[string]any)["name"]))
				})
			}
		})
		if objects[title(o)] != nil {
			t.Errorf("%s is there twice", title(o))
		}
		objects[title(o)] = o.Object
	}
	return objects
}

// jobNumber is what the chart numbers its Jobs by: the release's revision, and what is in
// the Job.
var jobNumber = regexp.MustCompile(`-1-[0-9a-f]{8}$`)

// TestAJobIsReplaced: it cannot be changed, and who applies the chart without helm counts
// no revisions.
func TestAJobIsReplaced(t *testing.T) {
	job := func(rendered string) *unstructured.Unstructured {
		t.Helper()
		objects := parse(t, rendered)
		i := slices.IndexFunc(objects, isJob)
		if i < 0 {
			t.Fatal("there is no Job")
		}
		return objects[i]
	}
	first := job(template()(t)).GetName()
	if another := job(template("--set=image.tag=v2")(t)).GetName(); another == first || !jobNumber.MatchString(another) {
		t.Errorf("a Job with another image is %s, and %s was there before", another, first)
	}
	if same := job(template("--set=agent.tag=v2")(t)).GetName(); same != first {
		t.Errorf("the Job is %s, and was %s: nothing of it is another", same, first)
	}
	got := job(overlay(kustomize + "/production")(t)).GetAnnotations()
	want := map[string]string{
		"argocd.argoproj.io/hook":               "Sync",
		"argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation",
		"kustomize.toolkit.fluxcd.io/force":     "enabled",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("the annotations of kustomize's Job (-want +got):\n%s", diff)
	}
}

// TestTheChartsFiles are copies, since a chart cannot reach out of its folder.
func TestTheChartsFiles(t *testing.T) {
	copies, err := filepath.Glob(chart + "/files/*")
	if err != nil {
		t.Fatal(err)
	}
	var originals []string
	for _, pattern := range []string{"../crd/scriptorium.dev_*.yaml", "../rbac/operator.yaml", "../rbac/bootstrap.yaml", "../webhook/manifests.yaml", "../nats/nats-server.conf"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("nothing is %s: %v", pattern, err)
		}
		originals = append(originals, found...)
	}
	// `go run ./deploy/observability/generate` writes these, and its own test compares them.
	copies = slices.DeleteFunc(copies, func(path string) bool {
		return slices.Contains([]string{"dashboards", "rules.yaml"}, filepath.Base(path))
	})
	if len(copies) != len(originals) {
		t.Errorf("the chart has %d files, of %d: run `make generate`", len(copies), len(originals))
	}
	for _, original := range originals {
		want, err := os.ReadFile(original)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(chart, "files", filepath.Base(original))
		if got, err := os.ReadFile(copied); err != nil || string(got) != string(want) {
			t.Errorf("%s is no copy of %s: run `make generate` (%v)", copied, original, err)
		}
	}
}

// TestNamespaces: nothing is left in a namespace that nobody asked for, and a release in
// another namespace has all of its references there.
func TestNamespaces(t *testing.T) {
	out, err := runHelm(t, "template", "scriptorium", chart, "--namespace=elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, namespace) {
		t.Errorf("a release in another namespace names %s", namespace)
	}
	for _, way := range renderings(t) {
		for _, o := range parse(t, way.make(t)) {
			if in := o.GetNamespace(); in != "" && in != namespace {
				t.Errorf("%s: %s is in %s", way.name, title(o), in)
			}
			if wants := isNamespaced(t, o); wants != (o.GetNamespace() != "") {
				t.Errorf("%s: %s: namespace %q", way.name, title(o), o.GetNamespace())
			}
		}
	}
}

func isNamespaced(t *testing.T, o *unstructured.Unstructured) bool {
	t.Helper()
	if o.GetKind() == "ServiceMonitor" {
		return true
	}
	namespaced, err := env.Client.IsObjectNamespaced(o)
	if err != nil {
		t.Fatal(err)
	}
	return namespaced
}
