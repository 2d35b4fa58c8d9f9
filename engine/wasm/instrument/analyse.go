package instrument

import "github.com/scriptorium-dev/scriptorium/script"

// frame is a block while segments are found.
type frame struct {
	op       byte
	dead     bool // the block cannot be reached
	targeted bool // a branch that can be reached jumps to its end, or a first arm of an if ends there
	entry    int  // what was unchecked at an if
	most     int  // what is unchecked at most where the end is reached other than from above
}

func (f *frame) join(unchecked int) {
	f.targeted = true
	f.most = max(f.most, unchecked)
}

// analysis finds the segments of a function, and those that test gas: all loops, and enough others that no path runs
// more than limit untested.
type analysis struct {
	f         *function
	limit     int
	dead      bool
	open      segment
	calls     int // of the open segment
	unchecked int // at most, on all paths to the beginning of the open segment
}

func (p *parser) analyse(f *function) {
	a := analysis{f: f, limit: callCost}
	if f.calls > 0 {
		a.limit = uncheckedCost
	}
	a.begin(-1, f.calls > 0)
	f.frames = append(f.frames, frame{op: opBlock})
	for i := range f.code {
		a.instruction(p, i)
	}
}

func (a *analysis) begin(after int, check bool) {
	a.open, a.calls = segment{after: after, check: check}, 0
}

// close ends the open segment. What it left unchecked is in a.unchecked.
func (a *analysis) close() {
	if a.dead {
		return
	}
	calls := a.calls * callCost
	if a.open.check || a.unchecked+a.open.cost+calls > a.limit {
		a.open.check, a.unchecked = true, calls
	} else {
		a.unchecked += a.open.cost + calls
	}
	if a.open.cost > 0 {
		a.f.segments = append(a.f.segments, a.open)
	}
}

func (a *analysis) frame(label uint32) *frame { return &a.f.frames[len(a.f.frames)-1-int(label)] }

// branch notes that the open segment, which is closed, may go on at the label.
func (a *analysis) branch(label uint32) {
	if to := a.frame(label); !a.dead && to.op != opLoop {
		to.join(a.unchecked)
	}
}

func (a *analysis) instruction(p *parser, i int) {
	in := a.f.code[i]
	if in.op != opLoop {
		a.open.cost += in.price()
	}
	switch in.op {
	case opBlock:
		a.f.frames = append(a.f.frames, frame{op: in.op, dead: a.dead})
	case opLoop:
		a.close()
		a.f.frames = append(a.f.frames, frame{op: in.op, dead: a.dead})
		a.begin(i, true)
		a.open.cost = in.price()
	case opIf:
		a.close()
		a.f.frames = append(a.f.frames, frame{op: in.op, dead: a.dead, entry: a.unchecked})
		a.begin(i, false)
	case opElse:
		a.elseArm(p, i)
	case opEnd:
		a.end(i)
	case opBr, opBrIf:
		a.close()
		a.branch(in.index)
		a.dead = a.dead || in.op == opBr
		a.begin(i, false)
	case opBrTable:
		a.close()
		r := reader{buf: p.r.buf, pos: in.imm}
		for range r.u32() + 1 {
			a.branch(r.u32())
		}
		a.dead = true
	case opReturn, opUnreachable:
		a.close()
		a.dead = true
	case opCall, opCallIndirect:
		if a.calls++; a.calls*callCost >= a.limit {
			a.close()
			a.begin(i, false)
		}
	}
}

func (a *analysis) elseArm(p *parser, i int) {
	a.close()
	f := a.frame(0)
	if f.op != opIf {
		p.r.failAt(a.f.code[i].imm-1, script.Script, "an else without an if")
		return
	}
	if !a.dead {
		f.join(a.unchecked)
	}
	f.op, a.dead, a.unchecked = opElse, f.dead, f.entry
	a.begin(i, false)
}

func (a *analysis) end(i int) {
	f := *a.frame(0)
	a.f.frames = a.f.frames[:len(a.f.frames)-1]
	if f.op == opIf && !f.dead { // the missing arm
		f.join(f.entry)
	}
	if len(a.f.frames) == 0 {
		a.close()
		return
	}
	if f.op == opLoop || !f.targeted {
		return
	}
	a.close()
	if a.dead {
		a.unchecked = f.most
	} else {
		a.unchecked = max(a.unchecked, f.most)
	}
	a.dead = false
	a.begin(i, false)
}
