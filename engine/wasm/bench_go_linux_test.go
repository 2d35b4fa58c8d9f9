package wasm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
)

// BenchmarkGoGuest runs JSON of 1 KiB through a guest in Go.
func BenchmarkGoGuest(b *testing.B) {
	code := goGuest(b)
	b.Logf("%d bytes", len(code))
	arg := `{"echo":{"list":[` + strings.Repeat(`{"name":"value","n":12345},`, 36) + `null]}}`
	for _, reuse := range []bool{true, false} {
		b.Run(fmt.Sprintf("reuse=%v", reuse), func(b *testing.B) {
			p := compile(b, newEngine(b), code, reuse)
			inv := goInvocation(arg)
			var used engine.Used
			inv.Used = &used
			var res engine.Result
			if err := p.Run(b.Context(), inv, &res); err != nil {
				b.Fatal(err)
			}
			defer cpu(b)()
			for b.Loop() {
				res.Reset()
				if err := p.Run(b.Context(), inv, &res); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(used.Instructions), "instructions")
		})
	}
	for _, c := range []struct {
		name string
		opt  instrument.Options
	}{{name: "bare"}, {"metered", instrument.Options{MaxMemoryPages: 1024}}, {"tracked", instrument.Options{MaxMemoryPages: 1024, TrackWrites: true}}} {
		b.Run("wazero-"+c.name, func(b *testing.B) { benchmarkBare(b, code, arg, c.opt) })
	}
}

// benchmarkBare calls one instance again and again.
func benchmarkBare(b *testing.B, code []byte, arg string, opt instrument.Options) {
	b.Helper()
	ctx := b.Context()
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	must := func(_ any, err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(r.NewHostModuleBuilder("scriptorium").
		NewFunctionBuilder().WithFunc(func(uint32, uint32) uint32 { return 0 }).Export("config").
		NewFunctionBuilder().WithFunc(func(uint32, uint32, uint32, uint32) uint32 { return 0 }).Export("kv_get").Instantiate(ctx))
	must(r.NewHostModuleBuilder(instrument.MeterModule).NewFunctionBuilder().WithFunc(func(int64) int64 { return 20_000 }).Export(instrument.RefillName).Instantiate(ctx))
	if opt.MaxMemoryPages > 0 {
		m, err := instrument.Rewrite(code, opt)
		must(nil, err)
		code = m.Code
	}
	mod, err := r.InstantiateWithConfig(ctx, code, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	must(nil, err)
	alloc, handle := mod.ExportedFunction("scriptorium_alloc"), mod.ExportedFunction("handle")
	stack := make([]uint64, 2)
	call := func(f api.Function) { must(nil, f.CallWithStack(ctx, stack)) }
	defer cpu(b)()
	for b.Loop() {
		if g, ok := mod.ExportedGlobal(instrument.StackName).(api.MutableGlobal); ok {
			g.Set(instrument.DefaultStack)
		}
		stack[0] = uint64(len(arg))
		call(alloc)
		mod.Memory().WriteString(uint32(stack[0]), arg)
		stack[1] = uint64(len(arg))
		call(handle)
	}
}
