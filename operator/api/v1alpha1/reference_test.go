package v1alpha1_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
)

const docs = "../../../docs"

// reference returns the page that describes the fields of a kind: those of both kinds of scripts are on one.
func reference(t *testing.T, kind string) string {
	t.Helper()
	if kind == "Script" {
		kind = "LuaScript"
	}
	return page(t, kind)
}

// page returns the page of a kind.
func page(t *testing.T, kind string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, "reference", strings.ToLower(kind)+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// row is the first cell of a row that describes a field.
var row = regexp.MustCompile("(?m)^\\| `((?:spec|status)[.a-zA-Z0-9]*)` \\|")

// TestReferenceIsWhole: each field that there is is described, and no other.
func TestReferenceIsWhole(t *testing.T) {
	for _, crd := range definitions(t) {
		kind := crd.Spec.Names.Kind
		described := map[string]bool{}
		for _, m := range row.FindAllStringSubmatch(reference(t, kind), -1) {
			if described[m[1]] {
				t.Errorf("%s: %s is described twice", kind, m[1])
			}
			described[m[1]] = true
		}
		for path := range fields(crd) {
			if !described[path] {
				t.Errorf("%s: %s is not described", kind, path)
			}
			delete(described, path)
		}
		for path := range described {
			t.Errorf("%s: %s is described, and is no field", kind, path)
		}
	}
}

// TestReferenceHasTheDefaults: a default that the definition has is the one described.
func TestReferenceHasTheDefaults(t *testing.T) {
	for _, crd := range definitions(t) {
		kind := crd.Spec.Names.Kind
		for path, f := range fields(crd) {
			if f.Default == nil {
				continue
			}
			value := strings.Trim(string(f.Default.Raw), `"`)
			want := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(path) + "` \\| `?" + regexp.QuoteMeta(value) + "`?( \\||, )")
			if !want.MatchString(reference(t, kind)) {
				t.Errorf("%s: the default of %s is %s, which its row does not say", kind, path, value)
			}
		}
	}
}

var block = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestReferenceExamplesApply: kubectl applies each example, one after the other, as
// somebody who reads along does.
func TestReferenceExamplesApply(t *testing.T) {
	namespace := env.Namespace(t, "examples", nil)
	for _, kind := range []string{"ScriptTenant", "LuaScript", "Script"} {
		examples := block.FindAllStringSubmatch(page(t, kind), -1)
		if len(examples) < 3 {
			t.Errorf("%s: found %d examples: does the pattern still match?", kind, len(examples))
		}
		for _, m := range examples {
			if _, stderr, err := env.Kubectl(t.Context(), m[1], "apply", "-n", namespace, "-f", "-"); err != nil || stderr != "" {
				t.Errorf("%s: %v %s\n%s", kind, err, stderr, m[1])
			}
		}
	}
}

var (
	isScript     = regexp.MustCompile(`(?m)^kind: (Lua)?Script$`)
	artifactFile = regexp.MustCompile(`(?m)^  artifact: [^o]`)
)

// forClusters reports whether a text is a Script or LuaScript, without an artifact in a file: such a file is
// for scriptctl alone, and has to be built first.
func forClusters(text []byte) bool { return isScript.Match(text) && !artifactFile.Match(text) }

// manifests returns every Script and LuaScript of the documentation and the examples, by where it is.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, root := range []string{docs, "../../../README.md", "../../../examples"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			switch filepath.Ext(path) {
			case ".md":
				text, err := os.ReadFile(path)
				for _, m := range block.FindAllSubmatch(text, -1) {
					if forClusters(m[1]) {
						all[path+":\n"+string(m[1])] = string(m[1])
					}
				}
				return err
			case ".yaml":
				text, err := os.ReadFile(path)
				if forClusters(text) {
					all[path] = string(text)
				}
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(all) < 8 {
		t.Errorf("found %d manifests: does the pattern still match?", len(all))
	}
	return all
}

var namesFile = regexp.MustCompile(`(?m)^  sourceFile: (\S+)$`)

