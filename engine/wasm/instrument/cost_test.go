package instrument_test

import (
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
	"github.com/scriptorium-dev/scriptorium/script"
)

// costly are modules that are cheap to send and dear to compile.
func costly() map[string][]byte {
	many := func(n int, body []byte) []byte {
		m := single(nil, nil, nil, body)
		for range n {
			m.funcs = append(m.funcs, m.funcs[0])
		}
		return m.bytes()
	}
	set := func(l int) []byte { return cat(constI32(int64(l)), 0x21, u(l)) }
	body := func(n int, part ...any) []byte { return repeat(n, cat(part...)...) }
	var setAll []byte
	for l := range 900 {
		setAll = append(setAll, set(l)...)
	}
	locals := cat(1, u(990), i32)
	// blocks with sets of different locals
	var phis, loops []byte
	for i := range 4000 {
		phis = append(phis, cat(0x20, 0, 0x04, empty, set(i%900), 0x0b)...)
		loops = append(loops, cat(0x03, empty, 0x20, u(i%900), 0x21, u((i+1)%900), 0x20, 0, 0x0d, 0, 0x0b)...)
	}
	nestedLoops := cat(setAll, repeat(3000, 0x03, empty), 0x20, 0, 0x21, 1, repeat(3000, 0x0b))
	brTable := cat(0x41, 0, 0x0e, u(20000), repeat(20000, 0), 0)
	var brBlocks []byte
	brBlocks = append(brBlocks, repeat(5000, 0x02, empty)...)
	labels := []byte{}
	for i := range 5000 {
		labels = append(labels, u(i)...)
	}
	brBlocks = append(brBlocks, cat(0x20, 0, 0x0e, u(5000), labels, 0)...)
	for range 5000 {
		brBlocks = append(brBlocks, 0x0b, 0x01)
	}
	adds := body(35000, 0x20, 0, 0x20, 0, 0x6a, 0x21, 0)
	pressure := cat(body(5000, 0x20, 0, 0x28, 2, 0), body(4999, 0x6a), 0x1a)
	calls := module{types: [][]byte{typ(nil, nil)}, funcs: []fn{{0, nil, nil}, {0, nil, body(100000, 0x10, 0)}}, exports: [][]byte{exported("f", 0, 1)}}
	for range 100 {
		calls.globals = append(calls.globals, cat(i32, 1, 0x41, 0, end))
	}
	return map[string][]byte{
		"empty functions": many(49000, nil),
		"small functions": many(49000, cat(0x41, 1, 0x1a, 0x01)),
		"locals":          single([]byte{i32}, nil, locals, setAll).bytes(),
		"phis":            single([]byte{i32}, nil, locals, cat(setAll, phis)).bytes(),
		"loops":           single([]byte{i32}, nil, locals, cat(setAll, loops)).bytes(),
		"nested loops":    single([]byte{i32}, nil, locals, nestedLoops).bytes(),
		"br_table":        single([]byte{i32}, nil, nil, brTable).bytes(),
		"br_table blocks": single([]byte{i32}, nil, nil, brBlocks).bytes(),
		"nested blocks":   single([]byte{i32}, nil, nil, cat(repeat(9000, 0x02, empty), repeat(9000, 0x0b))).bytes(),
		"nested ifs":      single([]byte{i32}, nil, nil, cat(repeat(9000, 0x20, 0, 0x04, empty), repeat(9000, 0x0b))).bytes(),
		"adds":            single([]byte{i32}, nil, nil, adds).bytes(),
		"pressure":        single([]byte{i32}, nil, nil, pressure).bytes(),
		"calls, globals":  calls.bytes(),
		"many br_if":      single([]byte{i32}, nil, nil, cat(0x02, empty, body(50000, 0x20, 0, 0x0d, 0), 0x0b)).bytes(),
		"grow":            single([]byte{i32}, nil, nil, body(50000, 0x20, 0, 0x40, 0, 0x1a)).bytes(),
		"many loads":      single([]byte{i32}, nil, nil, body(40000, 0x20, 0, 0x28, 2, 0, 0x1a)).bytes(),
	}
}

// TestCost: modules that are dear to compile are refused, or compile. Those that took the runtime longest are named.
func TestCost(t *testing.T) {
	for name, code := range costly() {
		t.Run(name, func(t *testing.T) {
			m, err := instrument.Rewrite(code, options)
			if err != nil {
				if script.KindOf(err) != script.Limit {
					t.Fatal(err)
				}
				return
			}
			if slices.Contains([]string{"many br_if", "calls, globals", "loops", "phis", "nested ifs"}, name) {
				t.Error("it is taken")
			}
			if len(m.Code) > 16*len(code)+4096 {
				t.Errorf("%d bytes become %d", len(code), len(m.Code))
			}
			h := newHost(t)
			compiled, err := h.runtime.CompileModule(t.Context(), m.Code)
			if err != nil {
				t.Fatal(err)
			}
			compiled.Close(t.Context())
		})
	}
}
