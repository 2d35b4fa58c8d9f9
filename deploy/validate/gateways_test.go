package validate_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

// definitions are the files with definitions of each module that gateways/manifests pins.
var definitions = map[string][]string{
	"github.com/envoyproxy/gateway": {"charts/gateway-helm/charts/crds/crds/generated/*.yaml"},
	"sigs.k8s.io/gateway-api":       {"config/crd/experimental/gateway.networking.k8s.io_[bghr]*.yaml"},
	"istio.io/api":                  {"kubernetes/customresourcedefinitions.gen.yaml"},
}

// TestGatewaysManifests applies the manifests of the pages about gateways to an API server with the gateways'
// own definitions, as a dry run. Each kind comes with its schema and its rules.
func TestGatewaysManifests(t *testing.T) {
	var files []string
	for module, patterns := range definitions {
		for _, pattern := range patterns {
			found, err := filepath.Glob(filepath.Join(moduleDir(t, module), pattern))
			if err != nil || len(found) == 0 {
				t.Fatalf("%s has no %s: %v", module, pattern, err)
			}
			files = append(files, found...)
		}
	}
	if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{Scheme: env.Client.Scheme(), Paths: files, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shop", "istio-ingress", namespace} {
		makeNamespace(t, name, nil)
	}
	makeServiceAccount(t, "default")
	for file, want := range map[string]int{"envoy-gateway.md": 10, "istio.md": 4, "gateway-api.md": 4} {
		applied := 0
		for _, o := range parse(t, manifestsOf(t, file)) {
			applied++
			if isNamespaced(t, o) && o.GetNamespace() == "" {
				o.SetNamespace("default")
			}
			if err := apply(t, o); err != nil {
				t.Errorf("%s: %s: %v", file, title(o), err)
			}
		}
		if applied != want {
			t.Errorf("%s has %d objects, not %d: are they written in another way?", file, applied, want)
		}
	}
	for _, wrong := range []struct{ file, change, to, want string }{ // that the server would see an error
		{"envoy-gateway.md", "failOpen: false", "failOpne: false", "failOpne"},
		{"envoy-gateway.md", "type: Value, value: acme/route", "type: Value", "Exactly one of value or valueRef"},
		{"istio.md", "action: CUSTOM", "action: CUSTM", "action"},
		{"gateway-api.md", "protocol: HTTP\n        backendRef", "protocol: GRPC\n        backendRef", "grpc must be specified"},
	} {
		text := manifestsOf(t, wrong.file)
		changed := strings.ReplaceAll(text, wrong.change, wrong.to)
		refused := false
		for _, o := range parse(t, changed) {
			if isNamespaced(t, o) && o.GetNamespace() == "" {
				o.SetNamespace("default")
			}
			if err := apply(t, o); err != nil && strings.Contains(err.Error(), wrong.want) {
				refused = true
			}
		}
		if !refused {
			t.Errorf("%s with %q is taken", wrong.file, wrong.to)
		}
	}
}

// TestGatewaysValues gives the chart the values of the page about the Gateway API.
func TestGatewaysValues(t *testing.T) {
	text, err := os.ReadFile("../../docs/gateways/gateway-api.md")
	if err != nil {
		t.Fatal(err)
	}
	values, err := page.Find(page.Blocks(string(text), "yaml"), "# edge.values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "edge.values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := template("--values=" + file)(t); !strings.Contains(out, "dns: edge.shop") || !strings.Contains(out, "--http-client-ca=") {
		t.Error("the chart does not open the port as the page says")
	}
}

// manifestsOf returns the objects of a page about a gateway, as one text.
func manifestsOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/gateways/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, block := range page.Blocks(string(text), "yaml") {
		if strings.HasPrefix(block, "apiVersion: ") {
			all = append(all, block)
		}
	}
	return strings.Join(all, "---\n")
}

// moduleDir returns the folder of a module, and downloads it if it is missing.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = "../../gateways/manifests"
	out, err := cmd.Output()
	var got struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &got); jsonErr != nil || got.Dir == "" {
		t.Fatalf("%s: %v %v %s", module, err, jsonErr, got.Error)
	}
	return got.Dir
}
