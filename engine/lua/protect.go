package lua

import (
	"strconv"

	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

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
	bind.Allocate(l, errorSize(err))
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

// errorSize returns how many bytes an error that was caught has cost.
func errorSize(err *vm.APIError) int {
	n := errorBytes
	if err.Cut {
		n += deepErrorMore
	}
	return n
}
