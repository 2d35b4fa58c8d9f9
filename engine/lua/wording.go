package lua

import (
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/diagnose"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// described returns "field 'execute' (a nil value)" for the i-th operand of an instruction, or "a nil value" if it has no
// name. The key that it was asked for, if any, is added behind the type.
func described(l *vm.LState, i int, v, key vm.LValue) string {
	text, more := "a "+values.Name(v)+" value", ""
	if b, ok := key.(vm.LBool); ok {
		more = "key '" + b.String() + "'"
	} else if key != nil {
		more = "key '" + values.KeyText(key) + "'"
	}
	if of := diagnose.Operand(l, i, v, callOf(l)); of.Kind != "" {
		return of.Kind + " '" + hostapi.KeyText(of.Name) + "' (" + text + suffix(", ", more) + ")" + hint(v, of)
	}
	if more == "" {
		return text
	}
	return text + " (" + more + ")"
}

func suffix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// MadeLocal is diagnose.Program's.
func (c *call) MadeLocal(name string) bool { return c.program != nil && c.program.MadeLocal[name] }

// IsOperator is diagnose.Program's.
func (*call) IsOperator(fn *vm.LFunction) bool {
	operators := sandbox().operators
	return fn == operators[compile.Concat] || fn == operators[compile.Length]
}

// hint suggests the name of a builtin if the variable of the value looks like a misspelled one.
func hint(value vm.LValue, v diagnose.Variable) string {
	var near string
	switch {
	case !vm.IsNil(value):
	case v.Kind == diagnose.Global:
		near = NearestGlobal(v.Name)
	case v.Of != nil && v.Of.Kind == diagnose.Global:
		if near = NearestMember(v.Of.Name, v.Name); near != "" {
			near = v.Of.Name + "." + near
		}
	}
	if near == "" {
		return ""
	}
	return ": did you mean " + near + "?"
}
