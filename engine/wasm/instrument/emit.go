package instrument

// helper is a function that the rewriter adds. It takes the size of an operation, charges for it and returns it.
type helper uint32

// The helpers, in the order of their indices.
const (
	chargeBytes    helper = iota // 1 for 64 bytes
	chargeElements               // 1 for 4 elements of a table
	chargePages                  // 1024 for a page that the memory can have
	helpers
)

// pageShift: a page costs as much as 64 KiB that are written.
const pageShift = 10

// growCost is what growing costs however little is asked for: the runtime is left.
const growCost = 64

func (p *parser) refill() uint32 { return uint32(p.imports) }

func (p *parser) helper(h helper) uint32 { return uint32(len(p.funcTypes)) + 1 + uint32(h) }

// emitter writes the body of one function.
type emitter struct {
	p     *parser
	f     *function
	b     []byte
	gas   uint32 // the local that holds gas
	local bool   // whether there is such a local
	// scratch is the first of the locals that track writes, if there are any.
	scratch uint32
	values  *values // nil if nothing is tracked
}

func (e *emitter) op(op ...byte)                   { e.b = append(e.b, op...) }
func (e *emitter) indexed(op byte, index uint32)   { e.b = appendU32(append(e.b, op), index) }
func (e *emitter) constant64(v int64)              { e.b = appendS64(append(e.b, opI64Const), v) }
func (e *emitter) constant32(v int32)              { e.b = appendS64(append(e.b, opI32Const), int64(v)) }
func (e *emitter) move(from, to byte, a, b uint32) { e.indexed(from, a); e.indexed(to, b) }

// load and store move gas between the global and the local.
func (e *emitter) load() {
	if e.local {
		e.move(opGlobalGet, opLocalSet, e.p.gas(), e.gas)
	}
}

func (e *emitter) store() {
	if e.local {
		e.move(opLocalGet, opGlobalSet, e.gas, e.p.gas())
	}
}

// emit returns the function's body.
func (p *parser) emit(f *function) []byte {
	e := emitter{p: p, f: f, gas: uint32(f.locals), b: make([]byte, 0, len(f.code)*4+len(f.local)+64)}
	// A single segment that tests nothing needs no local.
	e.local = f.calls+f.bulks > 0 || len(f.segments) > 1 || len(f.segments) == 1 && f.segments[0].check
	tracked := p.tracked(f)
	groups, local := f.groups, f.local
	if e.scratch = uint32(f.locals); e.local {
		groups, local = groups+1, append(local, 1, byte(I64))
		e.scratch++
	}
	if tracked {
		e.values = &values{p: p}
		groups += len(scratchTypes)
		for _, t := range scratchTypes {
			local = append(local, 1, byte(t))
		}
	}
	e.b = append(appendU32(e.b, uint32(groups)), local...)
	f.local = local
	frame := int32(min(f.frameBytes(), 1<<30))
	deep := f.calls > 0 || frame > leafFrame
	if deep {
		e.enter(frame)
	}
	e.load()
	if e.local || deep {
		e.wrap()
	}
	e.code(e.local || deep)
	if e.local || deep {
		e.store()
		if deep {
			e.indexed(opGlobalGet, p.stack())
			e.constant32(frame)
			e.op(opI32Add)
			e.indexed(opGlobalSet, p.stack())
		}
		e.op(opEnd)
	}
	return e.b
}

// enter takes the function's frame off the stack that is left.
func (e *emitter) enter(frame int32) {
	e.indexed(opGlobalGet, e.p.stack())
	e.constant32(frame)
	e.op(opI32Sub)
	e.indexed(opGlobalSet, e.p.stack())
	e.indexed(opGlobalGet, e.p.stack())
	e.constant32(0)
	e.op(opI32LtS, opIf, typeEmpty)
	// The host may give more stack. The instructions that are left are in the global here.
	e.indexed(opGlobalGet, e.p.gas())
	e.indexed(opCall, e.p.refill())
	e.indexed(opGlobalSet, e.p.gas())
	e.indexed(opGlobalGet, e.p.stack())
	e.constant32(0)
	e.op(opI32LtS, opIf, typeEmpty, opUnreachable, opEnd, opEnd)
}

// wrap begins a block around the body, so that all ways out of it lead to its end.
func (e *emitter) wrap() {
	results := e.p.types[e.p.funcTypes[e.f.index]].Results
	e.op(opBlock)
	switch len(results) {
	case 0:
		e.op(typeEmpty)
	case 1:
		e.op(byte(results[0]))
	default:
		e.b = appendS64(e.b, int64(e.p.typeOf(results)))
	}
}

// code writes the instructions, with what meters them.
func (e *emitter) code(wrapped bool) {
	segments := e.f.segments
	charge := func(i int) {
		if len(segments) > 0 && segments[0].after == i {
			e.charge(segments[0])
			segments = segments[1:]
		}
	}
	charge(-1)
	depth := uint32(0)
	for i, in := range e.f.code {
		switch in.op {
		case opBlock, opLoop, opIf:
			depth++
		case opEnd:
			depth--
		}
		h, bulk := in.bulk()
		if e.values != nil {
			e.track(in)
		}
		switch {
		case in.op == opReturn && wrapped:
			e.indexed(opBr, depth)
		case in.op == opCall || in.op == opCallIndirect:
			e.store()
			e.b = e.p.appendInstr(e.b, in)
			e.load()
		case bulk:
			e.store()
			e.indexed(opCall, e.p.helper(h))
			e.load()
			e.b = e.p.appendInstr(e.b, in)
		default:
			e.b = e.p.appendInstr(e.b, in)
		}
		charge(i)
	}
}

