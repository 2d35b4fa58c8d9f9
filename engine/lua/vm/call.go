package vm

import (
	"fmt"
	"strconv"
)

// Yield is what a function of Go returns for its thread to yield what is on its stack.
const Yield = -1

// Call calls the function before the last args values. Its results take the place of all of these.
func (ls *LState) Call(args, results int) {
	start := ls.top - args - 1
	ls.call(start, args, results, start)
}

// CallOne is Call for one result, which it returns.
func (ls *LState) CallOne(args int) LValue {
	ls.Call(args, 1)
	return ls.pop()
}

// Return pushes the only result of a function of Go, which returns what it does.
func (ls *LState) Return(v LValue) int {
	ls.Push(v)
	return 1
}

// call calls the function in the register start, of which the args follow, and puts the results from returnBase on.
func (ls *LState) call(start, args, results, returnBase int) {
	f := ls.enter(start, args, results, returnBase)
	if ls.G.CurrentThread == nil {
		ls.G.CurrentThread = ls
	}
	if f.Fn.IsG {
		if ls.callGo(f) {
			ls.RaiseError("attempt to yield across metamethod/C-call boundary")
		}
	} else {
		ls.execute(f)
	}
	if results != MultRet {
		ls.top = returnBase + results
	}
}

// enter begins a call.
func (ls *LState) enter(start, args, results, returnBase int) *Frame {
	fn, ok := ls.reg[start].(*LFunction)
	if !ok {
		fn, args = ls.callable(start, args)
	}
	f := ls.first
	if caller := ls.frame; caller != nil {
		if caller.depth >= ls.Calls {
			ls.RaiseError("stack overflow")
		}
		if f = caller.next; f == nil {
			f = newFrames(caller)
		}
	}
	f.Fn, f.Pc, f.start, f.Base, f.returnBase, f.args, f.results = fn, 0, start, start+1, returnBase, args, results
	if fn.IsG {
		f.top, f.variadic = start+1+args, 0
		ls.top = f.top
	} else {
		ls.openFrame(f)
	}
	ls.frame = f
	return f
}

// callable makes the metamethod of the value in the register what is called, with the value as its first argument.
func (ls *LState) callable(start, args int) (*LFunction, int) {
	v := ls.reg[start]
	fn, ok := ls.metaOf(v, "__call").(*LFunction)
	if !ok {
		ls.refuse("call", 1, v, nil)
	}
	top := start + 1 + args
	ls.need(top + 1)
	copy(ls.reg[start+1:top+1], ls.reg[start:top])
	ls.top = top + 1
	return fn, args + 1
}

// openFrame gives a function of Lua its registers. Arguments beyond the parameters stay before them.
func (ls *LState) openFrame(f *Frame) {
	p := f.Fn.Proto
	base, args := f.Base, f.args
	f.variadic = 0
	if p.IsVarArg {
		f.variadic = max(args, p.NumParameters)
		f.Base += f.variadic
	}
	f.top = f.Base + p.registers
	was := base + args
	if ls.need(f.top); f.top < was {
		clear(ls.reg[f.top:was])
	}
	reg := ls.reg
	if f.variadic > 0 {
		given := min(args, p.NumParameters)
		copy(reg[f.Base:], reg[base:base+given])
		for i := base; i < base+p.NumParameters; i++ {
			reg[i] = LNil
		}
		args = given
	} else if p.IsVarArg {
		args = 0
	}
	for i := f.Base + min(args, p.NumParameters); i < f.top; i++ {
		reg[i] = LNil
	}
	ls.top = f.top
}

// callGo runs a function of Go, and reports whether its thread is to yield.
func (ls *LState) callGo(f *Frame) (yields bool) {
	n := f.Fn.GFunction(ls)
	if n < 0 {
		return true
	}
	ls.leave(f, ls.top-n, n)
	return false
}