// withSourceFile returns a folder with the file that the manifest names, and dir if it names none.
func withSourceFile(t *testing.T, dir, manifest string) string {
	t.Helper()
	m := namesFile.FindStringSubmatch(manifest)
	if m == nil {
		return dir
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, m[1]), []byte("package acme.route\n\nallow := true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFilesAndClusterAgree: what scriptctl reads from a manifest is what the operator
// reads from what the API server made of it.
func TestFilesAndClusterAgree(t *testing.T) {
	namespace := env.Namespace(t, "agree", nil)
	for path, text := range manifests(t) {
		dir, inPage, _ := strings.Cut(path, ":")
		if dir = filepath.Dir(dir); inPage != "" { // the page shows the file, too
			dir = withSourceFile(t, dir, text)
		}
		file, err := manifest.Parse(path, []byte(text), dir)
		if err != nil || len(file) != 1 {
			t.Errorf("%s: scriptctl: %v", path, err)
			continue
		}
		u, err := create(t, namespace, text, client.DryRunAll)
		if file[0].SourceFile != "" {
			if err == nil || !strings.Contains(err.Error(), `unknown field "spec.sourceFile"`) {
				t.Errorf("%s: the cluster took a sourceFile: %v", path, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: the cluster: %v", path, err)
			continue
		}
		var ls v1alpha1.LuaScript
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &ls); err != nil {
			t.Fatal(err)
		}
		want, err := spec.From(kinds.Kind(u.GetKind()), &ls)
		if err != nil {
			t.Errorf("%s: the operator: %v", path, err)
			continue
		}
		settings := file[0].Settings
		if settings.HistoryLimit == 0 {
			settings.HistoryLimit = 10 // the registry's default, which a LuaScript always says
		}
		for i := range settings.Tests {
			if test := &settings.Tests[i]; string(test.Request) == "{}" { // which a registry takes for none
				test.Request = nil
			}
		}
		got := spec.Wanted{
			Name: file[0].Name, Engine: file[0].Engine, Source: file[0].Source, Entrypoint: file[0].Entrypoint, Enabled: file[0].Enabled, Pin: file[0].Pin,
			Settings: settings, Owner: want.Owner, SourceField: want.SourceField,
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s: scriptctl reads -, the operator +\n%s", path, diff)
		}
	}
}

// TestFilesAndClusterDiffer: the differences are those that the reference tells of.
func TestFilesAndClusterDiffer(t *testing.T) {
	namespace := env.Namespace(t, "differ", nil)
	for text, inFiles := range map[string]bool{
		"tenantId: acme, source: return 1, version: 0":                             false,
		"tenantId: acme, source: return 1, revisionHistoryLimit: 0":                false,
		"tenantId: acme, source: return 1, limits: {instructions: 0}":              false,
		"tenantId: acme, source: return 1, entrypoint: " + strings.Repeat("a", 65): false,
		"tenantId: acme, source: return 1, version: 9007199254740993":              false,
		"tenantId: acme, script: return 1":                                         false,
		"tenantId: acme, source: return 1, rollout: {steps: [{percent: 100}]}":     false,
		"tenantId: acme, source: return 1, tests: [{name: a}, {name: a}]":          false,
		"tenantId: acme, source: return 1, config: []":                             false,
		"tenantId: acme, source: return 1, trigger: {}":                            false,
		"tenantId: acme, source: return 1, limits: {timeout: 11s}":                 false,
		"tenantId: acme, source: return 1, script: cmV0dXJuIDE=":                   false,
		"tenantId: acme":                     false,
		"tenantId: Acme, source: return 1":   false,
		"tenantId: acme, source: [return 1]": false,
	} {
		text = header + "kind: LuaScript\nmetadata: {name: route}\nspec: {" + text + "}\n"
		if _, err := create(t, namespace, text, client.DryRunAll); err == nil {
			t.Errorf("the cluster takes\n%s", text)
		}
		if _, err := manifest.Parse("route.yaml", []byte(text), t.TempDir()); (err == nil) != inFiles {
			t.Errorf("in a file: %v, for\n%s", err, text)
		}
	}
}
