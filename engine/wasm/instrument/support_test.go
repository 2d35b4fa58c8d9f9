package instrument_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
)

// options that most tests use.
var options = instrument.Options{MaxMemoryPages: 1024}

// host is what gives gas.
type host struct {
	runtime wazero.Runtime
	slice   int64
	left    atomic.Int64 // that refill may still give
	refills atomic.Int64
}

var errGas = errors.New("out of gas")

func newHost(tb testing.TB) *host {
	tb.Helper()
	h := &host{runtime: wazero.NewRuntimeWithConfig(tb.Context(), wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2)), slice: 100_000}
	tb.Cleanup(func() { h.runtime.Close(context.Background()) })
	_, err := h.runtime.NewHostModuleBuilder(instrument.MeterModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) {
			h.refills.Add(1)
			gas := int64(stack[0])
			for gas < 0 {
				if h.left.Load() <= 0 {
					panic(errGas)
				}
				h.left.Add(-h.slice)
				gas += h.slice
			}
			stack[0] = uint64(gas)
		}), []api.ValueType{api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).
		Export(instrument.RefillName).Instantiate(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// rewrite is Rewrite, with an error that fails the test.
func rewrite(tb testing.TB, code []byte) *instrument.Module {
	tb.Helper()
	m, err := instrument.Rewrite(code, options)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// instantiate rewrites and instantiates the module.
func (h *host) instantiate(tb testing.TB, code []byte) api.Module {
	tb.Helper()
	m := rewrite(tb, code)
	mod, err := h.runtime.InstantiateWithConfig(tb.Context(), m.Code, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { mod.Close(context.Background()) })
	return mod
}

func global(mod api.Module, name string) api.MutableGlobal {
	return mod.ExportedGlobal(name).(api.MutableGlobal)
}

// call runs an exported function with so much gas and returns what it used.
func call(tb testing.TB, mod api.Module, gas int64, name string, args ...uint64) (results []uint64, used int64, err error) {
	tb.Helper()
	global(mod, instrument.GasName).Set(uint64(gas))
	global(mod, instrument.StackName).Set(uint64(instrument.DefaultStack))
	results, err = mod.ExportedFunction(name).Call(tb.Context(), args...)
	return results, gas - int64(global(mod, instrument.GasName).Get()), err
}

func exitedWell(err error) bool {
	exit, ok := errors.AsType[*sys.ExitError](err)
	return ok && exit.ExitCode() == 0
}
