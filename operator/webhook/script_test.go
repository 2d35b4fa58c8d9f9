package webhook_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// answer42 is a WebAssembly module, in base64, that answers every call with 42.
const answer42 = "AGFzbQEAAAABDAJgAX8Bf2ACf38BfgMDAgABBQMBAAEHJwMGbWVtb3J5AgARc2NyaXB0b3JpdW1fYWxsb2MAAAZoYW5kbGUAAQoRAgUAQYAICwkAQoKAgIDADAsLCQEAQeQACwI0Mg=="

func scriptManifest(name, spec string) string {
	return strings.Replace(manifest(name, spec), "kind: LuaScript", "kind: Script", 1)
}

// TestScripts: the webhook compiles a Script in each language, and refuses what is wrong with its field.
func TestScripts(t *testing.T) {
	cleanUp(t)
	needTenant(t, "acme", "namespaces: [default]")
	noExport := base64.StdEncoding.EncodeToString([]byte("\x00asm\x01\x00\x00\x00"))
	for _, test := range []struct{ name, spec, says string }{
		{"in-lua", "source: function handle() end", "created"},
		{"in-wasm", "runtime: wasm\nscript: " + answer42, "created"},
		{"in-rego", "runtime: rego\nentrypoint: route/handle\nsource: |\n  package route\n  handle := 42\n", "created"},
		{"not-wasm", "runtime: wasm\nscript: " + answer42[:40], "spec.script: "},
		{"no-export", "runtime: wasm\nscript: " + noExport, "spec.script: "},
		{"not-rego", "runtime: rego\nentrypoint: route/handle\nsource: |\n  package route\n  handle := {\n", "spec.source: line "},
		{"not-lua", "source: function handle(", "spec.source: line 1, column 17: "},
		{"other-limit", "runtime: wasm\nlimits: {lua: {coroutines: true}}\nscript: " + answer42, "spec.limits.lua.coroutines"},
		{"other-options", "rego: {v0: true}\nsource: function handle() end", "spec.rego"},
	} {
		got := apply(t, scriptManifest(test.name, "tenantId: acme\n"+test.spec))
		want := fmt.Sprintf("The Script %q is invalid: %s", test.name, test.says)
		if test.says == "created" {
			want = "script.scriptorium.dev/" + test.name + " created"
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: kubectl says\n%s\nwant\n%s", test.name, got, want)
		}
	}
}

// TestRivalsOfTheOtherKind: the webhook warns of a Script that is the script of a LuaScript, in the same
// namespace, too.
func TestRivalsOfTheOtherKind(t *testing.T) {
	cleanUp(t)
	needTenant(t, "shared", "namespaces: ['*']")
	const spec = "tenantId: shared\nsource: function handle() end"
	if got := apply(t, manifest("same", spec)); got != "luascript.scriptorium.dev/same created" {
		t.Error(got)
	}
	const warning = "Warning: metadata.name: the LuaScript default/same is the script shared/same too: the one that was published first owns it, and the other one will stay Stalled"
	err := wait(t.Context(), func() error { // for the cache to know the first
		_, stderr, err := kube.Kubectl(t.Context(), scriptManifest("same", spec), "apply", "--dry-run=server", "-f", "-")
		if strings.TrimSpace(stderr) != warning {
			return fmt.Errorf("%q, %w", stderr, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
