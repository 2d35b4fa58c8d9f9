package instrument_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
	"github.com/scriptorium-dev/scriptorium/script"
)

// table is a table of functions with the limits' bytes, and an element segment that puts functions 0 to n-1 there.
func withTable(m module, n int) module {
	m.tables = [][]byte{cat(0x70, 0, u(n))}
	var functions [][]byte
	for i := range n {
		functions = append(functions, u(i))
	}
	m.elements = [][]byte{cat(0, 0x41, 0, end, vec(functions...))}
	return m
}

// endless are modules whose function f does not return by itself.
func endless() map[string]module {
	p := []byte{i32}
	mutual := single(nil, nil, nil, cat(0x41, 1, 0x11, 0, 0))
	mutual.funcs = append(mutual.funcs, fn{0, nil, cat(0x41, 0, 0x11, 0, 0)})
	tree := single(p, nil, nil, cat(0x20, 0, 0x04, empty, repeat(8, 0x20, 0, 0x41, 1, 0x6b, 0x10, 0), end))
	pages := cat(0x41, 0, 0x41, 0, constI32(60<<16))
	big := func(body []byte) module {
		m := single(nil, nil, nil, cat(constI32(100), 0x40, 0, 0x1a, 0x03, empty, body, 0x0c, 0, end))
		m.data, m.count = [][]byte{cat(1, u(60000), make([]byte, 60000))}, []byte{1}
		return m
	}
	grown := withTable(single(nil, nil, nil, cat(0x03, empty, 0xd0, 0x70, 0x41, 1, 0xfc, 15, 0, 0x1a, 0x0c, 0, end)), 1)
	start := single(nil, nil, nil, cat(0x03, empty, 0x0c, 0, end))
	return map[string]module{
		"loop":           start,
		"loop of nops":   single(nil, nil, nil, cat(0x03, empty, repeat(9, 0x01), 0x0c, 0, end)),
		"br_if":          single(nil, nil, nil, cat(0x03, empty, 0x41, 1, 0x0d, 0, end)),
		"br_table":       single(nil, nil, nil, cat(0x03, empty, 0x02, empty, 0x41, 5, 0x0e, 2, 1, 0, 1, end, end)),
		"loop with if":   single(p, nil, nil, cat(0x03, empty, 0x20, 0, 0x04, empty, 0x01, 0x05, 0x01, end, 0x0c, 0, end)),
		"nested loops":   single(nil, nil, nil, cat(repeat(100, 0x03, empty), 0x0c, 50, repeat(100, end))),
		"tree of calls":  tree,
		"memory.grow":    single(nil, nil, nil, cat(0x03, empty, 0x41, 1, 0x40, 0, 0x1a, 0x0c, 0, end)),
		"huge grow":      single(nil, nil, nil, cat(0x03, empty, 0x41, 0x7f, 0x40, 0, 0x1a, 0x0c, 0, end)),
		"table.grow":     grown,
		"memory.fill":    big(cat(pages, 0xfc, 11, 0)),
		"memory.copy":    big(cat(pages, 0xfc, 10, 0, 0)),
		"memory.init":    big(cat(0x41, 0, 0x41, 0, constI32(60000), 0xfc, 8, 0, 0)),
		"dead code":      single(nil, nil, nil, cat(0x03, empty, 0x0c, 0, 0x03, empty, 0x0c, 0, end, end)),
		"mutual calls":   withTable(mutual, 2),
		"recursion":      single(nil, nil, nil, cat(0x10, 0)),
		"deep with args": single(p, p, nil, cat(0x20, 0, 0x10, 0, 0x41, 1, 0x6a)),
	}
}

// TestEndless: all that does not end by itself ends when there is no more gas, or no more stack, and has used about
// what it was given.
func TestEndless(t *testing.T) {
	const budget = 2_000_000
	for name, m := range endless() {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.left.Store(budget)
			mod := h.instantiate(t, m.bytes())
			args := make([]uint64, len(mod.ExportedFunction("f").Definition().ParamTypes()))
			for i := range args {
				args[i] = 100
			}
			_, _, err := call(t, mod, 0, "f", args...)
			deep := int32(global(mod, instrument.StackName).Get()) < 0
			switch name {
			case "mutual calls", "recursion", "deep with args":
				if !deep || err == nil || !strings.Contains(err.Error(), "unreachable") {
					t.Errorf("stack ended: %v, %v", deep, err)
				}
			default:
				if !errors.Is(err, errGas) || deep {
					t.Errorf("%v, stack ended: %v", err, deep)
				}
			}
		})
	}
}

