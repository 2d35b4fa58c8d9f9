package wasm_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestNothingSurvives leaves a mark in all that a call can write to, and looks for it in the next one.
func TestNothingSurvives(t *testing.T) {
	const (
		clean, dirty = 1024, 1032
		answer       = `local.set 2 %s
			i32.const 1032 i32.const 1024 local.get 2 select
			i64.extend_i32_u i64.const 32 i64.shl i64.const 7 i64.or`
	)
	far := 17*65536 - 4
	for name, c := range map[string]struct{ look, leave string }{
		"memory":       {"i32.const 200000 i32.load 0", "i32.const 200000 i32.const 1 i32.store 0"},
		"data":         {"i32.const 1040 i32.load8_u 0 i32.const 0x2e i32.eq i32.eqz", "i32.const 1040 i32.const 1 i32.store8 0"},
		"last byte":    {fmt.Sprintf("i32.const %d i32.load 0", far), fmt.Sprintf("i32.const %d i32.const 7 i32.store 0", far)},
		"offset":       {"i32.const 300004 i32.load 0", "i32.const 4 i32.const 1 i32.store 300000"},
		"across":       {"i32.const 8192 i32.load 0", "i32.const 8190 i64.const -1 i64.store 0"},
		"fill":         {"i32.const 400000 i32.load 0", "i32.const 350000 i32.const 1 i32.const 100000 memory.fill"},
		"fill all":     {"i32.const 1000000 i32.load 0", "i32.const 2000 i32.const 1 i32.const 1100000 memory.fill"},
		"copy":         {"i32.const 500000 i32.load 0", "i32.const 500000 i32.const 1024 i32.const 4 memory.copy"},
		"float":        {"i32.const 600004 i32.load8_u 3", "i32.const 600000 i32.const 3 f64.convert_i32_u f64.store 0"},
		"size":         {"memory.size 17 i32.eq i32.eqz", "i32.const 1 memory.grow drop"},
		"grown":        {"i32.const 2 memory.grow drop i32.const 1200000 i32.load 0", "i32.const 1200000 i32.const 1 i32.store 0"},
		"grown more":   {"i32.const 30 memory.grow drop i32.const 2900000 i32.load 0", "i32.const 2900000 i32.const 1 i32.store 0"},
		"global":       {"global.get 1", "i32.const 1 global.set 1"},
		"wide global":  {"global.get 2 i32.wrap_i64", "i64.const 1 global.set 2"},
		"bump pointer": {"global.get 0 i32.const 65540 i32.eq i32.eqz", ""},
		"table":        {"i32.const 1 i32.const 0 call_indirect 4", "i32.const 0 ref.func 3 table.set 0"},
		"argument":     {"i32.const 65600 i32.load 0", "i32.const 65600 local.get 0 i32.store 0"},
	} {
		t.Run(name, func(t *testing.T) {
			look := strings.ReplaceAll(c.look, "memory.size 17", "memory.size i32.const 17")
			g := handle(look + " " + fmt.Sprintf(answer, c.leave))
			g.memory, g.data = []byte{0, 17}, map[int]string{clean: `"clean"`, dirty: `"dirty"`, 1040: "."}
			g.globals = []string{"i32 65536", "i32 0", "i64 0"}
			g.funcs = append(g.funcs,
				fn{typ: "i32 > i32", code: "i32.const 0"}, fn{typ: "i32 > i32", code: "i32.const 1"}, fn{typ: "i32 > i32", code: "i32.const 1"})
			if name == "table" {
				g.tables, g.elems = []byte{1, 0x70, 0, 2}, []int{2, 3}
			}
			for _, reuse := range []bool{false, true} {
				p := compile(t, newEngine(t), g.bytes(t), reuse)
				for n := range 20 {
					inv := invocation(`0`) // 4 bytes from 65536 on, with what rounds it up
					inv.Args[0] = []byte("1234")
					got, err := run(t, p, inv)
					if err != nil || got != `"clean"` {
						t.Fatalf("reuse %v, call %d: %s, %v", reuse, n, got, err)
					}
				}
			}
		})
	}
}
