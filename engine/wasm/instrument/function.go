package instrument

// function is a body while it is rewritten.
type function struct {
	index    uint32 // in the tenant's module
	locals   int    // parameters included
	wide     int    // of which are v128
	code     []instr
	depth    int // of blocks, the function's included, while code is read
	labels   int // of br_table
	calls    int
	loops    int
	bulks    int
	joins    int
	sets     int
	slots    int // of 8 bytes, for what instructions return
	groups   int // of locals
	local    []byte
	segments []segment
	frames   []frame
}

// segment is straight code that is charged at its beginning.
type segment struct {
	after int // the instruction after which it begins; -1: the function's entry
	cost  int
	check bool // tests gas
}

// codeSection rewrites the bodies.
func (p *parser) codeSection() {
	r := &p.r
	n := r.count("bodies", 2, MaxFunctions)
	if r.err == nil && n != len(p.funcTypes)-p.imports {
		r.fail("there are %d bodies of %d functions", n, len(p.funcTypes)-p.imports)
	}
	whole := r.buf
	for i := range n {
		size := int(r.u32())
		if r.err == nil && size > r.left() {
			r.fail("the body of function %d has %d bytes, and only %d are left", p.imports+i, size, r.left())
		}
		if r.err == nil && size > MaxFunctionBytes {
			r.limit("function %d has %d bytes: at most %d are allowed", p.imports+i, size, MaxFunctionBytes)
		}
		if r.err != nil {
			return
		}
		r.buf = whole[:r.pos+size]
		p.body(uint32(p.imports + i))
		r.buf = whole
		if r.err != nil {
			return
		}
		p.bodies++
	}
}

func (p *parser) body(index uint32) {
	f := &p.fn
	*f = function{index: index, code: f.code[:0], local: f.local[:0], segments: f.segments[:0], frames: f.frames[:0]}
	p.locals(f)
	p.decode(f)
	if p.r.err != nil {
		return
	}
	p.analyse(f)
	p.bound(f)
	if p.r.err != nil {
		return
	}
	body := p.emit(f)
	p.out[secCode] = append(appendU32(p.out[secCode], uint32(len(body))), body...)
}

func (p *parser) locals(f *function) {
	r := &p.r
	for _, t := range p.types[p.funcTypes[f.index]].Params {
		f.locals++
		if t == V128 {
			f.wide++
		}
	}
	f.groups = r.count("groups of locals", 2, MaxLocals)
	for range f.groups {
		n := r.u32()
		t := r.valueType()
		if r.err == nil && (n > MaxLocals || f.locals+int(n) > MaxLocals) {
			r.limit("function %d has more than %d locals and parameters", f.index, MaxLocals)
		}
		if r.err != nil {
			return
		}
		f.locals += int(n)
		if t == V128 {
			f.wide += int(n)
		}
		f.local = append(appendU32(f.local, n), byte(t))
	}
}

// decode reads the instructions up to the end of the body.
func (p *parser) decode(f *function) {
	r := &p.r
	f.depth = 1
	for r.err == nil && f.depth > 0 {
		in := p.instruction(f)
		switch in.op {
		case opBlock, opLoop, opIf:
			if f.depth++; f.depth > MaxNesting {
				r.limit("function %d has blocks that are nested more than %d deep", f.index, MaxNesting)
			}
			f.joins++
			if in.op == opLoop {
				f.loops++
			}
		case opEnd:
			f.depth--
		case opCall, opCallIndirect:
			f.calls++
		case opLocalSet, opLocalTee:
			f.sets++
		}
		if _, ok := in.bulk(); ok {
			f.bulks++
		}
		f.slots += in.slots()
		f.code = append(f.code, in)
	}
	if r.err == nil && r.pos != len(r.buf) {
		r.fail("function %d ends before its size says", f.index)
	}
}

// bound refuses functions that cost the runtime's compiler too much.
func (p *parser) bound(f *function) {
	checks := 0
	for _, s := range f.segments {
		if s.check {
			checks++
		}
	}
	calls := f.calls + f.bulks + checks
	blocks := len(f.segments) + f.joins + f.labels
	square := blocks - f.labels + f.labels/4
	// The compiler's dominator tree and search of loops are quadratic in the blocks of a function.
	work := len(f.code) + (calls+1)*(len(p.mutable)+8) + blocks*(f.locals+8) + square*square/64
	p.work += work
	if p.work > baseWork+workPerByte*len(p.source) {
		p.r.limit("up to function %d the module is too complex to compile: functions with many locals and blocks, or many calls and mutable globals, cost most; split large functions", f.index)
	}
}

// frameBytes estimates the function's frame. Runtimes may give each value that an instruction returns, and each local
// at each place where paths join, a slot of its own. At half the joins is where compilers' code and the worst that was
// found are both within twice the estimate.
func (f *function) frameBytes() int {
	return 64 + 8*(f.locals+f.wide+f.slots+f.joins*min(f.locals, f.sets)/2)
}
