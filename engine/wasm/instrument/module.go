package instrument

import (
	"slices"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Ids of sections.
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
)

// parser reads a module and collects the sections of the rewritten one. Indices of types, globals, tables, data and
// element segments stay; what the rewriter adds comes after them. Functions: the import of the meter comes after the
// module's imports, so that those that the module defines move by one.
type parser struct {
	opt Options
	r   reader
	m   *Module

	types     []FuncType
	funcTypes []uint32 // type of each function of the tenant's module, imports first
	imports   int
	tables    []ValueType
	globals   int
	mutable   []uint32
	start     int64 // function, or -1
	elements  int
	segments  int // of elements
	dataCount int64
	data      int
	bodies    int

	wraps    map[string]uint32 // types without parameters, by results
	added    []byte            // types
	nAdded   int
	out      [secDataCount + 1][]byte // contents of sections
	nameData []byte
	fn       function // is reused for all bodies
	source   []byte   // the whole module
	work     int      // for the runtime's compiler
}

func (p *parser) module() {
	r := &p.r
	if len(r.buf) > MaxModuleBytes {
		r.limit("the module has %d bytes: at most %d are allowed", len(r.buf), MaxModuleBytes)
		return
	}
	if string(r.bytes(min(8, r.left()))) != "\x00asm\x01\x00\x00\x00" {
		r.pos = 0
		r.fail("this is no core WebAssembly module of binary format 1 (components are not supported)")
		return
	}
	p.source = r.buf
	p.start, p.dataCount, p.wraps = -1, -1, map[string]uint32{}
	last := 0
	for r.more() {
		at := r.pos
		id := int(r.byte())
		size := int(r.u32())
		if r.err == nil && size > r.left() {
			r.failAt(at, script.Script, "section %d has %d bytes, and only %d are left", id, size, r.left())
		}
		if r.err != nil {
			return
		}
		if id != secCustom {
			if id > secDataCount {
				r.failAt(at, script.Script, "unknown section %d: exceptions and other proposals are not supported", id)
				return
			}
			if order(id) <= order(last) {
				r.failAt(at, script.Script, "section %d is in the wrong place or there twice", id)
				return
			}
			last = id
		}
		end := r.pos + size
		whole := r.buf
		r.buf = whole[:end]
		p.section(id)
		r.buf = whole
		if r.err == nil && r.pos != end {
			r.fail("section %d ends before its size says", id)
		}
	}
	p.finish()
}

// order is the place of a section in a module.
func order(id int) int {
	if id == secDataCount {
		return secCode*2 - 1
	}
	return id * 2
}

func (p *parser) section(id int) {
	switch id {
	case secCustom:
		p.custom()
	case secType:
		p.typeSection()
	case secImport:
		p.importSection()
	case secFunction:
		p.functionSection()
	case secTable:
		p.tableSection()
	case secMemory:
		p.memorySection()
	case secGlobal:
		p.globalSection()
	case secExport:
		p.exportSection()
	case secStart:
		p.start = int64(p.r.index("function", len(p.funcTypes)))
		p.m.HasStart = true
	case secElement:
		p.elementSection()
	case secCode:
		p.codeSection()
	case secData:
		p.dataSection()
	case secDataCount:
		p.dataCount = int64(p.r.u32()) // checked against the segments
	}
}

func (p *parser) custom() {
	name := p.r.name()
	if name == "name" && p.nameData == nil {
		p.nameData = p.r.buf[p.r.pos:]
	}
	if p.r.err == nil {
		p.r.pos = len(p.r.buf)
	}
}

func (p *parser) typeSection() {
	r := &p.r
	for range r.count("types", 3, MaxTypes) {
		if b := r.byte(); r.err == nil && b != 0x60 {
			r.fail("type 0x%02x is no function type of core 2.0", b)
		}
		t := FuncType{Params: p.valueTypes("parameters", MaxParams), Results: p.valueTypes("results", MaxResults)}
		if r.err != nil {
			return
		}
		if key := typesKey(t.Results); len(t.Params) == 0 {
			if _, ok := p.wraps[key]; !ok {
				p.wraps[key] = uint32(len(p.types))
			}
		}
		p.types = append(p.types, t)
		p.out[secType] = appendType(p.out[secType], t)
	}
}

