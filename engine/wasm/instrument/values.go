package instrument

// writeWindow is how many bytes from a tracked address on count as tracked, too: what is reset is the block of the
// address and so many bytes of the next one.
const writeWindow = 512

// values numbers what is on the stack of straight code, so that stores by the same address, with different offsets, are
// tracked once. Two values with the same number are equal. It knows nothing of what came before an end, an else or
// a loop: an address that was tracked before is in all that follows up to there.
type values struct {
	p       *parser
	last    uint32 // number that was given
	stack   []uint32
	locals  map[uint32]uint32
	globals map[uint32]uint32
	sums    map[[2]uint32]uint32 // of a value and a constant
	consts  map[uint32]uint32    // constants by their numbers
	numbers map[uint32]uint32    // numbers of constants
	tracked map[[2]uint32]bool   // values, and windows from them on
}

// forget is for a place that can be come to from elsewhere. Maps are made when they are needed: to clear one takes as
// long as it was ever large.
func (v *values) forget() {
	*v = values{p: v.p, last: v.last, stack: v.stack[:0]}
}

// set is m[key] = value of a map that may be nil.
func set[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

func (v *values) fresh() uint32 {
	v.last++
	return v.last
}

func (v *values) push(n uint32) { v.stack = append(v.stack, n) }

func (v *values) pop() uint32 {
	if len(v.stack) == 0 {
		return v.fresh() // from before
	}
	n := v.stack[len(v.stack)-1]
	v.stack = v.stack[:len(v.stack)-1]
	return n
}

func (v *values) replace(pops, pushes int) {
	for range pops {
		v.pop()
	}
	for range pushes {
		v.push(v.fresh())
	}
}

// variable returns the number of what a variable holds.
func (v *values) variable(of *map[uint32]uint32, index uint32) uint32 {
	n, ok := (*of)[index]
	if !ok {
		n = v.fresh()
		set(of, index, n)
	}
	return n
}

// needs reports whether a store, which has not been stepped over, has to be tracked, and from which offset on.
func (v *values) needs(offset uint32) (from uint32, ok bool) {
	from = offset &^ (writeWindow - 1)
	if len(v.stack) < 2 {
		return from, true
	}
	key := [2]uint32{v.stack[len(v.stack)-2], from}
	if v.tracked[key] {
		return from, false
	}
	set(&v.tracked, key, true)
	return from, true
}

// step goes over an instruction.
func (v *values) step(in instr) {
	switch op := in.op; {
	case op == opLocalGet:
		v.push(v.variable(&v.locals, in.index))
	case op == opLocalSet:
		set(&v.locals, in.index, v.pop())
	case op == opLocalTee:
		n := v.pop()
		set(&v.locals, in.index, n)
		v.push(n)
	case op == opGlobalGet:
		v.push(v.variable(&v.globals, in.index))
	case op == opGlobalSet:
		set(&v.globals, in.index, v.pop())
	case op == opI32Const:
		r := reader{buf: v.p.r.buf[:in.end], pos: in.imm}
		v.push(v.constant(uint32(r.signed(32))))
	case op == opI32Add:
		v.add()
	case op == opCall || op == opCallIndirect:
		v.call(in)
	case op == opEnd, op == opElse, op == opLoop:
		v.forget()
	case op <= opReturn || op == opVector || op == opMisc:
		v.stack = v.stack[:0] // what is on it now is of no use
	default:
		v.replace(in.arity())
	}
}

// constant returns the number of a constant.
func (v *values) constant(c uint32) uint32 {
	n, ok := v.numbers[c]
	if !ok {
		n = v.fresh()
		set(&v.numbers, c, n)
		set(&v.consts, n, c)
	}
	return n
}

// add numbers the sum of a value and a constant.
func (v *values) add() {
	b, a := v.pop(), v.pop()
	if _, ok := v.consts[a]; ok {
		a, b = b, a
	}
	c, ok := v.consts[b]
	if !ok {
		v.push(v.fresh())
		return
	}
	key := [2]uint32{a, c}
	n, ok := v.sums[key]
	if !ok {
		n = v.fresh()
		set(&v.sums, key, n)
	}
	v.push(n)
}

func (v *values) call(in instr) {
	var t uint32
	pops := 0
	if in.op == opCall {
		f := in.index
		if int(f) > v.p.imports { // moved, see parser.function
			f--
		}
		t = v.p.funcTypes[f]
	} else {
		r := reader{buf: v.p.r.buf[:in.end], pos: in.imm}
		t, pops = r.u32(), 1
	}
	v.replace(pops+len(v.p.types[t].Params), len(v.p.types[t].Results))
	v.globals = nil
}

// arity returns how many values an instruction takes and leaves that is neither of those that step knows.
func (in instr) arity() (pops, pushes int) {
	switch op := in.op; {
	case op == opDrop:
		return 1, 0
	case op == opSelect, op == opSelectTyped:
		return 3, 1
	case op == opTableGet, op == opMemoryGrow, op == opRefIsNull:
		return 1, 1
	case op == opTableSet:
		return 2, 0
	case op >= opI32Store && op <= opI64Store32:
		return 2, 0
	case op < opI32Store: // loads
		return 1, 1
	case op == opMemorySize, op >= opI64Const && op <= opF64Const, op == opRefNull, op == opRefFunc:
		return 0, 1
	case op == 0x45, op == 0x50, op >= 0x67 && op <= 0x69, op >= 0x79 && op <= 0x7b, op >= 0x8b && op <= 0x91, op >= 0x99 && op <= 0x9f, op >= 0xa7:
		return 1, 1 // one operand: tests, counts of bits, conversions
	}
	return 2, 1
}
