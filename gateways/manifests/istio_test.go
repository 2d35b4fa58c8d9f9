package manifests

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	"sigs.k8s.io/yaml"
)

// TestIstioPage reads the configurations of the page into Istio's messages, which have no other fields, and
// follows the names from the policy to the agent's socket.
func TestIstioPage(t *testing.T) {
	config := read(t, text(t, "extensionProviders:"), &mesh.MeshConfig{})
	policy := read(t, spec(t, "AuthorizationPolicy"), &security.AuthorizationPolicy{})
	entry := read(t, spec(t, "ServiceEntry"), &networking.ServiceEntry{})
	read(t, spec(t, "EnvoyFilter"), &networking.EnvoyFilter{})

	if len(config.GetExtensionProviders()) != 1 || policy.GetAction() != security.AuthorizationPolicy_CUSTOM {
		t.Fatalf("the page has the providers %v, and a policy with %v", config.GetExtensionProviders(), policy.GetAction())
	}
	provider := config.GetExtensionProviders()[0]
	if name := policy.GetProvider().GetName(); name != provider.GetName() {
		t.Errorf("the policy names the provider %s, the MeshConfig has %s", name, provider.GetName())
	}
	asks := provider.GetEnvoyExtAuthzHttp()
	if asks.GetFailOpen() || asks.GetStatusOnError() != "503" || !strings.HasPrefix(asks.GetPathPrefix(), "/v1/decide/") {
		t.Errorf("the provider is %v", asks)
	}
	for _, header := range asks.GetIncludeRequestHeadersInCheck() {
		if strings.HasPrefix(header, "x-forwarded-") || strings.HasPrefix(header, "x-original-") || strings.Contains(header, "*") {
			t.Errorf("a client chooses with %s what the script decides about", header)
		}
	}
	if want := "istio-ingress/" + entry.GetHosts()[0]; asks.GetService() != want || asks.GetPort() != entry.GetPorts()[0].GetNumber() {
		t.Errorf("the provider asks %s:%d, the ServiceEntry is %s:%d", asks.GetService(), asks.GetPort(), want, entry.GetPorts()[0].GetNumber())
	}
	// Istio takes Unix sockets with these alone: one port of the service, and none of the endpoint.
	if len(entry.GetPorts()) != 1 || len(entry.GetEndpoints()) != 1 || entry.GetResolution() != networking.ServiceEntry_STATIC || entry.GetEndpoints()[0].GetPorts() != nil {
		t.Errorf("Istio does not take the ServiceEntry %v", entry)
	}
	if got := entry.GetEndpoints()[0].GetAddress(); got != "unix:///run/scriptorium/http.sock" {
		t.Errorf("the ServiceEntry is %s", got)
	}
}

// text returns the one YAML of the page with the words in it.
func text(t *testing.T, words string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/gateways/istio.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, part := range strings.Split(string(page), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		for _, document := range strings.Split(block, "---\n") {
			if strings.Contains(document, words) {
				found = append(found, document)
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("the page has %d times YAML with %q", len(found), words)
	}
	return found[0]
}

// spec returns the spec of the page's object of that kind, as JSON.
func spec(t *testing.T, kind string) string {
	t.Helper()
	var object struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(text(t, "\nkind: "+kind+"\n")), &object); err != nil {
		t.Fatal(err)
	}
	return string(object.Spec)
}

func read[M proto.Message](t *testing.T, text string, m M) M {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(raw, m); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return m
}
