package lua

import (
	"math"

	glua "github.com/yuin/gopher-lua"
)

// arithmetics are the operators of numbers, by their metamethods.
var arithmetics = map[string]func(a, b float64) float64{
	"__add": func(a, b float64) float64 { return a + b },
	"__sub": func(a, b float64) float64 { return a - b },
	"__mul": func(a, b float64) float64 { return a * b },
	"__div": func(a, b float64) float64 { return a / b },
	"__mod": modulo,
	"__pow": math.Pow,
}

// modulo is the operator %: what is left has the sign of b.
func modulo(a, b float64) float64 {
	rest := math.Mod(a, b)
	if rest < 0 && b > 0 || rest > 0 && b < 0 {
		rest += b
	}
	return rest
}

// stringArithmetic adds the metamethods of strings that are numbers. gopher-lua
// would read them as Go does: "010" as 8, "0b1" and "1_0" as numbers.
func stringArithmetic(meta *glua.LTable) {
	for event, operator := range arithmetics {
		meta.RawSetString(event, builtin(func(l *glua.LState) int {
			a, aIsNumber := operand(l, l.Get(1))
			b, bIsNumber := operand(l, l.Get(2))
			if aIsNumber && bIsNumber {
				l.Push(glua.LNumber(operator(a, b)))
				return 1
			}
			right := l.Get(2)
			if fn := l.GetMetaField(right, event); fn != glua.LNil && right.Type() != glua.LTString {
				l.Push(fn)
				l.Push(l.Get(1))
				l.Push(right)
				l.Call(2, 1)
				return 1
			}
			culprit := right
			if !aIsNumber {
				culprit = l.Get(1)
			}
			l.RaiseError("attempt to perform arithmetic on a %s value", valueName(culprit))
			return 0
		}))
	}
}

// operand returns v as a number, if it is one or a string that is one.
func operand(l *glua.LState, v glua.LValue) (float64, bool) {
	switch v := v.(type) {
	case glua.LNumber:
		return float64(v), true
	case glua.LString:
		meterOf(l).charge(l, len(v)/digitsPerInstruction)
		return parseNumber(string(v))
	}
	return 0, false
}