// TestStart: what runs when a module is instantiated is metered, too.
func TestStart(t *testing.T) {
	m := endless()["loop"]
	m.start = []byte{0}
	h := newHost(t)
	h.left.Store(1_000_000)
	rewritten := rewrite(t, m.bytes())
	if !rewritten.HasStart {
		t.Error("no start")
	}
	if _, err := h.runtime.Instantiate(t.Context(), rewritten.Code); !errors.Is(err, errGas) {
		t.Error(err)
	}
}

// frames are functions that recur and want large frames.
func frames() map[string]module {
	var locals, alive, stacked, phis []byte
	for l := 1; l < 900; l++ {
		locals = append(locals, cat(0x20, 0, constI32(int64(l)), 0x6a, 0x21, u(l))...)
		alive = append(alive, cat(0x20, u(l), 0x6a)...)
		stacked = append(stacked, cat(0x20, 0, constI32(int64(l)), 0x6c)...)
	}
	for i := range 300 {
		phis = append(phis, cat(0x20, u(i%900), 0x04, empty)...)
		for j := range 30 {
			phis = append(phis, cat(0x20, u((i+j)%900), 0x41, 3, 0x6a, 0x21, u((i*7+j)%900))...)
		}
		phis = append(phis, 0x0b)
	}
	p, group := []byte{i32}, cat(1, u(899), i32)
	recur := cat(0x20, 0, 0x10, 0)
	var loops []byte
	for range 40 {
		loops = append(loops, cat(0x03, empty)...)
		for l := range 900 {
			loops = append(loops, cat(0x20, u(l), 0x21, u((l+1)%900))...)
		}
		loops = append(loops, cat(0x41, 0, 0x0d, 0, end)...)
	}
	return map[string]module{
		"small":          single(p, p, nil, recur),
		"locals":         single(p, p, group, cat(locals, recur, alive)),
		"stack":          single(p, p, nil, cat(stacked, recur, repeat(899, 0x6a))),
		"joins":          single(p, p, group, cat(locals, phis, recur, alive)),
		"loops":          single(p, p, group, cat(locals, loops, recur, alive)),
		"128 parameters": {types: [][]byte{typ(repeat(128, i64), repeat(64, i64))}, funcs: []fn{{0, nil, cat(params(128), 0x10, 0)}}, exports: [][]byte{exported("f", 0, 0)}},
		"vectors":        single(p, p, cat(1, u(899), v128), cat(vectors(), recur, 0x20, 1, 0xfd, 0x1b, 0, 0x6a)),
	}
}

func vectors() (b []byte) {
	for l := 1; l < 900; l++ {
		b = append(b, cat(0x20, 0, 0xfd, 0x11, 0x21, u(l))...)
	}
	for l := 1; l < 900; l++ {
		b = append(b, cat(0x20, u(l), 0x20, 1, 0xfd, 0xae, 1, 0x21, 1)...)
	}
	return b
}

func params(n int) (b []byte) {
	for i := range n {
		b = append(b, cat(0x20, u(i))...)
	}
	return b
}

// TestStack: whatever the frames are, recursion ends at the bound, and the runtime's stack has not grown by much more
// than it.
func TestStack(t *testing.T) {
	for name, m := range frames() {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.left.Store(1 << 40)
			mod := h.instantiate(t, m.bytes())
			f := mod.ExportedFunction("f")
			args := make([]uint64, max(len(f.Definition().ParamTypes()), len(f.Definition().ResultTypes())))
			global(mod, instrument.GasName).Set(1 << 60)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := f.CallWithStack(t.Context(), args)
			runtime.ReadMemStats(&after)
			if err == nil || int32(global(mod, instrument.StackName).Get()) >= 0 {
				t.Errorf("%v, %d bytes of stack left", err, int32(global(mod, instrument.StackName).Get()))
			}
			// The stack doubles when it grows, so all stacks together are less than twice the last.
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 8*instrument.DefaultStack {
				t.Errorf("the call allocated %d KiB", grown>>10)
			} else {
				t.Logf("%d KiB", grown>>10)
			}
		})
	}
}

