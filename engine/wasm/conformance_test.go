package wasm_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/wasm"
)

// give ends a function with an address and a length that are constants.
func give(address, length string) string {
	return "i64.const " + address + " i64.const 32 i64.shl i64.const " + length + " i64.or"
}

// dialect holds modules for engine/enginetest.
func dialect(tb testing.TB) enginetest.Dialect {
	tb.Helper()
	text := func(g guest) string { return string(g.bytes(tb)) }
	with := func(imports, code string, data map[int]string) string {
		g := handle(code)
		if imports != "" {
			g.imports = []string{imports}
		}
		g.data = data
		return text(g)
	}
	count := handle(`
		global.get 1 i32.const 1 i32.add global.set 1
		i32.const 100 global.get 1 i32.const 48 i32.add i32.store8 0 ` + give("100", "1"))
	count.globals = append(count.globals, "i32 0")
	// Divisions that wait for each other: machine code would use up all instructions within the tests' timeouts otherwise.
	spin := "loop t i32.const 200 i32.const 200 i32.load 0 " + strings.Repeat("i32.const 7 i32.div_u ", 8) + "i32.store 0 br 0 end"
	load := handle(echo)
	load.funcs = append(load.funcs, fn{typ: ">", code: spin})
	load.start = 2
	return enginetest.Dialect{
		Name: "wasm", OneArgument: true, Opaque: true,

		Echo:     text(handle(echo)),
		Constant: with("", give("100", "2"), map[int]string{100: "42"}),
		Count:    text(count),
		Config: with("scriptorium config i32 i32 > i32", `
			i32.const 20000 i32.const 1000 call 0 i64.extend_i32_u i64.const 20000 i64.const 32 i64.shl i64.or`, nil),
		Fail: with("scriptorium fail i32 i32 >", "i32.const 100 i32.const 4 call 0 i64.const 0", map[int]string{100: "boom"}),

		Spin:     with("", spin+" i64.const 0", nil),
		Recurse:  with("", "local.get 0 local.get 1 call 1", nil),
		SpinLoad: text(load),

		Repeat: with("", `
			i32.const 0 local.set 2
			loop t ;; the number
				local.get 2 i32.const 10 i32.mul local.get 0 i32.load8_u 0 i32.const 48 i32.sub i32.add local.set 2
				local.get 0 i32.const 1 i32.add local.set 0
				local.get 1 i32.const 1 i32.sub local.tee 1 br_if 0
			end
			i32.const 20000 i32.const 120 local.get 2 i32.const 2 i32.add memory.fill
			i32.const 20000 i32.const 34 i32.store8 0
			local.get 2 i32.const 34 i32.store8 20001
			i64.const 20000 i64.const 32 i64.shl local.get 2 i32.const 2 i32.add i64.extend_i32_u i64.or`, nil),
		Unencodable: with("", give("100", "2"), map[int]string{100: "{]"}),

		Log: with("scriptorium log i32 i32 i32 >",
			"i32.const 0 local.get 0 i32.const 1 i32.add local.get 1 i32.const 2 i32.sub call 0 i64.const 0", nil),
		Value: with("scriptorium kv_get i32 i32 i32 i32 > i32", `
			local.get 0 i32.const 1 i32.add local.get 1 i32.const 2 i32.sub i32.const 20001 i32.const 1000 call 0 local.tee 2
			i32.const -1 i32.eq if t `+give("100", "4")+` return end
			i32.const 20000 i32.const 34 i32.store8 0
			local.get 2 i32.const 34 i32.store8 20001
			i64.const 20000 i64.const 32 i64.shl local.get 2 i32.const 2 i32.add i64.extend_i32_u i64.or`, map[int]string{100: "null"}),
		Tally: with("scriptorium counter_add i32 i32 f64 > f64", `
			i32.const 200 i32.const 100 i32.const 5 f64.const 1 call 0 i32.trunc_f64_u i32.const 48 i32.add i32.store8 0
			`+give("200", "1"), map[int]string{100: "calls"}),
		Take: with("scriptorium ratelimit_take i32 i32 f64 f64 f64 > f64", `
			i32.const 100 i32.const 5 f64.const 1 f64.const 0.001 f64.const 2 call 0 f64.const 0 f64.eq
			if t `+give("200", "4")+` return end `+give("300", "5"), map[int]string{100: "calls", 200: "true", 300: "false"}),

		Broken:       "\x00asm\x01\x00\x00\x00\x01\x7f",
		NoEntrypoint: text(guest{globals: []string{bumpStart}, funcs: []fn{bump}}),
	}
}

func TestConformance(t *testing.T) {
	for name, config := range map[string]wasm.Config{"compiled": {}, "interpreted": {Interpreter: true}} {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func() engine.Engine {
				e, err := wasm.New(config)
				if err != nil {
					t.Fatal(err)
				}
				return e
			}, dialect(t))
		})
	}
}

// reusing is an engine whose programs all reuse their instances.
type reusing struct{ *wasm.Engine }

func (e reusing) Compile(src engine.Source) (engine.Program, error) {
	src.Runtime.Wasm.Reuse = true
	return e.Engine.Compile(src)
}

func TestConformanceWithReuse(t *testing.T) {
	enginetest.Run(t, func() engine.Engine { return reusing{newEngine(t)} }, dialect(t))
}
