package instrument

import "github.com/scriptorium-dev/scriptorium/script"

// Instructions that the rewriter knows by name.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opI32Store     = 0x36
	opI64Store32   = 0x3e
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI32LtS       = 0x48
	opI32LtU       = 0x49
	opI64LtS       = 0x53
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opI64Sub       = 0x7d
	opI64Shl       = 0x86
	opI64ShrU      = 0x88
	opI64ExtendU   = 0xad
	opLastPlain    = 0xc4
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opMisc         = 0xfc
	opVector       = 0xfd

	typeEmpty = 0x40
)

// Instructions after opMisc.
const (
	miscMemoryInit = 8 + iota
	miscDataDrop
	miscMemoryCopy
	miscMemoryFill
	miscTableInit
	miscElemDrop
	miscTableCopy
	miscTableGrow
	miscTableSize
	miscTableFill
)

// Instructions after opVector.
const (
	opV128Load      = 0x00
	opV128Store     = 0x0b
	opV128Const     = 0x0c
	opV128Shuffle   = 0x0d
	opFirstLane     = 0x15
	opLastLane      = 0x22
	opFirstLoadLane = 0x54
	opStore8Lane    = 0x58
	opLastLoadLane  = 0x5b
	opLoad64Zero    = 0x5d
	opLastVector    = 0xff
)

// instr is an instruction of a body.
type instr struct {
	op       byte
	sub      byte   // after opMisc and opVector
	index    uint32 // label, function, local or global
	imm, end int    // where its immediates begin and end
}

// instruction reads one instruction.
func (p *parser) instruction(f *function) instr {
	r := &p.r
	at := r.pos
	in := instr{op: r.byte()}
	in.imm = r.pos
	switch op := in.op; {
	case op >= opI32Store-0x0e && op <= opI64Store32: // loads and stores
		p.memarg()
	case op >= 0x45 && op <= opLastPlain, op == opDrop, op == opSelect, op == opRefIsNull, op <= 0x01, op == opElse, op == opEnd, op == opReturn:
	case op <= opCallIndirect:
		p.control(&in, f)
	case op <= opTableSet:
		p.variable(&in, f)
	case op <= opF64Const:
		p.constOrMemory(op)
	case op == opRefNull:
		r.refType()
	case op == opRefFunc:
		in.index = p.function(r.index("function", len(p.funcTypes)))
	case op == opMisc:
		p.misc(&in)
	case op == opVector:
		p.vector(&in)
	default:
		p.unknown(at, "0x%02x", op)
	}
	in.end = r.pos
	return in
}

func (p *parser) unknown(at int, format string, args ...any) {
	p.r.failAt(at, script.Script, "unknown instruction "+format+": core 2.0 with vectors is supported, and no threads, exceptions, tail calls, garbage collection or relaxed vectors", args...)
}

func (p *parser) control(in *instr, f *function) {
	r := &p.r
	switch in.op {
	case opBlock, opLoop, opIf:
		p.blockType()
	case opBr, opBrIf:
		in.index = r.index("label", f.depth)
	case opBrTable:
		n := r.count("labels", 1, MaxBrTable)
		f.labels += n
		for range n + 1 {
			if r.index("label", f.depth); r.err != nil {
				return
			}
		}
	case opCall:
		if i := r.index("function", len(p.funcTypes)); r.err == nil {
			in.index = p.function(i)
			f.slots += slotsOf(p.types[p.funcTypes[i]].Results)
		}
	case opCallIndirect:
		if t := r.index("type", len(p.types)); r.err == nil {
			f.slots += slotsOf(p.types[t].Results)
		}
		r.index("table", len(p.tables))
	default:
		p.unknown(in.imm-1, "0x%02x", in.op)
	}
}

// blockType reads the type of a block: none, a type of a value, or the index of a type.
func (p *parser) blockType() {
	r := &p.r
	if r.more() {
		if b := r.buf[r.pos]; b == typeEmpty || ValueType(b).valid() {
			r.pos++
			return
		}
	}
	if t := r.signed(33); r.err == nil && (t < 0 || t >= int64(len(p.types))) {
		r.fail("unknown type %d of a block: there are %d", t, len(p.types))
	}
}

func (p *parser) variable(in *instr, f *function) {
	r := &p.r
	switch in.op {
	case opLocalGet, opLocalSet, opLocalTee:
		in.index = r.index("local", f.locals)
	case opGlobalGet, opGlobalSet:
		in.index = r.index("global", p.globals)
	case opTableGet, opTableSet:
		r.index("table", len(p.tables))
		p.m.Resettable = p.m.Resettable && in.op == opTableGet
	case opSelectTyped:
		for range r.count("types of select", 1, MaxResults) {
			r.valueType()
		}
	default:
		p.unknown(in.imm-1, "0x%02x", in.op)
	}
}