// TestRefused are modules over bounds, and malformed ones.
func TestRefused(t *testing.T) {
	base := func() module { return single(nil, nil, nil, nil) }
	with := func(change func(*module)) []byte {
		m := base()
		change(&m)
		return m.bytes()
	}
	body := func(b ...any) []byte { return with(func(m *module) { m.funcs[0].body = cat(b...) }) }
	good := base().bytes()
	for name, test := range map[string]struct {
		code []byte
		kind script.Kind
		want string
	}{
		"empty":               {nil, script.Script, "no core WebAssembly module"},
		"component":           {[]byte("\x00asm\x0d\x00\x01\x00"), script.Script, "components"},
		"truncated":           {good[:len(good)-3], script.Script, "left"},
		"memory too large":    {with(func(m *module) { m.memory = cat(0, u(1025)) }), script.Limit, "limits.wasm.memory"},
		"shared memory":       {with(func(m *module) { m.memory = cat(3, 1, 1) }), script.Script, "shared"},
		"64-bit memory":       {with(func(m *module) { m.memory = cat(4, 1) }), script.Script, "64 bits"},
		"large table":         {with(func(m *module) { m.tables = [][]byte{cat(0x70, 0, u(70000))} }), script.Limit, "70000 elements"},
		"imported memory":     {with(func(m *module) { m.imports = [][]byte{cat(text("env"), text("memory"), 2, 0, 1)} }), script.Script, "is a memory"},
		"imported meter":      {with(func(m *module) { m.imports = [][]byte{cat(text("scriptorium_meter"), text("x"), 0, 0)} }), script.Script, "reserved"},
		"reserved export":     {with(func(m *module) { m.exports = [][]byte{exported("scriptorium:gas", 0, 0)} }), script.Script, "reserved"},
		"function of meter":   {body(0x10, 1), script.Script, "unknown function 1"},
		"helper in elements":  {with(func(m *module) { *m = withTable(*m, 1); m.elements[0][5] = 1 }), script.Script, "unknown function 1"},
		"global of meter":     {body(0x23, 0, 0x1a), script.Script, "unknown global 0"},
		"local of meter":      {body(0x20, 0, 0x1a), script.Script, "unknown local 0"},
		"type of meter":       {body(0x02, 1, 0x0b), script.Script, "unknown type 1"},
		"export of a helper":  {with(func(m *module) { m.exports = [][]byte{exported("g", 0, 1)} }), script.Script, "unknown function 1"},
		"start of a helper":   {with(func(m *module) { m.start = []byte{3} }), script.Script, "unknown function 3"},
		"atomics":             {body(0xfe, 0, 2, 0), script.Script, "threads"},
		"tail call":           {body(0x12, 0), script.Script, "tail calls"},
		"throw":               {body(0x08, 0), script.Script, "exceptions"},
		"relaxed vectors":     {body(0xfd, 0x80, 2), script.Script, "relaxed"},
		"label":               {body(0x0c, 1), script.Script, "unknown label"},
		"else without if":     {body(0x02, empty, 0x05, 0x0b), script.Script, "else without an if"},
		"many locals":         {with(func(m *module) { m.funcs[0].locals = cat(1, u(1<<31), i32) }), script.Limit, "locals"},
		"many labels":         {body(0x41, 0, 0x0e, u(1<<28), 0), script.Limit, "labels"},
		"nesting":             {body(repeat(10_001, 0x02, empty)), script.Limit, "nested"},
		"two memories":        {with(func(m *module) { m.memory = cat(0, 1, 0, 1) }), script.Script, "ends before"},
		"number too long":     {body(0x41, 0x80, 0x80, 0x80, 0x80, 0x10, 0x1a), script.Script, "too long"},
		"vectors of elements": {with(func(m *module) { m.exports = nil; m.custom = nil; m.elements = [][]byte{cat(1, 0, u(100000))} }), script.Script, "bytes are left"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := instrument.Rewrite(test.code, options)
			if err == nil || script.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v (%s), want %q (%s)", err, script.KindOf(err), test.want, test.kind)
			} else if !strings.Contains(err.Error(), "offset 0x") {
				t.Errorf("%v: no offset", err)
			}
		})
	}
	if _, err := instrument.Rewrite(good, options); err != nil {
		t.Error(err)
	}
}
