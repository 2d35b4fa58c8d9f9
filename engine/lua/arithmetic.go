package lua

import (
	"math"

	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// arithmetics are the operators of numbers, by their metamethods.
var arithmetics = map[string]func(a, b float64) float64{
	"__add": func(a, b float64) float64 { return a + b },
	"__sub": func(a, b float64) float64 { return a - b },
	"__mul": func(a, b float64) float64 { return a * b },
	"__div": func(a, b float64) float64 { return a / b },
	"__mod": vm.Modulo,
	"__pow": math.Pow,
}

// arithmetic returns the metamethods of strings that are numbers, and of values that are not. gopher-lua
// would read strings as Go does: "010" as 8, "0b1" and "1_0" as numbers. Its errors name no variables.
func arithmetic() map[string]*vm.LFunction {
	functions := map[string]*vm.LFunction{}
	for event, operator := range arithmetics {
		functions[event] = builtin(func(l *vm.LState) int {
			a, aIsNumber := operand(l, l.Get(1))
			b, bIsNumber := operand(l, l.Get(2))
			if aIsNumber && bIsNumber {
				l.Push(vm.LNumber(operator(a, b)))
				return 1
			}
			right := l.Get(2)
			if fn := l.GetMetaField(right, event); fn != vm.LNil && fn != vm.LValue(functions[event]) {
				l.Push(fn)
				l.Push(l.Get(1))
				l.Push(right)
				l.Call(2, 1)
				return 1
			}
			culprit := 2
			if !aIsNumber {
				culprit = 1
			}
			l.RaiseError("attempt to perform arithmetic on %s", named(l, culprit, ""))
			return 0
		})
	}
	return functions
}

// operand returns v as a number, if it is one or a string that is one.
func operand(l *vm.LState, v vm.LValue) (float64, bool) {
	switch v := v.(type) {
	case vm.LNumber:
		return float64(v), true
	case vm.LString:
		return textNumber(l, v)
	}
	return 0, false
}
