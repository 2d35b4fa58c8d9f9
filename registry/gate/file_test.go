package gate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry/gate"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gates.yaml")
	const text = `
sources:
- name: main
  prometheus: https://prometheus.monitoring:9090/prefix
  tokenFile: /etc/token
  caFile: /etc/ca.crt
  tenants: [acme, team-*]
- {name: ci, webhook: "http://127.0.0.1:8080/gate?who=registry", insecurePlaintext: true, tenants: ["*"]}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := gate.Load(path)
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	main, ci := list[0], list[1]
	if main.Name != "main" || main.Kind != script.Prometheus || main.URL.String() != "https://prometheus.monitoring:9090/prefix" || main.TokenFile != "/etc/token" || main.CAFile != "/etc/ca.crt" ||
		!main.Tenants.Matches("team-a") || main.Tenants.Matches("shop") {
		t.Errorf("%+v", main)
	}
	if ci.Name != "ci" || ci.Kind != script.Webhook || ci.URL.RawQuery != "who=registry" || !ci.Tenants.All() {
		t.Errorf("%+v", ci)
	}
	if _, err := gate.Load(path + "x"); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), path+"x: cannot be read") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestFaultsOfFiles(t *testing.T) {
	one := func(fields string) string { return "sources: [{" + fields + "}]" }
	for text, want := range map[string]string{
		"":                                    "sources: there are 0",
		"sources: []":                         "sources: there are 0",
		"sources: 5":                          "cannot be read: ",
		"source: []":                          "cannot be read: ",
		"sources: []\n---\nsources: []":       "has more than one YAML document",
		one("name: a, prometheus: https://p"): `sources[0].tenants: is missing: name the tenants that may use it, or write ["*"] for all`,
		one("prometheus: https://p"):          "sources[0].name: must not be empty",
		one("name: A, prometheus: https://p"): "sources[0].name: ",
		one("name: a, tenants: [a]"):          "sources[0]: want the URL of a prometheus or of a webhook",
		one("name: a, kind: prometheus"):      "cannot be read: ",
		one("name: a, tenants: [a], prometheus: https://p, webhook: https://p"):                       "sources[0]: want the URL",
		one("name: a, tenants: [A], prometheus: https://p"):                                           "sources[0]: tenants: ",
		one("name: a, tenants: [a], prometheus: p:9090"):                                              `sources[0].prometheus: "p:9090" is no URL`,
		one("name: a, tenants: [a], prometheus: https://"):                                            "sources[0].prometheus: ",
		one("name: a, tenants: [a], webhook: 'file:///etc/passwd'"):                                   "sources[0].webhook: ",
		one("name: a, tenants: [a], webhook: 'https://bob:secret@p'"):                                 "sources[0].webhook: has a user: put a bearer token into a file",
		one("name: a, tenants: [a], webhook: 'https://p/#a'"):                                         "sources[0].webhook: ends with a query or a fragment",
		one("name: a, tenants: [a], prometheus: 'https://p/?a=b'"):                                    "sources[0].prometheus: ends with a query or a fragment",
		one("name: a, tenants: [a], prometheus: 'http://p'"):                                          "sources[0].prometheus: is not encrypted, and whoever is on the way decides what goes live",
		one("name: a, tenants: [a], prometheus: 'http://p', insecurePlaintext: true, caFile: ca.crt"): "sources[0].prometheus: is not encrypted, so caFile has no use",
		"sources: [" + strings.Repeat("{name: a, tenants: [a], webhook: 'https://p'},", 33) + "]":     "sources: there are 33: want 1 to 32",
		strings.Repeat("#", 1<<20+1):                                                                  "has 1048577 bytes",
	} {
		if _, err := gate.Parse([]byte(text)); script.KindOf(err) != script.Invalid || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.100s: %v, want %s", text, err, want)
		}
	}
}

// FuzzFile: whatever the file says, what comes of it are sources with addresses and tenants.
func FuzzFile(f *testing.F) {
	f.Add([]byte("sources: [{name: a, tenants: [a, b-*], prometheus: 'https://p/q', tokenFile: t, caFile: c}]"))
	f.Add([]byte("sources: [{name: a, tenants: ['*'], webhook: 'http://p/q', insecurePlaintext: true}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := gate.Parse(data)
		if err != nil && script.KindOf(err) != script.Invalid {
			t.Fatalf("an error of another kind: %v", err)
		}
		for _, d := range list {
			if d.URL.Host == "" || d.URL.User != nil || d.URL.Scheme != "https" && d.URL.Scheme != "http" {
				t.Fatalf("the source %s is at %s", d.Name, d.URL)
			}
		}
	})
}