func (p *parser) constOrMemory(op byte) {
	r := &p.r
	switch op {
	case opMemorySize, opMemoryGrow:
		p.memoryIndex()
	case opI32Const:
		r.signed(32)
	case opI64Const:
		r.signed(64)
	case opF32Const:
		r.bytes(4)
	case opF64Const:
		r.bytes(8)
	default:
		p.unknown(r.pos-1, "0x%02x", op)
	}
}

func (p *parser) memoryIndex() {
	if b := p.r.byte(); p.r.err == nil && (b != 0 || !p.m.HasMemory) {
		p.r.fail("unknown memory %d", b)
	}
}

func (p *parser) memarg() {
	r := &p.r
	if align := r.u32(); r.err == nil && align > 4 {
		r.fail("the alignment 2^%d is too large, or of another memory than the first", align)
	}
	r.u32()
}

func (p *parser) misc(in *instr) {
	r := &p.r
	sub := r.u32()
	if r.err == nil && sub > miscTableFill {
		p.unknown(in.imm-1, "0xfc 0x%x", sub)
		return
	}
	in.sub, in.imm = byte(sub), r.pos
	switch in.sub {
	case miscMemoryInit:
		r.u32()
		p.memoryIndex()
	case miscDataDrop:
		r.u32()
	case miscMemoryCopy:
		p.memoryIndex()
		p.memoryIndex()
	case miscMemoryFill:
		p.memoryIndex()
	case miscTableInit:
		r.index("element segment", p.segments)
		r.index("table", len(p.tables))
	case miscElemDrop:
		r.index("element segment", p.segments)
	case miscTableCopy:
		r.index("table", len(p.tables))
		r.index("table", len(p.tables))
	case miscTableGrow, miscTableSize, miscTableFill:
		r.index("table", len(p.tables))
	}
	switch in.sub {
	case miscDataDrop, miscTableInit, miscElemDrop, miscTableCopy, miscTableGrow, miscTableFill:
		p.m.Resettable = false
	}
}

func (p *parser) vector(in *instr) {
	r := &p.r
	sub := r.u32()
	if r.err == nil && sub > opLastVector {
		p.unknown(in.imm-1, "0xfd 0x%x", sub)
		return
	}
	in.sub, in.imm = byte(sub), r.pos
	switch {
	case sub <= opV128Store, sub > opLastLoadLane && sub <= opLoad64Zero:
		p.memarg()
	case sub <= opV128Shuffle:
		r.bytes(16)
	case sub >= opFirstLane && sub <= opLastLane:
		r.byte()
	case sub >= opFirstLoadLane && sub <= opLastLoadLane:
		p.memarg()
		r.byte()
	}
}

// appendInstr appends an instruction as it was, with the shortest encoding of its operation: runtimes may not read others.
func (p *parser) appendInstr(b []byte, in instr) []byte {
	b = append(b, in.op)
	switch in.op {
	case opMisc, opVector:
		b = appendU32(b, uint32(in.sub))
	case opCall, opRefFunc, opBr, opBrIf, opLocalGet, opLocalSet, opLocalTee, opGlobalGet, opGlobalSet:
		return appendU32(b, in.index)
	}
	return append(b, p.r.buf[in.imm:in.end]...)
}

// price is what executing an instruction costs.
func (in instr) price() int {
	if in.op == opEnd || in.op == opElse {
		return 0
	}
	return 1
}

// bulk returns which helper charges for the instruction in proportion to its size, which is on top of the stack.
func (in instr) bulk() (helper, bool) {
	switch {
	case in.op == opMemoryGrow:
		return chargePages, true
	case in.op != opMisc:
		return 0, false
	}
	switch in.sub {
	case miscMemoryInit, miscMemoryCopy, miscMemoryFill:
		return chargeBytes, true
	case miscTableInit, miscTableCopy, miscTableGrow, miscTableFill:
		return chargeElements, true
	}
	return 0, false
}

func slotsOf(types []ValueType) (n int) {
	for _, t := range types {
		n++
		if t == V128 {
			n++
		}
	}
	return n
}

// slots is how many places of 8 bytes the result may need in a frame. Those of calls are counted elsewhere.
func (in instr) slots() int {
	switch op := in.op; {
	case op <= opCallIndirect, op == opDrop, op >= opLocalGet && op <= opLocalTee, op == opGlobalSet, op == opTableSet,
		op >= opI32Store && op <= opI64Store32:
		return 0
	case op == opVector, op == opSelectTyped:
		return 2
	}
	return 1
}
