package sdk_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/wasm"
	"github.com/scriptorium-dev/scriptorium/internal/sdkbuild"
)

// config is the config of examples/scripts/route.yaml.
const config = `{"default":"web","beta":"web-beta","routes":[
	{"prefix":"/api/cart","upstream":"cart"},{"prefix":"/api","upstream":"api"},{"prefix":"/static","upstream":"cdn"}]}`

// routed are requests with their upstreams.
var routed = []struct{ request, upstream string }{
	{`{"method":"GET","path":"/api/cart","headers":{}}`, "cart-blue"}, // a value moves it
	{`{"method":"GET","path":"/api/cart/7","headers":{"x-beta":"yes"}}`, "cart-blue"},
	{`{"path":"/api/orders","headers":{"x-beta":"yes"}}`, "api"},
	{`{"path":"\/static\u002fa.css","query":"path=/api"}`, "cdn"},
	{`{"path":"/","headers":{"accept":["a","b"],"x-beta":"yes"}}`, "web-beta"},
	{`{"path":"/","headers":{"x-beta":["yes","no"]}}`, "web-beta"},
	{` { "path" : "/api", "headers" : { "x-beta" : "no" }, "path" : "/" } `, "web"},
	{`{"path":"/é\ud83d\ude00"}`, "web"},
	{`{}`, "web"},
}

// TestRoute runs the example in all languages, and its twin in Lua.
func TestRoute(t *testing.T) {
	check := func(t *testing.T, program engine.Program) {
		t.Helper()
		host := &enginetest.Host{Values: map[string]map[string]string{tenant: {"upstreams/cart": "cart-blue", "upstreams/other": "x"}}}
		for _, r := range routed {
			result, err := call(t, program, host, config, r.request)
			if err != nil {
				t.Errorf("%s: %v", r.request, err)
				continue
			}
			var got any
			if err := json.Unmarshal([]byte(result), &got); err != nil {
				t.Fatalf("%s: %s: %v", r.request, result, err)
			}
			if d := cmp.Diff(any(map[string]any{"upstream": r.upstream}), got); d != "" {
				t.Errorf("%s: %s", r.request, d)
			}
		}
	}
	e := newEngine(t)
	for _, language := range sdkbuild.Languages() {
		t.Run(language, func(t *testing.T) {
			for _, v := range variants(t, e, language, "route") {
				t.Run(v.name, func(t *testing.T) { check(t, v.program) })
			}
		})
	}
	t.Run("lua", func(t *testing.T) {
		code, err := os.ReadFile("testdata/route.lua")
		if err != nil {
			t.Fatal(err)
		}
		program, err := lua.New().Compile(engine.Source{Code: code, Entrypoint: "handle"})
		if err != nil {
			t.Fatal(err)
		}
		check(t, program)
	})
}

// TestManifest reads the example for WebAssembly, whose tests pass and whose config is the one of the example in Lua.
func TestManifest(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../examples/wasm/route.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"route.yaml": text, "route.wasm": sdkbuild.Module(t, "rust", "route")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, inLua := load(t, filepath.Join(dir, "route.yaml")), load(t, "../examples/scripts/route.yaml")
	for _, other := range []string{string(inLua.Settings.Config), config} {
		if d := cmp.Diff(decode(t, string(m.Settings.Config)), decode(t, other)); d != "" {
			t.Errorf("configs differ: %s", d)
		}
	}
	if m.Engine != wasm.Name || !m.Settings.Runtime.Wasm.Reuse || m.Settings.Limits.WasmMemory != 4<<20 || len(m.Settings.Tests) == 0 {
		t.Fatalf("the manifest reads as %+v", m.Settings)
	}
	program, err := newEngine(t).Compile(engine.Source{Code: m.Source, Entrypoint: m.Entrypoint, Runtime: m.Settings.Runtime})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, test := range m.Settings.Tests {
		result, err := call(t, program, &enginetest.Host{}, string(m.Settings.Config), string(test.Request))
		if err != nil {
			t.Errorf("%s: %v", test.Name, err)
			continue
		}
		if d := cmp.Diff(decode(t, string(test.Expect)), decode(t, result)); d != "" {
			t.Errorf("%s: %s", test.Name, d)
		}
	}
}

func load(t *testing.T, file string) manifest.Manifest {
	t.Helper()
	manifests, err := manifest.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return manifests[0]
}

func TestHello(t *testing.T) {
	e := newEngine(t)
	for _, language := range sdkbuild.Languages() {
		t.Run(language, func(t *testing.T) {
			for _, v := range variants(t, e, language, "hello") {
				got, err := call(t, v.program, &enginetest.Host{}, "", `{"remote_addr":"192.0.2.7"}`)
				if want := `{"headers":{"set":{"x-hello":"hello 192.0.2.7"}}}`; err != nil || got != want {
					t.Errorf("%s: got %s, %v", v.name, got, err)
				}
			}
		})
	}
}

// TestSizes holds what the pages promise of the modules' sizes.
func TestSizes(t *testing.T) {
	most := map[string]int{"go": 3 << 20, "rust": 100 << 10, "assemblyscript": 50 << 10, "c": 100 << 10}
	for _, language := range sdkbuild.Languages() {
		t.Run(language, func(t *testing.T) {
			size := len(sdkbuild.Module(t, language, "route"))
			t.Logf("%d bytes", size)
			if size > most[language] {
				t.Errorf("the example has %d bytes: at most %d", size, most[language])
			}
		})
	}
}
