package wasm_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/scriptorium-dev/scriptorium/internal/sdkbuild"
)

// BenchmarkYardstick measures wazero alone, with the examples in Rust: no meter, no limits, nothing is reset.
// loadtest/engines runs it beside the engines, and reads its figures.
func BenchmarkYardstick(b *testing.B) {
	for _, task := range []string{"route", "transform"} {
		for _, fresh := range []bool{false, true} {
			name := "wazero alone, rust, one instance"
			if fresh {
				name = "wazero alone, rust, fresh"
			}
			b.Run(task+"/"+name, func(b *testing.B) { benchmarkWazero(b, task, fresh) })
		}
	}
}

// renewed is how many calls an instance serves: nothing gives back what they allocate.
const renewed = 1000

func benchmarkWazero(b *testing.B, task string, fresh bool) {
	b.Helper()
	code := sdkbuild.Module(b, "rust", task)
	read := func(name string) []byte {
		data, err := os.ReadFile("../../loadtest/engines/testdata/" + name)
		if err != nil {
			b.Fatal(err)
		}
		return data
	}
	argument := read(task + ".json")
	r := wazero.NewRuntime(b.Context())
	defer r.Close(b.Context())
	bareHost(b, r, read("config.json"))
	compiled, err := r.CompileModule(b.Context(), code)
	if err != nil {
		b.Fatal(err)
	}
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize")
	var mod api.Module
	served, stack := 0, make([]uint64, 2)
	timed(b, func() {
		if mod == nil || fresh || served == renewed {
			if mod != nil {
				_ = mod.Close(b.Context())
			}
			if mod, err = r.InstantiateModule(b.Context(), compiled, config); err != nil {
				b.Fatal(err)
			}
			served = 0
		}
		served++
		stack[0] = uint64(len(argument))
		if err := mod.ExportedFunction("scriptorium_alloc").CallWithStack(b.Context(), stack); err != nil {
			b.Fatal(err)
		}
		mod.Memory().Write(uint32(stack[0]), argument)
		stack[1] = uint64(len(argument))
		if err := mod.ExportedFunction("handle").CallWithStack(b.Context(), stack); err != nil {
			b.Fatal(err)
		}
		if out, ok := mod.Memory().Read(uint32(stack[0]>>32), uint32(stack[0])); !ok || len(out) == 0 {
			b.Fatal("no result")
		}
	})
}

// bareHost has what the examples import.
func bareHost(b *testing.B, r wazero.Runtime, config []byte) {
	b.Helper()
	give := func(text []byte) func(api.Module, uint32, uint32) uint32 {
		return func(m api.Module, buffer, capacity uint32) uint32 {
			m.Memory().Write(buffer, text[:min(len(text), int(capacity))])
			return uint32(len(text))
		}
	}
	value := give([]byte("cart-blue"))
	_, err := r.NewHostModuleBuilder("scriptorium").
		NewFunctionBuilder().WithFunc(func(_ context.Context, m api.Module, buffer, capacity uint32) uint32 {
		return give(config)(m, buffer, capacity)
	}).Export("config").
		NewFunctionBuilder().WithFunc(func(_ context.Context, m api.Module, _, _, buffer, capacity uint32) uint32 {
		return value(m, buffer, capacity)
	}).Export("kv_get").
		NewFunctionBuilder().WithFunc(func(uint32, uint32, uint32) {}).Export("log").
		NewFunctionBuilder().WithFunc(func(uint32, uint32) {}).Export("fail").
		Instantiate(b.Context())
	if err != nil {
		b.Fatal(err)
	}
}

// timed reports the processor time of a call, as the kernel counts it, and latencies.
func timed(b *testing.B, call func()) {
	b.Helper()
	call()
	var took []time.Duration
	report, last := cpu(b), time.Now()
	for b.Loop() {
		call()
		now := time.Now()
		took = append(took, now.Sub(last))
		last = now
	}
	report()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[(len(took)-1)*99/100]), "p99-ns")
}
