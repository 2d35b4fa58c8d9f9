package instrument_test

import "slices"

// module builds binaries for tests.
type module struct {
	types    [][]byte
	imports  [][]byte
	funcs    []fn
	tables   [][]byte
	memory   []byte // limits
	globals  [][]byte
	exports  [][]byte
	start    []byte
	elements [][]byte
	count    []byte
	data     [][]byte
	custom   []byte
}

type fn struct {
	typ    int
	locals []byte // groups, with their count
	body   []byte // without the last end
}

const (
	i32, i64, v128, empty = 0x7f, 0x7e, 0x7b, 0x40
	end                   = 0x0b
)

func u(n int) []byte {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func s(n int64) []byte {
	var b []byte
	for n < -64 || n > 63 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n)&0x7f)
}

// cat joins bytes, numbers and slices.
func cat(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case []byte:
			b = append(b, p...)
		case string:
			b = append(b, p...)
		}
	}
	return b
}

func vec(items ...[]byte) []byte { return append(u(len(items)), slices.Concat(items...)...) }

func text(t string) []byte { return cat(u(len(t)), t) }

func typ(params, results []byte) []byte {
	return cat(0x60, u(len(params)), params, u(len(results)), results)
}

func exported(name string, kind, index int) []byte { return cat(text(name), kind, u(index)) }

// repeat returns b n times.
func repeat(n int, b ...byte) []byte { return slices.Repeat(b, n) }

func constI32(n int64) []byte { return cat(0x41, s(n)) }

func (m module) bytes() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id int, content []byte) { out = append(out, cat(id, u(len(content)), content)...) }
	list := func(id int, items [][]byte) {
		if len(items) > 0 {
			section(id, vec(items...))
		}
	}
	var types, bodies [][]byte
	for _, f := range m.funcs {
		types = append(types, u(f.typ))
		locals := f.locals
		if locals == nil {
			locals = []byte{0}
		}
		body := cat(locals, f.body, end)
		bodies = append(bodies, cat(u(len(body)), body))
	}
	list(1, m.types)
	list(2, m.imports)
	list(3, types)
	list(4, m.tables)
	if m.memory != nil {
		section(5, cat(1, m.memory))
	}
	list(6, m.globals)
	list(7, m.exports)
	if m.start != nil {
		section(8, m.start)
	}
	list(9, m.elements)
	if m.count != nil {
		section(12, m.count)
	}
	list(10, bodies)
	list(11, m.data)
	return append(out, m.custom...)
}

// single is a module with one exported function "f".
func single(params, results, locals, body []byte) module {
	return module{
		types: [][]byte{typ(params, results)}, funcs: []fn{{0, locals, body}}, exports: [][]byte{exported("f", 0, 0)},
		memory: []byte{0, 1},
	}
}
