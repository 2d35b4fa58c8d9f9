package vm

import "unsafe"

// MultRet is how many results a call has that has as many as there are.
const MultRet = -1

// Options are the bounds of a state.
type Options struct {
	Calls     int // within each other, those of Go included
	Values    int // on the stack of a fresh state
	MaxValues int // on the stack at most
	Grow      int // values that there is room for beyond what is needed, when the stack grows
}

// Global is what the threads of a state share.
type Global struct {
	// CurrentThread is the one that runs; nil if none has ever run.
	CurrentThread *LState
	// Strings is the metatable of strings; nil if they have none.
	Strings *LTable
	// Number reads a string that is an operand of an operator of numbers; ok is false if it is none.
	Number func(ls *LState, text LString) (n LNumber, ok bool)
	// Call is what functions of Go keep of the call.
	Call any
	// Describe says what is wrong with an operand of the instruction that is executed, the first or the second: its name
	// and its type, and the key that it was asked for, unless that is nil.
	Describe func(ls *LState, operand int, v, key LValue) string
}

// LState is a thread: it runs functions, one at a time.
type LState struct {
	G      *Global
	Parent *LState // that has resumed it
	Meter  *Meter
	Dead   bool // it was a coroutine and has ended
	Options

	reg     []LValue // registers: those of the frames, one after the other
	top     int      // of those in use
	frame   *Frame   // the innermost; nil if nothing runs
	first   *Frame
	open    *Upvalue // those in registers, the highest first
	numbers numbers
	wanted  int // values that the yield which it waits in is to return
}

// Frame is a call of a function.
type Frame struct {
	Fn     *LFunction
	Parent *Frame // nil for the first one
	Pc     int    // of the next instruction
	// Base is the register of the first variable.
	Base int

	next       *Frame // to be used for the next call
	depth      int    // from 1
	start      int    // register of the function
	top        int    // register behind its last one
	returnBase int    // where its results go
	args       int    // how many
	results    int    // how many are wanted, or MultRet
	variadic   int    // registers that its arguments take before its variables
}

const framesInBlock = 8

// NewState returns a state, and its only thread.
func NewState(m *Meter, o Options) *LState {
	return newThread(&Global{
		Number:   func(*LState, LString) (LNumber, bool) { return 0, false },
		Describe: func(_ *LState, _ int, v, _ LValue) string { return "a " + word(v) + " value" },
	}, m, o)
}

func newThread(g *Global, m *Meter, o Options) *LState {
	ls := &LState{G: g, Meter: m, Options: o, reg: make([]LValue, o.Values)}
	ls.first = newFrames(nil)
	return ls
}

// newFrames returns the first of some frames that follow parent.
func newFrames(parent *Frame) *Frame {
	block := make([]Frame, framesInBlock)
	for i := range block {
		f := &block[i]
		f.Parent, f.depth = parent, 1
		if parent != nil {
			parent.next, f.depth = f, parent.depth+1
		}
		parent = f
	}
	return &block[0]
}

// Frame returns the innermost call; nil if nothing runs.
func (ls *LState) Frame() *Frame { return ls.frame }

// Registers returns what all registers hold, those included that are not in use, which hold nothing.
func (ls *LState) Registers() []LValue { return ls.reg }

// frames yields those that there are, in use or not.
func (ls *LState) frames(yield func(*Frame) bool) {
	for f := ls.first; f != nil && yield(f); f = f.next {
	}
}

// Forget drops what the last call has left, when nothing runs.
func (ls *LState) Forget() {
	for f := range ls.frames {
		if f.Fn == nil {
			break
		}
		f.Fn = nil
	}
	ls.open = nil
}

// Keeps reports whether a state that runs nothing holds on to anything that a call has made.
func (ls *LState) Keeps() bool {
	for f := range ls.frames {
		if f.Fn != nil {
			return true
		}
	}
	for _, v := range ls.reg {
		switch v.(type) {
		case nil, *LNilType, LNumber, LBool:
		default:
			return true
		}
	}
	return ls.open != nil
}

// Bytes returns about how many bytes a state holds that runs nothing.
func (ls *LState) Bytes() int {
	n := int(unsafe.Sizeof(*ls)) + 8*cap(ls.numbers.block) + cap(ls.reg)*int(unsafe.Sizeof(ls.reg[0]))
	var f Frame
	for range ls.frames {
		n += int(unsafe.Sizeof(f))
	}
	return n
}

// need makes room for registers up to top.
func (ls *LState) need(top int) {
	if top > len(ls.reg) {
		ls.grow(top)
	}
}

func (ls *LState) grow(top int) {
	if top > ls.MaxValues {
		ls.RaiseError("registry overflow")
	}
	reg := make([]LValue, min(top+ls.Grow, ls.MaxValues))
	copy(reg, ls.reg)
	ls.reg = reg
	for uv := ls.open; uv != nil; uv = uv.next {
		uv.at = &reg[uv.index]
	}
}

// setTop makes top the first register that is not in use, and clears those beyond up to was.
func (ls *LState) setTop(top, was int) {
	if top < was {
		clear(ls.reg[top:min(was, len(ls.reg))])
	}
	ls.top = top
}

func (ls *LState) base() int {
	if ls.frame == nil {
		return 0
	}
	return ls.frame.Base
}

// GetTop returns how many values are on the stack of the function of Go that runs.
func (ls *LState) GetTop() int { return ls.top - ls.base() }

// SetTop makes it n; new ones are nil.
func (ls *LState) SetTop(n int) {
	top := ls.base() + n
	ls.need(top)
	for i := ls.top; i < top; i++ {
		ls.reg[i] = LNil
	}
	ls.setTop(top, ls.top)
}

// Get returns the i-th value, from 1, or from -1 for the last one; nil if there is none.
func (ls *LState) Get(i int) LValue {
	at := ls.base() + i - 1
	if i < 0 {
		at = ls.top + i
	}
	if at < ls.base() || at >= ls.top {
		return LNil
	}
	return ls.reg[at]
}

// Push adds a value.
func (ls *LState) Push(v LValue) {
	if ls.top == len(ls.reg) {
		ls.grow(ls.top + 1)
	}
	ls.reg[ls.top] = v
	ls.top++
}

// Pop removes the last n values.
func (ls *LState) Pop(n int) { ls.setTop(ls.top-n, ls.top) }

func (ls *LState) pop() LValue {
	ls.top--
	v := ls.reg[ls.top]
	ls.reg[ls.top] = nil
	return v
}

// Insert makes v the i-th value, before what was.
func (ls *LState) Insert(v LValue, i int) {
	ls.Push(LNil)
	at := ls.base() + i - 1
	copy(ls.reg[at+1:ls.top], ls.reg[at:])
	ls.reg[at] = v
}

// findUpvalue returns the variable in the register.
func (ls *LState) findUpvalue(i int) *Upvalue {
	at := &ls.open
	for *at != nil && (*at).index > i {
		at = &(*at).next
	}
	if *at != nil && (*at).index == i {
		return *at
	}
	*at = &Upvalue{at: &ls.reg[i], index: i, next: *at}
	return *at
}

// closeUpvalues takes the variables out of the registers from i on.
func (ls *LState) closeUpvalues(i int) {
	for uv := ls.open; uv != nil && uv.index >= i; uv = ls.open {
		ls.open = uv.next
		uv.close()
	}
}
