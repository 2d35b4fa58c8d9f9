package lua

import (
	"fmt"
	"strconv"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// callError translates what ended a call.
func callError(api *vm.APIError, m *meter) *script.Error {
	if api.Cause != nil {
		m.reason = faulted
	}
	line, library := placeOf(api.Trace)
	if m.reason != running {
		e := m.stopError()
		if m.reason == faulted {
			e.Err = api
		}
		e.Line, e.Message = line, library+e.Message
		return e
	}
	e := &script.Error{Kind: script.Script}
	switch v := api.Object.(type) {
	case *vm.LUserData:
		if known, ok := v.Value.(*script.Error); ok {
			*e = *known
		} else {
			e.Message = "the script raised a " + values.Name(v)
		}
	case vm.LString:
		var where string
		where, e.Message = bind.SplitPosition(string(v))
		e.Line = bind.LineOf(where)
		place := bind.LibraryPosition(e.Message)
		e.Message = e.Message[len(place):]
		if e.Message == "stack overflow" || e.Message == "registry overflow" {
			e.Kind = script.Limit
			e.Message = fmt.Sprintf("%s: calls are nested more than %d deep, or hold too many values", e.Message, callStackSize)
		}
		e.Message = place + e.Message
	case vm.LNumber:
		e.Message = numeral.Format(float64(v))
	case *vm.LTable:
		e.Message = "the script raised a table without a message"
		luajson.Settle(v)
		if message, ok := v.RawGetString("message").(vm.LString); ok {
			e.Message = string(message)
		}
	default:
		e.Message = "the script raised a " + v.Type().String()
	}
	if e.Line == 0 {
		e.Line = line
	}
	e.Message = hostapi.Clip(e.Message)
	if e.Kind == script.Script {
		e.Stack = stackOf(api.Trace)
	}
	return e
}

// placeOf returns the line of the innermost function of the script, and the position of a function of a library that is
// further in.
func placeOf(trace []vm.Traced) (line int, library string) {
	for _, f := range trace {
		switch {
		case f.Proto == nil:
		case f.Proto.SourceName == compile.ChunkName:
			return f.Line, library
		case library == "":
			library = fmt.Sprintf("%s:%d: ", f.Proto.SourceName, f.Line)
		}
	}
	return 0, library
}

// stackOf returns the functions of the script in a trace.
func stackOf(trace []vm.Traced) (stack []script.Frame) {
	for _, f := range trace {
		if f.Proto == nil || f.Proto.SourceName != compile.ChunkName || len(stack) == script.MaxFrames {
			continue
		}
		frame := script.Frame{Line: f.Line}
		if !f.Main {
			frame.Function = fmt.Sprintf("<line %d>", f.Proto.LineDefined)
		}
		stack = append(stack, frame)
	}
	return stack
}

// errorCost is what catching an error costs: it unwinds the stack of Go.
const errorCost = 500

// Sizes of what is allocated for an error that was caught, in bytes.
const (
	errorBytes    = 400
	deepErrorMore = 900 // if it came from so deep that its trace was cut
)

// basePcall catches errors of the script, but not the end of its budget.
func basePcall(l *vm.LState) int {
	bind.ArgAny(l, 1)
	if value, failed := protectedCall(l, l.GetTop()-1); failed {
		l.Push(vm.LFalse)
		l.Push(value)
		return 2
	}
	l.Insert(vm.LTrue, 1)
	return l.GetTop()
}

// baseXpcall calls the handler after the stack was unwound: without the debug
// library it cannot see the difference.
func baseXpcall(l *vm.LState) int {
	handler := bind.ArgAny(l, 2)
	l.SetTop(1)
	value, failed := protectedCall(l, 0)
	if !failed {
		l.Insert(vm.LTrue, 1)
		return l.GetTop()
	}
	l.SetTop(0)
	l.Push(vm.LFalse)
	if _, callable := handler.(*vm.LFunction); callable {
		l.Push(handler)
		l.Push(value)
		if _, failed := protectedCall(l, 1); !failed {
			l.SetTop(2) // a handler returns one value
			return 2
		}
	}
	l.SetTop(1)
	l.Push(vm.LString("error in error handling"))
	return 2
}

// protectedCall calls the function on the stack and reports whether it failed,
// and with which value.
func protectedCall(l *vm.LState, args int) (vm.LValue, bool) {
	err := l.PCall(args, vm.MultRet)
	if err == nil {
		return nil, false
	}
	m := meterOf(l)
	if err.Cause != nil {
		m.reason = faulted
		m.exhaust()
	}
	l.Charge(errorCost)
	bytes := errorBytes
	if err.Cut {
		bytes += deepErrorMore
	}
	bind.Allocate(l, bytes)
	return caught(err.Object, m), true
}

// caught is the value that a script sees for what it caught.
func caught(raised vm.LValue, m *meter) vm.LValue {
	switch v := raised.(type) {
	case *vm.LUserData:
		if e, ok := v.Value.(*script.Error); ok {
			if e.Line == 0 {
				return vm.LString(e.Message)
			}
			return vm.LString(compile.ChunkName + ":" + strconv.Itoa(e.Line) + ": " + e.Message)
		}
	case vm.LString:
		// A position or a key in it may have made it too long.
		return v[:min(len(v), m.limits.StringBytes)]
	}
	return raised
}
