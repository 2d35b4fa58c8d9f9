package wasm_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// guest is a module that a test writes by hand.
type guest struct {
	imports []string // "module name type"
	memory  []byte   // limits; by default one page, without a maximum
	tables  []byte   // the content of the section
	globals []string // "i32 7": a mutable global with its value
	funcs   []fn     // after the imports
	start   int      // the function that starts it, -1 for none; 0 counts as none
	data    map[int]string
	elems   []int // functions in table 0
}

// fn is a function. Its code is instructions in WebAssembly's text format, in their flat form.
type fn struct {
	export string
	typ    string // "i32 i32 > i64"
	locals string // "i32 i64"
	code   string
}

var valueCodes = map[string]byte{"i32": 0x7f, "i64": 0x7e, "f32": 0x7d, "f64": 0x7c, "v128": 0x7b}

func u32(v int) []byte { return binary.AppendUvarint(nil, uint64(v)) }

func s64(v int64) (b []byte) {
	for v < -0x40 || v > 0x3f {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}

func vector(items ...[]byte) []byte {
	b := u32(len(items))
	for _, i := range items {
		b = append(b, i...)
	}
	return b
}

func sized(b []byte) []byte { return append(u32(len(b)), b...) }

func typeCode(tb testing.TB, typ string) []byte {
	tb.Helper()
	params, results, ok := strings.Cut(typ, ">")
	if !ok {
		tb.Fatalf("%q is no type", typ)
	}
	list := func(s string) (codes [][]byte) {
		for _, f := range strings.Fields(s) {
			codes = append(codes, []byte{valueCodes[f]})
		}
		return codes
	}
	return append(append([]byte{0x60}, vector(list(params)...)...), vector(list(results)...)...)
}

// bytes assembles the module.
func (g guest) bytes(tb testing.TB) []byte {
	tb.Helper()
	var types, imports, funcs, exports, codes, globals, data [][]byte
	addType := func(typ string) []byte {
		types = append(types, typeCode(tb, typ))
		return u32(len(types) - 1)
	}
	for _, i := range g.imports {
		parts := strings.SplitN(i, " ", 3)
		imports = append(imports, join(sized([]byte(parts[0])), sized([]byte(parts[1])), []byte{0}, addType(parts[2])))
	}
	exports = append(exports, join(sized([]byte("memory")), []byte{2, 0}))
	for n, f := range g.funcs {
		funcs = append(funcs, addType(f.typ))
		if f.export != "" {
			exports = append(exports, join(sized([]byte(f.export)), []byte{0}, u32(len(g.imports)+n)))
		}
		var locals [][]byte
		for _, l := range strings.Fields(f.locals) {
			locals = append(locals, []byte{1, valueCodes[l]})
		}
		codes = append(codes, sized(join(vector(locals...), assemble(tb, f.code), []byte{0x0b})))
	}
	for _, line := range g.globals {
		typ, value, _ := strings.Cut(line, " ")
		globals = append(globals, join([]byte{valueCodes[typ], 1}, assemble(tb, typ+".const "+value), []byte{0x0b}))
	}
	for at, text := range g.data {
		data = append(data, join([]byte{0}, assemble(tb, fmt.Sprint("i32.const ", at)), []byte{0x0b}, sized([]byte(text))))
	}
	if g.memory == nil {
		g.memory = []byte{0, 1}
	}
	b := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, content []byte) { b = join(b, []byte{id}, sized(content)) }
	section(1, vector(types...))
	section(2, vector(imports...))
	section(3, vector(funcs...))
	if g.tables != nil {
		section(4, g.tables)
	}
	section(5, join([]byte{1}, g.memory))
	section(6, vector(globals...))
	section(7, vector(exports...))
	if g.start > 0 {
		section(8, u32(g.start))
	}
	if g.elems != nil {
		var list [][]byte
		for _, e := range g.elems {
			list = append(list, u32(e))
		}
		section(9, join([]byte{1, 0, 0x41, 0, 0x0b}, vector(list...)))
	}
	section(10, vector(codes...))
	section(11, vector(data...))
	var names [][]byte
	for n, f := range g.funcs {
		if f.export != "" {
			names = append(names, join(u32(len(g.imports)+n), sized([]byte(f.export))))
		}
	}
	section(0, join(sized([]byte("name")), []byte{1}, sized(vector(names...))))
	return b
}