// charge takes the segment's cost off gas.
func (e *emitter) charge(s segment) {
	get, set, gas := byte(opGlobalGet), byte(opGlobalSet), e.p.gas()
	if e.local {
		get, set, gas = opLocalGet, opLocalTee, e.gas
		if !s.check {
			set = opLocalSet
		}
	}
	e.indexed(get, gas)
	e.constant64(int64(s.cost))
	e.op(opI64Sub)
	e.indexed(set, gas)
	if !s.check {
		return
	}
	e.constant64(0)
	e.op(opI64LtS, opIf, typeEmpty)
	e.indexed(opLocalGet, gas)
	e.indexed(opCall, e.p.refill())
	e.indexed(opLocalSet, gas)
	e.op(opEnd)
}

// helperBody returns the body of a helper: (n i32) -> i32, with a local for gas.
func (p *parser) helperBody(h helper) []byte {
	e := emitter{p: p, gas: 1, local: true}
	e.op(1, 1, byte(I64))
	e.load()
	e.indexed(opLocalGet, e.gas)
	e.indexed(opLocalGet, 0)
	if h == chargePages { // asking for more than there may be costs as much as that
		e.constant32(int32(p.m.MemoryMax))
		e.indexed(opLocalGet, 0)
		e.constant32(int32(p.m.MemoryMax))
		e.op(opI32LtU, opSelect)
	}
	e.op(opI64ExtendU)
	switch h {
	case chargeBytes:
		e.constant64(6)
		e.op(opI64ShrU)
	case chargeElements:
		e.constant64(2)
		e.op(opI64ShrU)
	case chargePages:
		e.constant64(pageShift)
		e.op(opI64Shl, opI64Sub)
		e.constant64(growCost)
	}
	e.op(opI64Sub)
	e.indexed(opLocalTee, e.gas)
	e.constant64(0)
	e.op(opI64LtS, opIf, typeEmpty)
	e.indexed(opLocalGet, e.gas)
	e.indexed(opCall, p.refill())
	e.indexed(opLocalSet, e.gas)
	e.op(opEnd)
	e.store()
	e.indexed(opLocalGet, 0)
	e.op(opEnd)
	return e.b
}

// finish checks what no section could know, and writes the module.
func (p *parser) finish() {
	r := &p.r
	switch {
	case r.err != nil:
		return
	case p.bodies != len(p.funcTypes)-p.imports:
		r.fail("there are %d bodies of %d functions", p.bodies, len(p.funcTypes)-p.imports)
	case p.dataCount >= 0 && int(p.dataCount) != p.data:
		r.fail("there are %d data segments, and the module announces %d", p.data, p.dataCount)
	}
	if r.err != nil {
		return
	}
	refillType := p.addType(FuncType{Params: []ValueType{I64}, Results: []ValueType{I64}})
	helperType := p.addType(FuncType{Params: []ValueType{I32}, Results: []ValueType{I32}})
	rangeType := p.addType(FuncType{Params: []ValueType{I32, I32}})
	p.out[secType] = append(p.out[secType], p.added...)
	out := appendName(appendName(p.out[secImport], MeterModule), RefillName)
	p.out[secImport] = appendU32(append(out, byte(Func)), refillType)
	for h := range helpers {
		p.out[secFunction] = appendU32(p.out[secFunction], helperType)
		body := p.helperBody(h)
		p.out[secCode] = append(appendU32(p.out[secCode], uint32(len(body))), body...)
	}
	if p.opt.TrackWrites {
		p.out[secFunction] = appendU32(p.out[secFunction], rangeType)
		body := p.rangeBody()
		p.out[secCode] = append(appendU32(p.out[secCode], uint32(len(body))), body...)
	}
	p.out[secGlobal] = append(p.out[secGlobal], byte(I64), 1, opI64Const, 0, opEnd)
	p.out[secGlobal] = append(appendS64(append(p.out[secGlobal], byte(I32), 1, opI32Const), int64(p.opt.MaxStack)), opEnd)
	for range p.trackers() {
		p.out[secGlobal] = append(p.out[secGlobal], byte(I64), 1, opI64Const, 0, opEnd)
	}
	p.exportGlobals()
	p.write()
}

// write puts the sections together.
func (p *parser) write() {
	if p.start >= 0 {
		p.out[secStart] = appendU32(nil, p.function(uint32(p.start)))
	}
	if p.dataCount >= 0 {
		p.out[secDataCount] = appendU32(nil, uint32(p.dataCount))
	}
	functions := p.bodies + int(helpers) + p.trackers()/2
	counts := map[int]int{
		secType: len(p.types) + p.nAdded, secImport: p.imports + 1, secFunction: functions, secTable: len(p.tables),
		secGlobal: p.globals + 2 + p.trackers(), secExport: len(p.m.Exports) + len(p.mutable) + 2 + p.trackers(), secElement: p.segments, secCode: functions, secData: p.data,
	}
	size := 0
	for _, s := range p.out {
		size += len(s) + 12
	}
	b := append(make([]byte, 0, size), "\x00asm\x01\x00\x00\x00"...)
	for _, id := range [...]int{secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport, secStart, secElement, secDataCount, secCode, secData} {
		content := p.out[id]
		if len(content) == 0 {
			continue
		}
		var count []byte
		if n, ok := counts[id]; ok {
			count = appendU32(nil, uint32(n))
		}
		b = appendU32(append(b, byte(id)), uint32(len(count)+len(content)))
		b = append(append(b, count...), content...)
	}
	p.m.Segments = p.data + p.elements
	p.m.Code = p.appendNames(b)
}
