package instrument_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
	"github.com/scriptorium-dev/scriptorium/script"
)

// seeds are small modules, valid ones of the specification's suite among them.
func seeds(tb testing.TB) [][]byte {
	tb.Helper()
	var all [][]byte
	for _, dir := range specSuites(tb) {
		files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
		if err != nil {
			tb.Fatal(err)
		}
		for i := 0; i < len(files); i += 60 {
			if code, err := os.ReadFile(files[i]); err == nil && len(code) < 4096 {
				all = append(all, code)
			}
		}
	}
	for _, m := range endless() {
		all = append(all, m.bytes())
	}
	return all
}

// mutate changes a module as a fuzzer of modules does: operations, immediates, order of sections, and the end.
func mutate(code []byte, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := append([]byte(nil), code...)
	for range r.IntN(4) {
		if len(b) < 12 {
			break
		}
		i := 8 + r.IntN(len(b)-8)
		switch r.IntN(6) {
		case 0:
			b[i] = byte(r.Uint32())
		case 1:
			b[i]++
		case 2: // another operation of the same type
			b[i] = byte(0x6a + r.IntN(15))
		case 3:
			j := 8 + r.IntN(len(b)-8)
			b[i], b[j] = b[j], b[i]
		case 4:
			b = swapSections(b, r)
		case 5:
			if r.IntN(4) == 0 {
				b = b[:i]
			}
		}
	}
	return b
}

// swapSections exchanges two sections that follow each other.
func swapSections(b []byte, r *rand.Rand) []byte {
	var starts []int
	for i := 8; i+1 < len(b) && b[i+1] < 0x80; i += 2 + int(b[i+1]) {
		starts = append(starts, i)
	}
	if len(starts) < 3 {
		return b
	}
	i := r.IntN(len(starts) - 2)
	x, y, z := starts[i], starts[i+1], starts[i+2]
	return cat(b[:x], b[y:z], b[x:y], b[z:])
}

// FuzzRewrite: a module that the runtime takes is refused with an error of the script, or is taken when rewritten, too,
// and all its functions end with the gas that they get.
func FuzzRewrite(f *testing.F) {
	for i, code := range seeds(f) {
		f.Add(code, uint64(i))
	}
	f.Fuzz(func(t *testing.T, code []byte, seed uint64) { checkRewrite(t, mutate(code, seed)) })
}

func checkRewrite(t *testing.T, code []byte) {
	t.Helper()
	if len(code) > 16<<10 {
		return
	}
	m, err := instrument.Rewrite(code, instrument.Options{MaxMemoryPages: 64})
	if kind := script.KindOf(err); err != nil && kind != script.Script && kind != script.Limit {
		t.Fatalf("%s: %v", kind, err)
	}
	if err != nil {
		return
	}
	h := newHost(t)
	h.left.Store(300_000)
	_, wantErr := h.runtime.CompileModule(t.Context(), code)
	compiled, err := h.runtime.CompileModule(t.Context(), m.Code)
	custom := wantErr != nil && (strings.Contains(wantErr.Error(), "section custom") || // it reads names; the rewriter drops faulty ones
		strings.Contains(wantErr.Error(), "custom section name")) // it wants content, too
	if (err == nil) != (wantErr == nil) && !custom {
		t.Fatalf("the original: %v, rewritten %v\n%x", wantErr, err, code)
	}
	if err != nil {
		return
	}
	for module, functions := range importsOf(m) {
		b := h.runtime.NewHostModuleBuilder(module)
		for name, typ := range functions {
			b = b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) {}), valueTypes(typ.Params), valueTypes(typ.Results)).Export(name)
		}
		if _, err := b.Instantiate(t.Context()); err != nil {
			return // a name that hosts cannot have
		}
	}
	mod, err := h.runtime.InstantiateModule(t.Context(), compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return
	}
	for name, e := range m.Exports {
		if e.Kind != instrument.Func {
			continue
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		h.left.Store(300_000)
		global(mod, instrument.GasName).Set(0)
		global(mod, instrument.StackName).Set(uint64(m.Stack))
		stack := make([]uint64, 512)
		err := mod.ExportedFunction(name).CallWithStack(ctx, stack)
		if err == nil && int32(global(mod, instrument.StackName).Get()) != m.Stack {
			t.Errorf("%s leaves %d bytes of stack of %d", name, int32(global(mod, instrument.StackName).Get()), m.Stack)
		}
		if left := h.left.Load(); left < -300_000 && !errors.Is(err, errGas) {
			t.Errorf("%s has used %d too much: %v", name, -left, err)
		}
		stop()
	}
}

func importsOf(m *instrument.Module) map[string]map[string]instrument.FuncType {
	modules := map[string]map[string]instrument.FuncType{}
	for _, i := range m.Imports {
		if modules[i.Module] == nil {
			modules[i.Module] = map[string]instrument.FuncType{}
		}
		modules[i.Module][i.Name] = i.Type
	}
	return modules
}

func valueTypes(types []instrument.ValueType) []api.ValueType {
	var out []api.ValueType
	for _, t := range types {
		out = append(out, api.ValueType(t))
	}
	return out
}

// TestMutations is FuzzRewrite for a while.
func TestMutations(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	all := seeds(t)
	for i := range uint64(400) {
		checkRewrite(t, mutate(all[i%uint64(len(all))], seed+i))
	}
}