func (p *parser) valueTypes(what string, limit int) []ValueType {
	n := p.r.count(what, 1, limit)
	types := make([]ValueType, n)
	for i := range types {
		types[i] = p.r.valueType()
	}
	return types
}

func appendType(b []byte, t FuncType) []byte {
	b = append(b, 0x60)
	for _, types := range [][]ValueType{t.Params, t.Results} {
		b = append(appendU32(b, uint32(len(types))), typesKey(types)...)
	}
	return b
}

func typesKey(types []ValueType) string {
	var b strings.Builder
	for _, t := range types {
		b.WriteByte(byte(t))
	}
	return b.String()
}

// typeOf returns the index of a type that has no parameters, or is wanted by the rewriter. It adds it if it is missing.
func (p *parser) typeOf(results []ValueType) uint32 {
	key := typesKey(results)
	i, ok := p.wraps[key]
	if !ok {
		i = p.addType(FuncType{Results: results})
		p.wraps[key] = i
	}
	return i
}

func (p *parser) addType(t FuncType) uint32 {
	p.added = appendType(p.added, t)
	p.nAdded++
	return uint32(len(p.types) + p.nAdded - 1)
}

func (p *parser) importSection() {
	r := &p.r
	for range r.count("imports", 4, MaxImports) {
		at := r.pos
		i := Import{Module: r.name(), Name: r.name()}
		kind := r.byte()
		if r.err == nil && kind != byte(Func) {
			r.failAt(at, script.Script, "the import %q of module %q is a %s: only functions can be imported", i.Name, i.Module, Kind(kind))
		}
		if r.err == nil && i.Module == MeterModule {
			r.failAt(at, script.Script, "the name %q of the imported module is reserved", i.Module)
		}
		t := r.index("type", len(p.types))
		if r.err != nil {
			return
		}
		i.Type = p.types[t]
		p.m.Imports = append(p.m.Imports, i)
		p.funcTypes = append(p.funcTypes, t)
		out := appendName(appendName(p.out[secImport], i.Module), i.Name)
		p.out[secImport] = appendU32(append(out, byte(Func)), t)
	}
	p.imports = len(p.m.Imports)
}

func (p *parser) functionSection() {
	r := &p.r
	for range r.count("functions", 1, MaxFunctions) {
		t := r.index("type", len(p.types))
		if r.err != nil {
			return
		}
		p.funcTypes = append(p.funcTypes, t)
		p.out[secFunction] = appendU32(p.out[secFunction], t)
	}
}

func (p *parser) tableSection() {
	r := &p.r
	var total uint64
	n := r.count("tables", 3, MaxTables)
	for range n {
		t := r.refType()
		lo, hi, has := p.limits("table")
		if total += uint64(lo); total > MaxTableElements {
			r.limit("the tables have %d elements: at most %d are allowed", total, MaxTableElements)
		}
		if !has || hi > MaxTableElements {
			hi = MaxTableElements
		}
		p.tables = append(p.tables, t)
		out := append(p.out[secTable], byte(t), 1)
		p.out[secTable] = appendU32(appendU32(out, lo), hi)
	}
}

// limits reads the bounds of a table or a memory.
func (p *parser) limits(what string) (lo, hi uint32, has bool) {
	r := &p.r
	flag := r.byte()
	if r.err == nil && flag > 1 {
		r.fail("the %s is shared or has 64 bits: neither is supported", what)
	}
	lo = r.u32()
	if has = flag == 1; has {
		if hi = r.u32(); r.err == nil && hi < lo {
			r.fail("the maximum of the %s, %d, is less than its minimum, %d", what, hi, lo)
		}
	}
	return lo, hi, has
}

