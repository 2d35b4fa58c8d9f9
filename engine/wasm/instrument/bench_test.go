package instrument_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
)

// kernels are small functions f(n i32).
func kernels() map[string][]byte {
	p := []byte{i32}
	count := cat(0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0)
	large := func(m module) []byte { m.memory = cat(0, u(64)); return m.bytes() }
	return map[string][]byte{
		"tight loop": single(p, nil, cat(1, 1, i32), cat(0x03, empty, 0x20, 1, 0x20, 0, 0x6a, 0x21, 1, count, end)).bytes(),
		"hash loop": single(p, nil, cat(1, 1, i32), cat(0x03, empty,
			0x20, 0, constI32(0xfff0), 0x71, 0x28, 2, 0, 0x20, 1, 0x73, constI32(16777619), 0x6c, 0x21, 1,
			0x20, 1, 0x41, 15, 0x76, 0x20, 1, 0x73, 0x21, 1,
			0x20, 0, constI32(0xfff0), 0x71, 0x20, 1, 0x36, 2, 0, count, end)).bytes(),
		"calls":       single(p, nil, nil, cat(0x20, 0, 0x04, empty, repeat(2, 0x20, 0, 0x41, 1, 0x6b, 0x10, 0), end)).bytes(),
		"copy 1 KiB":  large(single(p, nil, nil, cat(0x03, empty, 0x41, 0, constI32(1<<20), constI32(1<<10), 0xfc, 10, 0, 0, count, end))),
		"copy 64 KiB": large(single(p, nil, nil, cat(0x03, empty, 0x41, 0, constI32(1<<20), constI32(1<<16), 0xfc, 10, 0, 0, count, end))),
	}
}

// overhead reports how much longer the fastest call takes with meters than without, and with writes tracked, too. It calls
// all in turns, so that a busy machine slows all. An empty argument is for a function of one number.
func overhead(b *testing.B, code []byte, function string, arg uint64, text []byte) {
	b.Helper()
	h := newHost(b)
	h.slice = 1_000_000
	h.imports(b, code)
	variants := [][]byte{code}
	for _, track := range []bool{false, true} {
		m, err := instrument.Rewrite(code, instrument.Options{MaxMemoryPages: 16_384, TrackWrites: track})
		if err != nil {
			b.Fatal(err)
		}
		variants = append(variants, m.Code)
	}
	fastest, calls := make([]time.Duration, len(variants)), make([]func() error, len(variants))
	for i, code := range variants {
		h.left.Store(1 << 50)
		mod, err := h.runtime.InstantiateWithConfig(b.Context(), code, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
		if err != nil {
			b.Fatal(err)
		}
		calls[i], fastest[i] = caller(b, mod, function, arg, text), time.Hour
	}
	for b.Loop() {
		for i, call := range calls {
			h.left.Store(1 << 50)
			start := time.Now()
			if err := call(); err != nil {
				b.Fatal(err)
			}
			fastest[i] = min(fastest[i], time.Since(start))
		}
	}
	for i, name := range []string{"original", "metered", "tracked"} {
		b.ReportMetric(float64(fastest[i].Nanoseconds()), "ns-"+name)
		b.ReportMetric(float64(fastest[i])/float64(fastest[0]), "ratio-"+name)
	}
	b.ReportMetric(0, "ns/op")
}

// caller returns a call of the function, whose argument is the number, or the place of the text.
func caller(b *testing.B, mod api.Module, function string, arg uint64, text []byte) func() error {
	b.Helper()
	f, alloc := mod.ExportedFunction(function), mod.ExportedFunction("scriptorium_alloc")
	gas, _ := mod.ExportedGlobal(instrument.GasName).(api.MutableGlobal) // the original has none
	stack := make([]uint64, 2)
	return func() error {
		if gas != nil {
			gas.Set(0)
		}
		if stack[0] = arg; text != nil {
			stack[0] = uint64(len(text))
			if err := alloc.CallWithStack(b.Context(), stack[:1]); err != nil {
				return err
			}
			mod.Memory().Write(uint32(stack[0]), text)
			stack[1] = uint64(len(text))
		}
		return f.CallWithStack(b.Context(), stack)
	}
}

// imports provides what the module imports: WASI, and functions of the engine that return nothing.
func (h *host) imports(b *testing.B, code []byte) {
	b.Helper()
	wasi_snapshot_preview1.MustInstantiate(b.Context(), h.runtime)
	compiled, err := h.runtime.CompileModule(b.Context(), code)
	if err != nil {
		b.Fatal(err)
	}
	own := h.runtime.NewHostModuleBuilder("scriptorium")
	for _, f := range compiled.ImportedFunctions() {
		if module, name, _ := f.Import(); module == "scriptorium" {
			nothing := api.GoFunc(func(_ context.Context, stack []uint64) { clear(stack) })
			own.NewFunctionBuilder().WithGoFunction(nothing, f.ParamTypes(), f.ResultTypes()).Export(name)
		}
	}
	if _, err := own.Instantiate(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkKernels compares small functions with and without meters.
func BenchmarkKernels(b *testing.B) {
	rounds := map[string]uint64{"tight loop": 100_000, "hash loop": 30_000, "calls": 13, "copy 1 KiB": 1_000, "copy 64 KiB": 20}
	for name, code := range kernels() {
		b.Run(name, func(b *testing.B) { overhead(b, code, "f", rounds[name], nil) })
	}
}

// BenchmarkProgram compares code of Go's compiler with and without meters.
func BenchmarkProgram(b *testing.B) {
	code := program(b, "-buildmode=c-shared")
	for i, name := range []string{"sha256", "json", "sort", "regexp", "recursion"} {
		b.Run(name, func(b *testing.B) { overhead(b, code, "work", uint64(i), nil) })
	}
}

// BenchmarkModules compares the modules of the SDK for Rust with and without meters.
func BenchmarkModules(b *testing.B) {
	for _, name := range []string{"route", "transform"} {
		b.Run(name, func(b *testing.B) {
			code, err := os.ReadFile("../../../sdk/out/rust/" + name + ".wasm")
			if err != nil {
				b.Skipf("it needs make sdk: %v", err)
			}
			text, err := os.ReadFile("../../../loadtest/engines/testdata/" + name + ".json")
			if err != nil {
				b.Fatal(err)
			}
			overhead(b, code, "handle", 0, text)
		})
	}
}

// BenchmarkRewrite is the rewriter itself.
func BenchmarkRewrite(b *testing.B) {
	code := program(b)
	b.SetBytes(int64(len(code)))
	b.ReportAllocs()
	for b.Loop() {
		rewrite(b, code)
	}
}
