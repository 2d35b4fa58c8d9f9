package contexts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/contexts"
)

func load(t *testing.T, text string) (*contexts.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return contexts.Load(path)
}

// TestFaults: each has its line, and none repeats what stands there, which may be a secret.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"contexts:\n- {name: a, token: hush}":                       "config.yaml:2: token: is not a field of the configuration",
		"contexts:\n- name: a\n  kube: hush":                        "config.yaml:3: cannot unmarshal !!str into",
		"contexts:\n- name: a\n- name: hush_":                       "config.yaml:3: contexts[1].name: ",
		"contexts:\n- {name: a, registry: 'r:1', kube: {}}":         "config.yaml:2: contexts[0].registry: and kube are two ways",
		"contexts:\n- {name: a, cert: c}":                           "config.yaml:2: contexts[0].cert: and key go together",
		"contexts:\n- {name: a, insecurePlaintext: true, kube: {}}": "config.yaml:2: contexts[0].insecurePlaintext: ",
		"currentContext: b\ncontexts:\n- {name: a}":                 `config.yaml: currentContext: there is no context "b": the configuration has a`,
		"contexts: []\n---\ncontexts: []":                           "config.yaml: has more than one document",
		"contexts: [":                                               "config.yaml:1: ",
	} {
		_, err := load(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush ") || strings.Contains(err.Error(), ": hush") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestRoundTrip: what is written reads the same, and an empty file is an empty configuration.
func TestRoundTrip(t *testing.T) {
	file, err := load(t, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []contexts.Context{{Name: "a", Registry: "r:1", TokenFile: "/t"}, {Name: "b", Kube: &contexts.Kube{Namespace: "n"}}, {Name: "a", Registry: "r:2"}} {
		if err := file.Set(c); err != nil {
			t.Fatal(err)
		}
	}
	file.Current = "b"
	data, err := file.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := load(t, string(data))
	if err != nil {
		t.Fatal(err)
	}
	a, b := again.Find("a"), again.Find("b")
	if len(again.Contexts) != 2 || a == nil || a.Registry != "r:2" || a.TokenFile != "" || b == nil || b.Kube.Namespace != "n" {
		t.Errorf("%s", data)
	}
	if err := again.Delete("b"); err != nil || again.Current != "" {
		t.Errorf("the current context is %q, %v", again.Current, err)
	}
}
