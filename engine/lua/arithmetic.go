package lua

import (
	"math"
	"unsafe"

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
	switch {
	case rest == 0:
		return 0 // without a sign
	case rest < 0 && b > 0, rest > 0 && b < 0:
		rest += b
	}
	return rest
}

// arithmetic returns the metamethods of strings that are numbers, and of values that are not. gopher-lua
// would read strings as Go does: "010" as 8, "0b1" and "1_0" as numbers. Its errors name no variables.
func arithmetic() map[string]*glua.LFunction {
	functions := map[string]*glua.LFunction{}
	for event, operator := range arithmetics {
		functions[event] = builtin(func(l *glua.LState) int {
			a, aIsNumber := operand(l, l.Get(1))
			b, bIsNumber := operand(l, l.Get(2))
			if aIsNumber && bIsNumber {
				l.Push(glua.LNumber(operator(a, b)))
				return 1
			}
			right := l.Get(2)
			if fn := l.GetMetaField(right, event); fn != glua.LNil && fn != glua.LValue(functions[event]) {
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
func operand(l *glua.LState, v glua.LValue) (float64, bool) {
	switch v := v.(type) {
	case glua.LNumber:
		return float64(v), true
	case glua.LString:
		return textNumber(l, v)
	}
	return 0, false
}

//go:linkname setNumber github.com/yuin/gopher-lua.(*registry).SetNumber
func setNumber(registers unsafe.Pointer, at int, v glua.LNumber)

// keepSigns replaces what executes the operators of numbers: gopher-lua keeps small
// integers ready and takes 0 for -0 there. quicken has to have been called.
func keepSigns() {
	for _, op := range []int{glua.OP_ADD, glua.OP_SUB, glua.OP_MUL, glua.OP_DIV, glua.OP_POW} {
		operations[op] = keepSign(operations[op])
	}
}

// keepSign wraps A := B operator C. It is what loops are made of: nothing in it is
// called that need not be.
func keepSign(next execute) execute {
	return func(l *glua.LState, instruction uint32, base unsafe.Pointer) int {
		current := *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(l), stateLayout.frame))
		registers := *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(l), stateLayout.registers))
		values := *(*[]glua.LValue)(unsafe.Add(registers, stateLayout.values))
		first := *(*int)(unsafe.Add(current, stateLayout.base))
		a, ok := operandOf(current, values, first, int(instruction&maskBC)).(glua.LNumber)
		if !ok {
			return next(l, instruction, base)
		}
		b, ok := operandOf(current, values, first, int(instruction>>shiftC)&maskBC).(glua.LNumber)
		if !ok {
			return next(l, instruction, base)
		}
		var result glua.LNumber
		switch int(instruction >> opcodeShift) {
		case glua.OP_ADD:
			result = a + b
		case glua.OP_SUB:
			result = a - b
		case glua.OP_MUL:
			result = a * b
		case glua.OP_DIV:
			result = a / b
		default:
			result = glua.LNumber(math.Pow(float64(a), float64(b)))
		}
		at := first + int(instruction>>shiftA)&maskA
		if result == 0 {
			setRegister(registers, at, result)
		} else {
			setNumber(registers, at, result)
		}
		return 0
	}
}

// compareTexts replaces what executes < and <=: gopher-lua compares strings byte by byte,
// however long they are. quicken has to have been called.
func compareTexts() {
	for _, op := range []int{glua.OP_LT, glua.OP_LE} {
		operations[op] = compareText(operations[op])
	}
}

// compareText wraps what skips the next instruction if (B < C) is not A.
func compareText(next execute) execute {
	return func(l *glua.LState, instruction uint32, base unsafe.Pointer) int {
		current := *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(l), stateLayout.frame))
		registers := *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(l), stateLayout.registers))
		values := *(*[]glua.LValue)(unsafe.Add(registers, stateLayout.values))
		first := *(*int)(unsafe.Add(current, stateLayout.base))
		var holds bool
		less := int(instruction>>opcodeShift) == glua.OP_LT
		switch a := operandOf(current, values, first, int(instruction&maskBC)).(type) {
		case glua.LNumber:
			b, ok := operandOf(current, values, first, int(instruction>>shiftC)&maskBC).(glua.LNumber)
			if !ok {
				return next(l, instruction, base)
			}
			holds = less && a < b || !less && a <= b
		case glua.LString:
			b, ok := operandOf(current, values, first, int(instruction>>shiftC)&maskBC).(glua.LString)
			if !ok {
				return next(l, instruction, base)
			}
			c := meterOf(l).compare(string(a), string(b))
			holds = c < 0 || !less && c == 0
		default:
			return next(l, instruction, base)
		}
		if holds != (int(instruction>>shiftA)&maskA != 0) {
			(*callFrame)(current).Pc++
		}
		return 0
	}
}

// operandOf returns the value of B or C of an instruction of the frame whose registers
// begin at first. (It is frame.operand in parts, so that it is inlined.)
func operandOf(current unsafe.Pointer, values []glua.LValue, first, n int) glua.LValue {
	if n&constantOperand != 0 {
		fn := *(**glua.LFunction)(unsafe.Add(current, stateLayout.fn))
		return fn.Proto.Constants[n&^constantOperand]
	}
	return values[first+n]
}
