// Package validate_test holds what deploy/ promises: a real API server takes every
// object, nothing runs with more rights than it needs, and the chart and the overlays
// of kustomize are the same.
package validate_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/scriptorium-dev/scriptorium/deploy/helm"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/operator/testenv"
)

const (
	namespace  = "scriptorium-system"
	kustomize  = "../kustomize"
	chart      = "../helm/scriptorium"
	production = chart + "/values-production.yaml"
)

// env is the Kubernetes API that all tests share. Tests leave nothing in it but namespaces,
// definitions and a ConfigMap.
var env *testenv.Env

func TestMain(m *testing.M) {
	runScriptctl()
	log.SetLogger(logr.Discard())
	os.Exit(testenv.Run(m, func(e *testenv.Env) { env = e }))
}

// rendering is one way to install everything.
type rendering struct {
	name string
	make func(*testing.T) string
}

// renderings are the ways that are validated.
func renderings(t *testing.T) []rendering {
	t.Helper()
	ways := []rendering{
		{"try", overlay(kustomize + "/try")},
		{"production", overlay(kustomize + "/production")},
		{"try with monitoring", overlay("testdata/monitoring")},
		{"try with a volume", overlay("testdata/persistence")},
		{"try with traces", overlay("testdata/tracing")},
		{"chart", template()},
		{"chart in production", template("--values=" + production)},
	}
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata/values: %v", err)
	}
	for _, file := range files {
		ways = append(ways, rendering{"chart with " + strings.TrimSuffix(filepath.Base(file), ".yaml"), template("--values=" + file)})
	}
	return ways
}

// once renders at the first call; every test wants the same.
func once(key string, render func(*testing.T) string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		if rendered[key] == "" {
			rendered[key] = render(t)
		}
		return rendered[key]
	}
}

var rendered = map[string]string{}

// overlay renders a folder of kustomize.
func overlay(folder string) func(*testing.T) string {
	return once(folder, func(t *testing.T) string {
		t.Helper()
		out, said, err := env.Kubectl(t.Context(), "", "kustomize", folder)
		if err != nil {
			t.Fatal(err)
		}
		if said != "" {
			t.Errorf("kustomize warns: %s", said)
		}
		return out
	})
}

// template renders the chart.
func template(args ...string) func(*testing.T) string {
	return once("helm "+strings.Join(args, " "), func(t *testing.T) string {
		t.Helper()
		out, err := runHelm(t, append([]string{"template", "scriptorium", chart, "--namespace=" + namespace}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	})
}

// runHelm runs helm; the error has what it wrote to standard error.
func runHelm(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), needs.Program(t, "helm"), args...)
	cmd.Env = append(os.Environ(), helm.Env(t.TempDir())...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return out.String(), nil
}

// parse returns the objects of a rendering.
func parse(t *testing.T, rendered string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(rendered), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, rendered)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// title names an object in a message.
func title(o *unstructured.Unstructured) string { return o.GetKind() + "/" + o.GetName() }

// hashed is a name that kustomize makes of the content.
var hashed = regexp.MustCompile(`\bscriptorium-(endpoints|nats)-[a-z0-9]{10}\b`)