// leave ends a call whose n results are from the register at on.
func (ls *LState) leave(f *Frame, at, n int) {
	reg := ls.reg
	was, to, wanted := max(ls.top, f.top), f.returnBase, f.results
	if wanted == MultRet {
		wanted = n
	}
	if to+wanted > len(reg) {
		ls.grow(to + wanted)
		reg = ls.reg
	}
	copy(reg[to:], reg[at:at+min(n, wanted)])
	for i := n; i < wanted; i++ {
		reg[to+i] = LNil
	}
	ls.setTop(to+wanted, was)
	if ls.frame = f.Parent; ls.frame != nil && f.results != MultRet && !ls.frame.Fn.IsG {
		ls.top = ls.frame.top
	}
}

// APIError is what ended a call.
type APIError struct {
	Object LValue // that was raised
	Cause  any    // what Go panicked with, if it was not Lua that raised something
	// Trace is where the error was raised: the functions that ran, the innermost first. If there were many, some in the
	// middle are missing, and Cut is true.
	Trace []Traced
	Cut   bool
}

// Error is error's.
func (e *APIError) Error() string {
	if e.Cause != nil {
		return fmt.Sprint(e.Cause)
	}
	return e.Object.String()
}

// Traced is a function that ran.
type Traced struct {
	Proto *FunctionProto // nil for a function of Go
	Line  int
	Main  bool // it was the outermost
}

// PCall is Call, and returns what was raised. Its arguments are gone then, and there are no results.
func (ls *LState) PCall(args, results int) (err *APIError) {
	frame, start := ls.frame, ls.top-args-1
	current := ls.G.CurrentThread
	defer func() {
		if r := recover(); r != nil {
			var ok bool
			if err, ok = r.(*APIError); !ok {
				err = &APIError{Object: LNil, Cause: r}
			}
			ls.trace(err)
			ls.unwind(frame, start)
			ls.G.CurrentThread = current
		}
	}()
	ls.Call(args, results)
	return nil
}

// unwind ends the calls within frame, and drops the registers from top on.
func (ls *LState) unwind(frame *Frame, top int) {
	was := ls.top
	for f := ls.frame; f != nil && f != frame; f = f.Parent {
		was = max(was, f.top)
	}
	if frame != nil {
		was = max(was, frame.top)
	}
	ls.closeUpvalues(top)
	ls.frame = frame
	ls.setTop(top, was)
}

const traceHead, traceTail = 7, 6 // of a trace that is cut

func (ls *LState) trace(e *APIError) {
	if e.Trace != nil || ls.frame == nil {
		return
	}
	n := ls.frame.depth
	e.Cut = n > traceHead+traceTail+6
	i := 0
	for f := ls.frame; f != nil; f = f.Parent {
		if i++; e.Cut && i > traceHead && i <= n-traceTail {
			continue
		}
		t := Traced{Proto: f.Fn.Proto, Main: f.Parent == nil}
		if t.Proto != nil {
			t.Line = t.Proto.Line(f.Pc - 1)
		}
		e.Trace = append(e.Trace, t)
	}
}

// Raise ends the running function with a value.
func (ls *LState) Raise(v LValue) { panic(&APIError{Object: v}) }

// RaiseError raises a message, behind the position of the innermost function of Lua.
func (ls *LState) RaiseError(format string, args ...any) {
	position := ""
	for f := ls.frame; f != nil; f = f.Parent {
		if !f.Fn.IsG {
			position = f.position()
			break
		}
	}
	ls.Raise(LString(position + " " + fmt.Sprintf(format, args...)))
}

func (f *Frame) position() string {
	if f.Fn.IsG {
		return "[G]:"
	}
	p := f.Fn.Proto
	return p.SourceName + ":" + strconv.Itoa(p.Line(f.Pc-1)) + ":"
}

// Where returns the position of the function at the level: 0 runs, and 1 has called it. It is "" if there is none.
func (ls *LState) Where(level int) string {
	f := ls.frame
	for ; f != nil && level > 0; level-- {
		f = f.Parent
	}
	if f == nil {
		return ""
	}
	return f.position()
}
