package lua

import (
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// valueName is what messages call v: its type, save for the values that are
// userdata to Lua alone.
func valueName(v vm.LValue) string {
	if v == vm.LValue(sandbox().null) {
		return "null"
	}
	return typeName(v)
}

// refusals returns the metamethods of a type whose values can be neither called
// nor negated. The machine's own messages for these do not say which variable the value is of.
func refusals() map[string]*vm.LFunction {
	return map[string]*vm.LFunction{
		"__call": builtin(func(l *vm.LState) int {
			l.RaiseError("attempt to call %s", named(l, 1, ""))
			return 0
		}),
		"__unm": builtin(negate),
	}
}

// keyRefusal is the metamethod of a type whose values have no members, for members. Their
// names may be long.
func keyRefusal() *vm.LFunction {
	return builtin(func(l *vm.LState) int {
		key := l.Get(2)
		text := keyText(key)
		if b, ok := key.(vm.LBool); ok {
			text = b.String()
		}
		l.RaiseError("attempt to index %s", named(l, 1, "key '"+text+"'"))
		return 0
	})
}

// negate is the unary minus of what is no number: strings count if they are one.
func negate(l *vm.LState) int {
	v := l.Get(1)
	if s, ok := v.(vm.LString); ok {
		if f, ok := textNumber(l, s); ok {
			l.Push(vm.LNumber(-f))
			return 1
		}
	}
	l.RaiseError("attempt to perform arithmetic on %s", named(l, 1, ""))
	return 0
}

// splitPosition cuts the position off a message of the machine's: it ends
// with ": ", or is empty.
func splitPosition(message string) (position, rest string) {
	after, ok := strings.CutPrefix(message, chunkName+":")
	if !ok {
		return "", message
	}
	const most = 10 // digits of a line; a script's own message may have any number
	digits := 0
	for digits < min(len(after), most) && '0' <= after[digits] && after[digits] <= '9' {
		digits++
	}
	rest, ok = strings.CutPrefix(after[digits:], ": ")
	if !ok || digits == 0 {
		return "", message
	}
	return message[:len(message)-len(rest)], rest
}
