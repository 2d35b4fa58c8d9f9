package manifest_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
)

// FuzzSign: of manifests that can be read, the signatures change and nothing else.
func FuzzSign(f *testing.F) {
	const head = "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: a}\n"
	for _, text := range []string{
		head + "spec:\n  tenantId: acme\n  source: return 1\n",
		head + "spec:\n  # a comment\n\n  tenantId: acme # é\n  source: |\n    return 1\n",
		head + "spec: {tenantId: acme, source: 'é'}\n",
		head + "spec: &x\n    tenantId: acme\n    source: a\n    signature: 'b'\n",
		head + "spec:\n  signature: \"b\"\n  tenantId: acme\n  source: a\n",
		"---\n" + head + "spec: {tenantId: acme, source: a}\n---\n---\n" + strings.Replace(head, "a}", "b}", 1) + "spec:\n  source: a\n  tenantId: acme\n",
		strings.ReplaceAll(head+"spec:\n  tenantId: acme\n  source: a\n", "\n", "\r\n"),
		`{"apiVersion":"scriptorium.dev/v1alpha1","kind":"LuaScript","metadata":{"name":"a"},"spec":{"tenantId":"acme","source":"a"}}`,
	} {
		f.Add("m.yaml", text)
		f.Add("m.json", text)
	}
	const signature = `{"payload":"a+/=","signatures":[]}`
	f.Fuzz(func(t *testing.T, name, text string) {
		if name != "m.json" {
			name = "m.yaml"
		}
		before, err := manifest.Parse(name, []byte(text), t.TempDir())
		if err != nil {
			return
		}
		signed, err := manifest.Sign(name, []byte(text), t.TempDir(), func(*manifest.Manifest) (string, error) { return signature, nil })
		if err != nil {
			if strings.Contains(text, "signature") {
				return // as somebody else wrote it
			}
			t.Fatalf("%q cannot be signed: %v", text, err)
		}
		after, err := manifest.Parse(name, signed, t.TempDir())
		if err != nil || len(after) != len(before) {
			t.Fatalf("%q became %q: %v", text, signed, err)
		}
		for i := range after {
			if after[i].Signature != signature {
				t.Errorf("%q became %q, which is signed %q", text, signed, after[i].Signature)
			}
			if before[i].Statement() != after[i].Statement() {
				t.Errorf("%q became %q, which says something else", text, signed)
			}
		}
	})
}
