package wasm_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestContract(t *testing.T) {
	plain := func(change func(g *guest)) []byte {
		g := handle(echo)
		change(&g)
		return g.bytes(t)
	}
	imports := func(line string) []byte {
		return plain(func(g *guest) { g.imports = []string{line} })
	}
	httpCode := func(change func(g *guest)) []byte {
		g := httpGuest("i64.const 1", "set_uri i32 i32 >")
		change(&g)
		return g.bytes(t)
	}
	noMemory := strings.Replace(string(handle(echo).bytes(t)), "memory", "mamory", 1)
	for _, test := range []struct {
		name       string
		code       []byte
		entrypoint string
		library    bool
		want       string // in the error
		kind       script.Kind
	}{
		{name: "good", code: plain(func(*guest) {})},
		{name: "named entrypoint", code: plain(func(g *guest) { g.funcs[1].export = "route" }), entrypoint: "route"},
		{name: "all functions of the host", code: plain(func(g *guest) {
			g.imports = []string{
				"scriptorium log i32 i32 i32 >", "scriptorium fail i32 i32 >", "scriptorium config i32 i32 > i32", "scriptorium kv_get i32 i32 i32 i32 > i32",
				"scriptorium kv_keys i32 i32 i32 i32 i32 i32 i32 > i32", "scriptorium counter_add i32 i32 f64 > f64",
				"scriptorium ratelimit_take i32 i32 f64 f64 f64 > f64", "wasi_snapshot_preview1 path_open i32 i32 i32 i32 i32 i64 i64 i32 i32 > i32",
				"wasi_snapshot_preview1 sched_yield > i32", "wasi_snapshot_preview1 proc_exit i32 >",
			}
		})},
		{name: "no memory", code: []byte(noMemory), want: `no memory with the name "memory"`, kind: script.Script},
		{name: "no alloc", code: plain(func(g *guest) { g.funcs[0].export = "malloc" }), want: `no function "scriptorium_alloc" of type (i32) -> i32`, kind: script.Script},
		{name: "no contract", code: plain(func(g *guest) { g.funcs[0].export = "malloc" }), want: "as the contract of scriptorium says, or handle_request and handle_response, as the one of http-wasm does", kind: script.Script},
		{name: "both contracts' exports", code: plain(func(g *guest) {
			g.funcs = append(g.funcs, fn{export: "handle_request", typ: "> i64", code: "i64.const 1"})
		})},
		{name: "both contracts' imports", code: httpCode(func(g *guest) { g.imports = append(g.imports, "scriptorium fail i32 i32 >") }), want: `imports "fail" of "scriptorium": only functions of "http_handler" and "wasi_snapshot_preview1"`, kind: script.Script},
		{name: "http-wasm", code: httpCode(func(*guest) {})},
		{name: "http-wasm by handle", code: httpCode(func(*guest) {}), entrypoint: "handle"}, // what versions without an entrypoint have
		{name: "http-wasm by its name", code: httpCode(func(*guest) {}), entrypoint: "handle_request"},
		{name: "http-wasm by another name", code: httpCode(func(*guest) {}), entrypoint: "route", want: `a module of http-wasm is called by handle_request: remove spec.entrypoint`, kind: script.Script},
		{name: "http-wasm without imports", code: httpCode(func(g *guest) { g.imports = nil })},
		{name: "http-wasm command", code: httpCode(func(g *guest) { g.funcs = append(g.funcs, fn{export: "_start", typ: ">"}) })},
		{name: "http-wasm without handle_request", code: httpCode(func(g *guest) { g.funcs[0].export = "handle" }), want: `no function "handle_request" of type () -> i64`, kind: script.Script},
		{name: "http-wasm without handle_response", code: httpCode(func(g *guest) { g.funcs[1].export = "_start"; g.funcs[1].typ = ">" }), want: `no function "handle_response" of type (i32, i32): the handler ABI of http-wasm wants it`, kind: script.Script},
		{name: "type of handle_request", code: httpCode(func(g *guest) { g.funcs[0].typ, g.funcs[0].code = "> i32", "i32.const 0" }), want: `"handle_request" with the type () -> i32: it has to be () -> i64`, kind: script.Script},
		{name: "unknown function of http-wasm", code: httpCode(func(g *guest) { g.imports = []string{"http_handler set_trailer i32 >"} }), want: `imports "set_trailer" of "http_handler", which has no such function`, kind: script.Script},
		{name: "type of an import of http-wasm", code: httpCode(func(g *guest) { g.imports = []string{"http_handler get_uri i32 > i32"} }), want: `"get_uri" of "http_handler" with the type (i32) -> i32: it is (i32, i32) -> i32`, kind: script.Script},
		{name: "no entrypoint", code: plain(func(g *guest) { g.funcs[1].export = "run" }), want: `no function "handle" of type (i32, i32) -> i64`, kind: script.Script},
		{name: "command", code: plain(func(g *guest) { g.funcs[1].export = "_start" }), want: "build a reactor", kind: script.Script},
		{
			name: "type of the entrypoint", code: plain(func(g *guest) { g.funcs[1].typ, g.funcs[1].code = "i32 i32 > i32", "i32.const 0" }),
			want: `"handle" with the type (i32, i32) -> i32: it has to be (i32, i32) -> i64`, kind: script.Script,
		},
		{name: "type of on_response", code: plain(func(g *guest) { g.funcs = append(g.funcs, fn{export: "on_response", typ: ">"}) }), want: `"on_response" with the type ()`, kind: script.Script},
		{name: "type of _initialize", code: plain(func(g *guest) { g.funcs = append(g.funcs, fn{export: "_initialize", typ: "i32 >"}) }), want: `"_initialize" with the type (i32)`, kind: script.Script},
		{name: "import of others", code: imports("env abort >"), want: `imports "abort" of "env": only functions of "scriptorium" and "wasi_snapshot_preview1"`, kind: script.Script},
		{name: "unknown function", code: imports("scriptorium http_get >"), want: `imports "http_get" of "scriptorium", which has no such function`, kind: script.Script},
		{name: "type of an import", code: imports("scriptorium log i32 >"), want: `"log" of "scriptorium" with the type (i32): it is (i32, i32, i32)`, kind: script.Script},
		{name: "meter", code: imports("scriptorium_meter refill i64 > i64"), want: "reserved", kind: script.Script},
		{name: "too much memory", code: plain(func(g *guest) { g.memory = []byte{0, 0x82, 0x08} }), want: "limit", kind: script.Limit},
		{name: "library", code: plain(func(*guest) {}), library: true, want: "no libraries", kind: script.Script},
		{name: "types within a function", code: plain(func(g *guest) { g.funcs[1].code = "i32.const 1" }), want: "not valid WebAssembly", kind: script.Script},
		{name: "Lua", code: []byte("function handle() end"), want: "no core WebAssembly module", kind: script.Script},
		{name: "empty", want: "no core WebAssembly module", kind: script.Script},
	} {
		t.Run(test.name, func(t *testing.T) {
			src := engine.Source{Code: test.code, Entrypoint: test.entrypoint, Library: test.library}
			err := wasm.Checker{}.Check(src)
			if script.KindOf(err) != test.kind || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("Check: %v (%s), want %s with %q", err, script.KindOf(err), test.kind, test.want)
			}
			_, compileErr := newEngine(t).Compile(src)
			if (err == nil) != (compileErr == nil) || err != nil && err.Error() != compileErr.Error() {
				t.Errorf("Check says %v, Compile %v", err, compileErr)
			}
		})
	}
}

func TestOnResponse(t *testing.T) {
	g := handle(echo)
	e := newEngine(t)
	inv := invocation(`1`)
	inv.OnResponse = true
	if p := compile(t, e, g.bytes(t), false); p.OnResponse() {
		t.Error("a module without on_response has one")
	} else {
		want(t, p, inv, "")
	}
	g.funcs = append(g.funcs, fn{export: "on_response", typ: "i32 i32 > i64", code: give("100", "2")})
	g.data = map[int]string{100: "42"}
	p := compile(t, e, g.bytes(t), false)
	if !p.OnResponse() {
		t.Error("a module with on_response has none")
	}
	want(t, p, inv, "42")

	g = handle(echo)
	g.funcs = append(g.funcs, fn{export: "on_response", typ: "i32 i32 > i64", code: echo})
	p = compile(t, e, g.bytes(t), false)
	inv = invocation(`{"path":"/"}`, `{"status":500}`)
	inv.OnResponse = true
	want(t, p, inv, `{"request":{"path":"/"},"response":{"status":500}}`)
	want(t, p, invocation(`1`), "1")
}
