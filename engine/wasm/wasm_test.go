package wasm_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// bump is an allocator that never frees: it is enough for one call. Global 0 is where the next bytes are.
var bump = fn{export: "scriptorium_alloc", typ: "i32 > i32", code: `
	global.get 0
	global.get 0 local.get 0 i32.add global.set 0`}

const bumpStart = "i32 4096"

// pack ends a function that has an address and a length on the stack.
const echo = `local.get 0 i64.extend_i32_u i64.const 32 i64.shl local.get 1 i64.extend_i32_u i64.or`

// handle returns a module with a function handle.
func handle(code string) guest {
	return guest{globals: []string{bumpStart}, funcs: []fn{bump, {export: "handle", typ: "i32 i32 > i64", locals: "i32 i32 i64", code: code}}}
}

func newEngine(tb testing.TB) *wasm.Engine {
	tb.Helper()
	e, err := wasm.New(wasm.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func compile(tb testing.TB, e *wasm.Engine, code []byte, reuse bool) engine.Program {
	tb.Helper()
	src := engine.Source{Code: code}
	src.Runtime.Wasm.Reuse = reuse
	p, err := e.Compile(src)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

func invocation(args ...string) *engine.Invocation {
	inv := &engine.Invocation{Tenant: "acme"}
	inv.Limits.Timeout = script.MaxLimits().Timeout // the machine may be busy
	for _, arg := range args {
		inv.Args = append(inv.Args, []byte(arg))
	}
	return inv
}

// run returns the result, "" if there is none.
func run(tb testing.TB, p engine.Program, inv *engine.Invocation) (string, error) {
	tb.Helper()
	var res engine.Result
	err := p.Run(tb.Context(), inv, &res)
	if err != nil && res.Len() > 0 {
		tb.Errorf("after an error there are %d results", res.Len())
	}
	if res.Len() == 0 {
		return "", err
	}
	return string(res.Value(0)), err
}

func want(tb testing.TB, p engine.Program, inv *engine.Invocation, result string) {
	tb.Helper()
	got, err := run(tb, p, inv)
	if err != nil {
		tb.Errorf("Run: %v", err)
	} else if got != result {
		tb.Errorf("result is %.200s, want %s", got, result)
	}
}

func TestEcho(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		p := compile(t, newEngine(t), handle(echo).bytes(t), reuse)
		for range 3 {
			want(t, p, invocation(`{"a":[1,"é"]}`), `{"a":[1,"é"]}`)
			want(t, p, invocation(` [ 1 ] `), `[1]`)
			want(t, p, invocation(), `null`)
		}
	}
}
