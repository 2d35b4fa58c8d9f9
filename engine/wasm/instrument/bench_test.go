package instrument_test

import (
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

// overhead reports how much longer the fastest call takes with meters than without. It calls both in turns, so that a
// busy machine slows both.
func overhead(b *testing.B, code []byte, function string, arg uint64) {
	b.Helper()
	h := newHost(b)
	h.slice = 1_000_000
	h.left.Store(1 << 50)
	wasi_snapshot_preview1.MustInstantiate(b.Context(), h.runtime)
	var fastest [2]time.Duration
	var functions [2]api.Function
	var gas api.MutableGlobal
	for i, code := range [][]byte{code, rewrite(b, code).Code} {
		mod, err := h.runtime.InstantiateWithConfig(b.Context(), code, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
		if err != nil {
			b.Fatal(err)
		}
		functions[i], fastest[i] = mod.ExportedFunction(function), time.Hour
		if i == 1 {
			gas = global(mod, instrument.GasName)
		}
	}
	for b.Loop() {
		for i, f := range functions {
			h.left.Store(1 << 50)
			gas.Set(0)
			start := time.Now()
			if _, err := f.Call(b.Context(), arg); err != nil {
				b.Fatal(err)
			}
			fastest[i] = min(fastest[i], time.Since(start))
		}
	}
	b.ReportMetric(float64(fastest[0].Nanoseconds()), "ns-original")
	b.ReportMetric(float64(fastest[1].Nanoseconds()), "ns-metered")
	b.ReportMetric(float64(fastest[1])/float64(fastest[0]), "ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkKernels compares small functions with and without meters.
func BenchmarkKernels(b *testing.B) {
	rounds := map[string]uint64{"tight loop": 100_000, "hash loop": 30_000, "calls": 13, "copy 1 KiB": 1_000, "copy 64 KiB": 20}
	for name, code := range kernels() {
		b.Run(name, func(b *testing.B) { overhead(b, code, "f", rounds[name]) })
	}
}

// BenchmarkProgram compares code of Go's compiler with and without meters.
func BenchmarkProgram(b *testing.B) {
	code := program(b, "-buildmode=c-shared")
	for i, name := range []string{"sha256", "json", "sort", "regexp", "recursion"} {
		b.Run(name, func(b *testing.B) { overhead(b, code, "work", uint64(i)) })
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
