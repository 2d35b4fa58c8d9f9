package instrument

// What is written to memory is tracked in two i64 globals, if Options say so, so that a host can restore memory without
// looking at all of it. Memory is made of blocks of WriteBlock bytes. A store that begins in block b sets bit b mod 64 of
// the first global and bit b/64 mod 64 of the second. So the blocks that were written to are among those with both bits
// set, and of a few blocks close together hardly any others are. What follows the address within WriteBeyond bytes counts
// as tracked, too, and may be in the next block. Functions of the tenant cannot reach the globals.
//
// The instructions that track are not charged for.
const (
	writeShift  = 12
	groupShift  = writeShift + 6
	WriteBlock  = 1 << writeShift
	WriteBeyond = writeWindow + 15
)

// WritesNames are the exports of the globals that track writes.
func WritesNames() [2]string {
	return [2]string{ReservedPrefix + "writes.blocks", ReservedPrefix + "writes.groups"}
}

// Instructions that only tracking needs.
const (
	opI64GtU    = 0x56
	opI64Add    = 0x7c
	opI64Or     = 0x84
	opI64Rotl   = 0x89
	opF32Store  = 0x38
	opF64Store  = 0x39
	opI32Store8 = 0x3a
	opI64Store8 = 0x3c
)

// stores reports whether the instruction is a store, and of which type its value is.
func (in instr) stores() (ValueType, bool) {
	switch op := in.op; {
	case op == opI32Store, op == opI32Store8, op == opI32Store8+1:
		return I32, true
	case op == opF32Store:
		return F32, true
	case op == opF64Store:
		return F64, true
	case op == opI32Store+1, op >= opI64Store8 && op <= opI64Store32:
		return I64, true
	case op == opVector && (in.sub == opV128Store || in.sub >= opStore8Lane && in.sub <= opLastLoadLane):
		return V128, true
	}
	return 0, false
}

// scratch are the types of the locals that tracking a function's writes takes, in the order of their indices: an address,
// two numbers, and a value of each type.
var scratchTypes = [...]ValueType{I32, I32, I32, I64, F32, F64, V128}

const (
	scratchAddress = iota
	scratchFirst
	scratchSecond
	scratchI64
	scratchF32
	scratchF64
	scratchV128
)

func scratchOf(t ValueType) uint32 {
	switch t {
	case I64:
		return scratchI64
	case F32:
		return scratchF32
	case F64:
		return scratchF64
	case V128:
		return scratchV128
	}
	return scratchFirst
}

// tracked reports whether the function needs the locals of scratchTypes.
func (p *parser) tracked(f *function) bool {
	if !p.opt.TrackWrites {
		return false
	}
	for _, in := range f.code {
		if _, ok := in.stores(); ok || in.writesRange() {
			return true
		}
	}
	return false
}

func (in instr) writesRange() bool {
	return in.op == opMisc && (in.sub == miscMemoryInit || in.sub == miscMemoryCopy || in.sub == miscMemoryFill)
}

// track writes what an instruction needs to be tracked, before it.
func (e *emitter) track(in instr) {
	if t, ok := in.stores(); ok {
		e.trackStore(in, t)
	} else if in.writesRange() {
		e.trackRange()
	}
	e.values.step(in)
}

// trackStore writes what tracks a store: its address and its value are on the stack, before and after.
func (e *emitter) trackStore(in instr, t ValueType) {
	offset, needed := e.values.needs(e.p.offset(in))
	if !needed {
		return
	}
	value := e.scratch + scratchOf(t)
	address := e.scratch + scratchAddress
	e.indexed(opLocalSet, value)
	e.indexed(opLocalSet, address)
	for i, shift := range [...]int64{writeShift, groupShift} {
		e.indexed(opGlobalGet, e.p.writes(i))
		e.constant64(1)
		e.indexed(opLocalGet, address)
		if offset != 0 {
			e.constant32(int32(offset))
			e.op(opI32Add)
		}
		e.op(opI64ExtendU)
		e.constant64(shift)
		e.op(opI64ShrU, opI64Shl, opI64Or)
		e.indexed(opGlobalSet, e.p.writes(i))
	}
	e.indexed(opLocalGet, address)
	e.indexed(opLocalGet, value)
}

// offset returns the offset of a store. If it leads beyond 4 GiB the store traps.
func (p *parser) offset(in instr) uint32 {
	r := reader{buf: p.r.buf[:in.end], pos: in.imm}
	r.u32()
	return r.u32()
}

// trackRange writes what tracks an operation on a range of memory: three numbers are on the stack, before and after.
func (e *emitter) trackRange() {
	to, from, n := e.scratch+scratchAddress, e.scratch+scratchFirst, e.scratch+scratchSecond
	e.indexed(opLocalSet, n)
	e.indexed(opLocalSet, from)
	e.indexed(opLocalTee, to)
	e.indexed(opLocalGet, n)
	e.indexed(opCall, e.p.helper(helpers))
	e.indexed(opLocalGet, to)
	e.indexed(opLocalGet, from)
	e.indexed(opLocalGet, n)
}

// trackers is how many globals track writes.
func (p *parser) trackers() int {
	if p.opt.TrackWrites {
		return 2
	}
	return 0
}

func (p *parser) writes(i int) uint32 { return uint32(p.globals) + 2 + uint32(i) }

// rangeBody returns the body of the helper that tracks a range: (address i32, n i32).
func (p *parser) rangeBody() []byte {
	e := emitter{p: p}
	const address, n, count = 0, 1, 2
	e.op(1, 1, byte(I64))
	e.indexed(opLocalGet, n)
	e.op(opIf, typeEmpty)
	for i, shift := range [...]int64{writeShift, groupShift} {
		// How many blocks or groups it takes, of which the first is address>>shift.
		e.indexed(opLocalGet, address)
		e.op(opI64ExtendU)
		e.indexed(opLocalGet, n)
		e.op(opI64ExtendU, opI64Add)
		e.constant64(1)
		e.op(opI64Sub)
		e.constant64(shift)
		e.op(opI64ShrU)
		e.indexed(opLocalGet, address)
		e.op(opI64ExtendU)
		e.constant64(shift)
		e.op(opI64ShrU, opI64Sub)
		e.indexed(opLocalSet, count) // less one
		e.indexed(opGlobalGet, p.writes(i))
		// All ones but for count+1 < 64: then 2<<count less one.
		e.constant64(-1)
		e.constant64(2)
		e.indexed(opLocalGet, count)
		e.op(opI64Shl)
		e.constant64(1)
		e.op(opI64Sub)
		e.indexed(opLocalGet, count)
		e.constant64(62)
		e.op(opI64GtU, opSelect)
		e.indexed(opLocalGet, address)
		e.op(opI64ExtendU)
		e.constant64(shift)
		e.op(opI64ShrU, opI64Rotl, opI64Or)
		e.indexed(opGlobalSet, p.writes(i))
	}
	e.op(opEnd, opEnd)
	return e.b
}