func join(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// opcodes with their immediates: u is an index, i and I are constants, t a block's type, m an offset with an alignment
// of 0, 0 a byte of zero.
var opcodes = map[string]struct {
	code       []byte
	immediates string
}{
	"unreachable": {[]byte{0x00}, ""}, "block": {[]byte{0x02}, "t"}, "loop": {[]byte{0x03}, "t"}, "if": {[]byte{0x04}, "t"},
	"else": {[]byte{0x05}, ""}, "end": {[]byte{0x0b}, ""}, "br": {[]byte{0x0c}, "u"}, "br_if": {[]byte{0x0d}, "u"}, "return": {[]byte{0x0f}, ""},
	"call": {[]byte{0x10}, "u"}, "call_indirect": {[]byte{0x11}, "u0"}, "drop": {[]byte{0x1a}, ""}, "select": {[]byte{0x1b}, ""},
	"local.get": {[]byte{0x20}, "u"}, "local.set": {[]byte{0x21}, "u"}, "local.tee": {[]byte{0x22}, "u"},
	"global.get": {[]byte{0x23}, "u"}, "global.set": {[]byte{0x24}, "u"}, "table.set": {[]byte{0x26}, "u"},
	"i32.load": {[]byte{0x28}, "m"}, "i64.load": {[]byte{0x29}, "m"}, "i32.load8_u": {[]byte{0x2d}, "m"},
	"i32.store": {[]byte{0x36}, "m"}, "i64.store": {[]byte{0x37}, "m"}, "i32.store8": {[]byte{0x3a}, "m"}, "f64.store": {[]byte{0x39}, "m"},
	"memory.size": {[]byte{0x3f}, "0"}, "memory.grow": {[]byte{0x40}, "0"},
	"i32.const": {[]byte{0x41}, "i"}, "i64.const": {[]byte{0x42}, "I"}, "i32.eqz": {[]byte{0x45}, ""}, "i32.eq": {[]byte{0x46}, ""}, "i32.lt_u": {[]byte{0x49}, ""},
	"i32.add": {[]byte{0x6a}, ""}, "i32.sub": {[]byte{0x6b}, ""}, "i32.mul": {[]byte{0x6c}, ""}, "i32.div_u": {[]byte{0x6e}, ""}, "i32.and": {[]byte{0x71}, ""},
	"i32.rem_u": {[]byte{0x70}, ""}, "i32.shl": {[]byte{0x74}, ""}, "i64.add": {[]byte{0x7c}, ""}, "i64.or": {[]byte{0x84}, ""}, "i64.shl": {[]byte{0x86}, ""},
	"i32.wrap_i64": {[]byte{0xa7}, ""}, "i64.extend_i32_u": {[]byte{0xad}, ""}, "f64.convert_i32_u": {[]byte{0xb8}, ""}, "ref.func": {[]byte{0xd2}, "u"},
	"i64.mul": {[]byte{0x7e}, ""}, "i64.shr_u": {[]byte{0x88}, ""}, "f32.demote_f64": {[]byte{0xb6}, ""}, "i64x2.splat": {[]byte{0xfd, 18}, ""},
	"i32.store16": {[]byte{0x3b}, "m"}, "i64.store8": {[]byte{0x3c}, "m"}, "i64.store16": {[]byte{0x3d}, "m"}, "i64.store32": {[]byte{0x3e}, "m"},
	"f32.store": {[]byte{0x38}, "m"}, "v128.store": {[]byte{0xfd, 11}, "m"},
	"ref.null": {[]byte{0xd0, 0x70}, ""}, "memory.copy": {[]byte{0xfc, 10, 0, 0}, ""}, "memory.fill": {[]byte{0xfc, 11, 0}, ""},
	"i32.trunc_f64_u": {[]byte{0xab}, ""}, "f64.const": {[]byte{0x44}, "F"}, "f64.eq": {[]byte{0x61}, ""},
}

// assemble translates instructions. Comments begin with ;; and end with the line.
func assemble(tb testing.TB, code string) (b []byte) {
	tb.Helper()
	var words []string
	for line := range strings.Lines(code) {
		line, _, _ = strings.Cut(line, ";;")
		words = append(words, strings.Fields(line)...)
	}
	next := func() string {
		if len(words) == 0 {
			tb.Fatalf("%q ends too early", code)
		}
		w := words[0]
		words = words[1:]
		return w
	}
	for len(words) > 0 {
		name := next()
		op, ok := opcodes[name]
		if !ok {
			tb.Fatalf("there is no instruction %q", name)
		}
		b = append(b, op.code...)
		for _, kind := range op.immediates {
			b = append(b, immediate(tb, kind, next)...)
		}
	}
	return b
}

func immediate(tb testing.TB, kind rune, next func() string) []byte {
	tb.Helper()
	if kind == '0' {
		return []byte{0}
	}
	word := next()
	switch kind {
	case 't':
		if code, ok := valueCodes[word]; ok {
			return []byte{code}
		}
		return []byte{0x40}
	case 'm':
		return append([]byte{0}, u32(number(tb, word))...)
	case 'u':
		return u32(number(tb, word))
	case 'F':
		f, err := strconv.ParseFloat(word, 64)
		if err != nil {
			tb.Fatal(err)
		}
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))
	}
	return s64(int64(number(tb, word)))
}

func number(tb testing.TB, word string) int {
	tb.Helper()
	n, err := strconv.ParseInt(word, 0, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return int(n)
}
