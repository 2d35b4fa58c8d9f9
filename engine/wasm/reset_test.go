package wasm_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
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
		"reference":    {"global.get 3 ref.is_null i32.eqz", "ref.func 3 global.set 3"},
		"table":        {"i32.const 1 i32.const 0 call_indirect 4", "i32.const 0 ref.func 3 table.set 0"},
		"argument":     {"i32.const 65600 i32.load 0", "i32.const 65600 local.get 0 i32.store 0"},
	} {
		t.Run(name, func(t *testing.T) {
			look := strings.ReplaceAll(c.look, "memory.size 17", "memory.size i32.const 17")
			g := handle(look + " " + fmt.Sprintf(answer, c.leave))
			g.memory, g.data = []byte{0, 17}, map[int]string{clean: `"clean"`, dirty: `"dirty"`, 1040: "."}
			g.globals = []string{"i32 65536", "i32 0", "i64 0", "funcref null"}
			g.funcs = append(g.funcs,
				fn{typ: "i32 > i32", code: "i32.const 0"}, fn{typ: "i32 > i32", code: "i32.const 1"}, fn{typ: "i32 > i32", code: "i32.const 1"})
			g.tables, g.elems = []byte{1, 0x70, 0, 2}, []int{2, 3}
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

// seeded returns what _initialize has left: the code leaves 4 bytes at 2000, which handle returns as letters.
func seeded(imports, code string) guest {
	g := handle(`
		i32.const 2001 i32.const 2000 i32.load8_u 0 i32.const 15 i32.and i32.const 97 i32.add i32.store8 100
		i32.const 2001 i32.const 2001 i32.load8_u 0 i32.const 15 i32.and i32.const 97 i32.add i32.store8 101
		i32.const 2001 i32.const 2002 i32.load8_u 0 i32.const 15 i32.and i32.const 97 i32.add i32.store8 102
		i32.const 2001 i32.const 2003 i32.load8_u 0 i32.const 15 i32.and i32.const 97 i32.add i32.store8 103
		i32.const 2100 i32.const 34 i32.store8 0 i32.const 2105 i32.const 34 i32.store8 0
		` + give("2100", "6"))
	g.imports = []string{imports}
	g.funcs = append(g.funcs, fn{export: "_initialize", typ: ">", code: code})
	return g
}

// TestInstancesAreOfOneTenant: an instance is made by what _initialize draws at random.
func TestInstancesAreOfOneTenant(t *testing.T) {
	code := seeded("wasi_snapshot_preview1 random_get i32 i32 > i32", "i32.const 2000 i32.const 4 call 0 drop").bytes(t)
	e := newEngine(t)
	p := compile(t, e, code, true)
	ask := func(p engine.Program, tenant string) string {
		inv := invocation()
		inv.Tenant = tenant
		got, err := run(t, p, inv)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	seen := map[string]string{}
	for range 3 {
		for n := range 20 {
			tenant := fmt.Sprint("tenant-", n)
			got := ask(p, tenant)
			if seen[tenant] == "" {
				seen[tenant] = got
			} else if seen[tenant] != got {
				t.Errorf("%s had an instance with %s, and then one with %s", tenant, seen[tenant], got)
			}
		}
	}
	values := map[string]bool{}
	for _, v := range seen {
		values[v] = true
	}
	if len(values) < 15 { // of 65,536 possible ones
		t.Errorf("20 tenants have only %d instances", len(values))
	}
	if p.Size() <= compile(t, newEngine(t), code, true).Size() {
		t.Error("the size does not count the instances that wait")
	}
	p.Close()
	if again := ask(p, "tenant-0"); again == seen["tenant-0"] {
		t.Error("a closed program has kept its instances")
	}
	fresh := compile(t, e, code, false)
	values = map[string]bool{}
	for range 20 {
		values[ask(fresh, "acme")] = true
	}
	if len(values) < 15 {
		t.Errorf("20 calls without reuse had only %d instances", len(values))
	}
}

// TestSetRandom: what a call draws is the call's, also if instances are reused.
func TestSetRandom(t *testing.T) {
	p := compile(t, newEngine(t), seeded("wasi_snapshot_preview1 random_get i32 i32 > i32", "i32.const 2000 i32.const 4 call 0 drop").bytes(t), true)
	results := map[string]bool{}
	for n := range uint64(40) {
		inv := invocation()
		inv.Random = rand.NewPCG(n/2, 1)
		got, err := run(t, p, inv)
		if err != nil {
			t.Fatal(err)
		}
		results[got] = true
	}
	if len(results) > 20 || len(results) < 15 {
		t.Errorf("20 seeds, twice each, led to %d results", len(results))
	}
}

// TestConfigInInitialize: an instance that has read the config of a call does not serve another one.
func TestConfigInInitialize(t *testing.T) {
	p := compile(t, newEngine(t), seeded("scriptorium config i32 i32 > i32", "i32.const 1998 i32.const 100 call 0 drop").bytes(t), true)
	for n := range 10 {
		inv := invocation()
		inv.Config = fmt.Appendf(nil, `{"%d":1}`, n)
		want(t, p, inv, fmt.Sprintf(`"%cckb"`, 'a'+n))
	}
}

// TestStacksOfIdleInstances: an instance whose call was nested deep keeps no more than others do.
func TestStacksOfIdleInstances(t *testing.T) {
	const tenants, most = 100, 256 << 10
	g := handle("local.get 1 call 2 drop i32.const 2000 i32.const 48 i32.store8 0 " + give("2000", "1"))
	g.funcs = append(g.funcs,
		fn{typ: "i32 > i32", code: "block t local.get 0 i32.eqz br_if 0 local.get 0 i32.const 1 i32.sub call 2 drop end i32.const 0"},
		fn{typ: ">", code: "loop t end"})
	for _, start := range []int{0, 3} {
		g.start = start
		p := compile(t, newEngine(t), g.bytes(t), true)
		for _, deep := range []int{10, 20_000} {
			inv := invocation(strings.Repeat("1", deep))
			inv.Tenant = fmt.Sprint("first-", deep)
			want(t, p, inv, "0")
			before := memtest.InUse()
			for n := range tenants {
				inv.Tenant = fmt.Sprint("tenant-", n, "-", deep)
				want(t, p, inv, "0")
			}
			if held := (memtest.InUse() - before) / tenants; held > most {
				t.Errorf("start function %d: an instance that has called %d functions in each other holds %d bytes, want at most %d", start, deep, held, most)
			}
		}
		p.Close()
	}
}

// hook is a host that calls a function for each line: while a call runs, others need instances, too.
type hook struct {
	enginetest.Host
	call func()
}

func (h *hook) Log(*engine.Invocation, engine.Level, string) { h.call() }

// TestMemoryLimitOfReusedInstances: a call has the memory that it may have, also if an instance had more for another one.
// Versions with other limits share a program, and a tenant's limits can change.
func TestMemoryLimitOfReusedInstances(t *testing.T) {
	g := handle("i32.const 0 i32.const 0 i32.const 1 call 0 i32.const 2000 memory.size i32.const 48 i32.add i32.store8 0 " +
		"i32.const 2001 i32.const 3000 i32.load8_u 0 i32.store8 0 " + give("2000", "2"))
	g.imports = []string{"scriptorium log i32 i32 i32 >"}
	g.funcs = append(g.funcs,
		fn{export: "_initialize", typ: ">", code: "i32.const 4 memory.grow drop"},
		fn{typ: ">", code: "i32.const 3000 i32.const 55 i32.store8 0"})
	g.start = 4
	p := compile(t, newEngine(t), g.bytes(t), true)
	host := &hook{call: func() {}}
	high, low := invocation(), invocation()
	high.Host, low.Host, low.Limits.WasmMemory = host, &hook{call: func() {}}, 2<<16
	for range 3 {
		want(t, p, high, "57") // pages, and what start has left
		want(t, p, low, "17")
	}
	host.call = func() { want(t, p, low, "17") }
	want(t, p, high, "57")
}

// TestStartThatDiffers: a start function may grow memory more in one instance than in the others. That instance keeps its memory.
func TestStartThatDiffers(t *testing.T) {
	g := handle("i32.const 0 i32.const 0 i32.const 1 call 0 i32.const 2001 i32.const 3001 i32.load8_u 0 i32.store8 0 " +
		"i32.const 2000 i32.const 3002 i32.load8_u 0 i32.store8 0 " + give("2000", "2"))
	g.imports = []string{"scriptorium log i32 i32 i32 >", "wasi_snapshot_preview1 random_get i32 i32 > i32"}
	g.funcs = append(g.funcs, fn{typ: ">", code: "i32.const 3000 i32.const 1 call 1 drop i32.const 3001 i32.const 55 i32.store8 0 " +
		"i32.const 3000 i32.load8_u 0 i32.const 1 i32.and memory.grow drop"})
	g.start, g.memory, g.data = 4, []byte{1, 1, 2}, map[int]string{3002: "5"}
	p := compile(t, newEngine(t), g.bytes(t), true)
	host := &hook{}
	inv := invocation()
	inv.Host = host
	for range 20 {
		nested := 0
		host.call = func() {
			if nested++; nested < 10 {
				want(t, p, inv, "57")
			}
		}
		want(t, p, inv, "57")
		p.Close()
		p = compile(t, newEngine(t), g.bytes(t), true)
	}
}