func (p *parser) memorySection() {
	r := &p.r
	n := r.u32()
	if r.err == nil && n > 1 {
		r.fail("there are %d memories: one is supported", n)
	}
	if r.err != nil || n == 0 {
		return
	}
	lo, hi, has := p.limits("memory")
	if r.err == nil && has && hi > 1<<16 {
		r.fail("the maximum of the memory is %d pages: at most 65536 are possible", hi)
	}
	if r.err == nil && lo > p.opt.MaxMemoryPages {
		r.limit("the memory begins with %d pages of 64 KiB: the limit is %d pages; lower the memory's minimum or raise limits.wasm.memory", lo, p.opt.MaxMemoryPages)
	}
	if !has || hi > p.opt.MaxMemoryPages {
		hi = p.opt.MaxMemoryPages
	}
	p.m.HasMemory, p.m.MemoryMin, p.m.MemoryMax = true, lo, hi
	p.out[secMemory] = appendU32(appendU32([]byte{1, 1}, lo), hi)
}

func (p *parser) globalSection() {
	r := &p.r
	for i := range r.count("globals", 4, MaxGlobals) {
		t := r.valueType()
		mut := r.byte()
		if r.err == nil && mut > 1 {
			r.fail("the mutability of a global is 0x%02x", mut)
		}
		if mut == 1 {
			p.mutable = append(p.mutable, uint32(i))
			p.m.Resettable = p.m.Resettable && t != V128
			if len(p.mutable) > MaxMutableGlobals {
				r.limit("there are more than %d mutable globals", MaxMutableGlobals)
			}
		}
		p.out[secGlobal] = append(p.out[secGlobal], byte(t), mut)
		p.out[secGlobal] = p.constant(p.out[secGlobal])
		if r.err != nil {
			return
		}
		p.globals++
	}
}

func (p *parser) exportSection() {
	r := &p.r
	spaces := [...]int{len(p.funcTypes), len(p.tables), 0, p.globals}
	if p.m.HasMemory {
		spaces[Memory] = 1
	}
	for range r.count("exports", 3, MaxExports) {
		at := r.pos
		name := r.name()
		kind := r.byte()
		if r.err == nil && kind > byte(Global) {
			r.fail("the export %q has the unknown kind %d", name, kind)
		}
		if r.err != nil {
			return
		}
		e := Export{Kind: Kind(kind), Index: r.index(Kind(kind).String(), spaces[kind])}
		if strings.HasPrefix(name, ReservedPrefix) {
			r.failAt(at, script.Script, "the export %q: names that begin with %q are reserved", name, ReservedPrefix)
		}
		if _, twice := p.m.Exports[name]; twice {
			r.failAt(at, script.Script, "the export %q is there twice", name)
		}
		if r.err != nil {
			return
		}
		if e.Kind == Func {
			t := p.types[p.funcTypes[e.Index]]
			e.Type = FuncType{Params: slices.Clone(t.Params), Results: slices.Clone(t.Results)}
			e.Index = p.function(e.Index)
		}
		p.m.Exports[name] = e
		p.out[secExport] = appendExport(p.out[secExport], name, e.Kind, e.Index)
	}
}

func appendExport(b []byte, name string, k Kind, index uint32) []byte {
	return appendU32(append(appendName(b, name), byte(k)), index)
}

// function returns the index of the tenant's function in the rewritten module.
func (p *parser) function(i uint32) uint32 {
	if int(i) < p.imports {
		return i
	}
	return i + 1
}

// exportGlobals exports what hosts read and write.
func (p *parser) exportGlobals() {
	for _, g := range p.mutable {
		name := globalPrefix + strconv.Itoa(int(g))
		p.m.MutableGlobals = append(p.m.MutableGlobals, name)
		p.out[secExport] = appendExport(p.out[secExport], name, Global, g)
	}
	p.out[secExport] = appendExport(p.out[secExport], GasName, Global, p.gas())
	p.out[secExport] = appendExport(p.out[secExport], StackName, Global, p.stack())
	for i := range p.trackers() {
		p.out[secExport] = appendExport(p.out[secExport], WritesNames()[i], Global, p.writes(i))
	}
}

func (p *parser) gas() uint32   { return uint32(p.globals) }
func (p *parser) stack() uint32 { return uint32(p.globals) + 1 }
