package wasm_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/scriptorium-dev/scriptorium/engine"
)

// large is a module of about 100 KB with 17 pages of memory, as Rust makes them: functions that nobody calls, data, and
// a handle that writes to its stack, to a static variable and to its heap before it returns its argument.
func large() guest {
	g := handle(`
		i32.const 1048000 local.get 1 i32.store 0      ;; the stack
		i32.const 1047000 local.get 0 i32.store 0
		i32.const 1049600 i32.const 1049600 i32.load 0 i32.const 1 i32.add i32.store 0 ;; a variable
		` + echo)
	g.globals = []string{"i32 1090000"}
	g.memory = []byte{0, 17}
	g.data = map[int]string{1048576: strings.Repeat("static data ", 2500)}
	filler := strings.Repeat("local.get 0 i32.const 12345 i32.mul i32.const 77 i32.add local.set 0 i32.const 64 local.get 0 i32.store 8\n", 17)
	for range 180 {
		g.funcs = append(g.funcs, fn{typ: "i32 >", code: filler})
	}
	for n := range 60 {
		g.elems = append(g.elems, 2+n)
	}
	g.tables = []byte{1, 0x70, 0, 64}
	return g
}

// cpu reports the processor time of each operation, which other processes on a busy machine do not change.
func cpu(b *testing.B) func() {
	b.Helper()
	now := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := now()
	return func() { b.ReportMetric(float64(now()-start)/float64(b.N), "cpu-ns/op") }
}

func BenchmarkCall(b *testing.B) {
	code := large().bytes(b)
	b.Logf("%d bytes", len(code))
	arg := `{"path":"/v1/users","headers":{"accept":"*/*"},"n":123}`
	for _, reuse := range []bool{true, false} {
		b.Run(fmt.Sprintf("reuse=%v", reuse), func(b *testing.B) {
			p := compile(b, newEngine(b), code, reuse)
			inv := invocation(arg)
			var res engine.Result
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				res.Reset()
				if err := p.Run(b.Context(), inv, &res); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("wazero", func(b *testing.B) {
		r := wazero.NewRuntime(b.Context())
		defer r.Close(b.Context())
		mod, err := r.Instantiate(b.Context(), code)
		if err != nil {
			b.Fatal(err)
		}
		alloc, handle := mod.ExportedFunction("scriptorium_alloc"), mod.ExportedFunction("handle")
		bump := mod.ExportedFunction("scriptorium_alloc")
		_ = bump
		b.ReportAllocs()
		defer cpu(b)()
		for b.Loop() {
			stack := []uint64{0, 0}
			if err := alloc.CallWithStack(b.Context(), stack); err != nil {
				b.Fatal(err)
			}
			mod.Memory().Write(1090000, []byte(arg))
			stack[0], stack[1] = 1090000, uint64(len(arg))
			if err := handle.CallWithStack(b.Context(), stack); err != nil {
				b.Fatal(err)
			}
			if out, ok := mod.Memory().Read(uint32(stack[0]>>32), uint32(stack[0])); !ok || len(out) != len(arg) {
				b.Fatal(out)
			}
		}
	})
	b.Run("wazero-fresh", func(b *testing.B) {
		r := wazero.NewRuntime(b.Context())
		defer r.Close(b.Context())
		compiled, err := r.CompileModule(b.Context(), code)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		defer cpu(b)()
		for b.Loop() {
			var mod api.Module
			if mod, err = r.InstantiateModule(b.Context(), compiled, wazero.NewModuleConfig().WithName("")); err != nil {
				b.Fatal(err)
			}
			stack := []uint64{0, 0}
			if err := mod.ExportedFunction("handle").CallWithStack(b.Context(), stack); err != nil {
				b.Fatal(err)
			}
			_ = mod.Close(b.Context())
		}
	})
}
