package instrument

import "github.com/scriptorium-dev/scriptorium/script"

// constant copies a constant expression with its end.
func (p *parser) constant(out []byte) []byte {
	r := &p.r
	for r.err == nil {
		from := r.pos
		op := r.byte()
		switch op {
		case 0x0b: // end
			return append(out, op)
		case 0x41:
			r.signed(32)
		case 0x42:
			r.signed(64)
		case 0x43:
			r.bytes(4)
		case 0x44:
			r.bytes(8)
		case 0x23: // global.get
			r.fail("a constant expression reads a global: only imported globals can be read there, and none can be imported")
		case 0xd0: // ref.null
			r.refType()
		case 0xd2: // ref.func
			f := r.index("function", len(p.funcTypes))
			out = appendU32(append(out, op), p.function(f))
			continue
		case 0xfd:
			if sub := r.u32(); r.err == nil && sub != opV128Const {
				r.failAt(from, script.Script, "instruction 0xfd 0x%x in a constant expression", sub)
			}
			out = append(append(out, op, opV128Const), r.bytes(16)...)
			continue
		default:
			r.failAt(from, script.Script, "instruction 0x%02x in a constant expression", op)
		}
		if r.err == nil {
			out = append(out, r.buf[from:r.pos]...)
		}
	}
	return out
}

// elementSection copies the segments, with functions moved.
func (p *parser) elementSection() {
	for range p.r.count("element segments", 2, MaxSegments) {
		p.element()
		if p.r.err != nil {
			return
		}
		p.segments++
	}
}

func (p *parser) element() {
	r := &p.r
	flag := r.u32()
	if r.err == nil && flag > 7 {
		r.fail("unknown kind of element segment %d", flag)
		return
	}
	active, explicit, expressions := flag&1 == 0, flag&2 != 0, flag&4 != 0
	out := appendU32(p.out[secElement], flag)
	if active {
		table := uint32(0)
		if explicit {
			table = r.u32()
			out = appendU32(out, table)
		}
		if r.err == nil && int(table) >= len(p.tables) {
			r.fail("unknown table %d: there are %d", table, len(p.tables))
		}
		out = p.constant(out)
	}
	if !active || explicit {
		kind := r.byte()
		switch {
		case r.err != nil:
			return
		case expressions && ValueType(kind) != FuncRef && ValueType(kind) != ExternRef, !expressions && kind != 0:
			r.fail("unknown kind of elements 0x%02x", kind)
			return
		}
		out = append(out, kind)
	}
	n := r.count("elements", 1, MaxElements)
	if p.elements += n; p.elements > MaxElements {
		r.limit("the segments have more than %d elements together", MaxElements)
	}
	out = appendU32(out, uint32(n))
	for range n {
		if expressions {
			out = p.constant(out)
		} else {
			out = appendU32(out, p.function(r.index("function", len(p.funcTypes))))
		}
		if r.err != nil {
			return
		}
	}
	p.out[secElement] = out
}

func (p *parser) dataSection() {
	r := &p.r
	n := r.count("data segments", 2, MaxDataSegments)
	for range n {
		flag := r.u32()
		if r.err == nil && flag > 2 {
			r.fail("unknown kind of data segment %d", flag)
		}
		out := appendU32(p.out[secData], flag)
		if flag == 2 {
			if memory := r.u32(); r.err == nil && memory != 0 {
				r.fail("unknown memory %d", memory)
			}
			out = append(out, 0)
		}
		if flag != 1 {
			if r.err == nil && !p.m.HasMemory {
				r.fail("a data segment for a memory, and there is no memory")
			}
			out = p.constant(out)
		}
		content := r.bytes(int(r.u32()))
		if r.err != nil {
			return
		}
		p.out[secData] = append(appendU32(out, uint32(len(content))), content...)
		p.data++
	}
}
