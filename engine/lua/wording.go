package lua

import (
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// valueName is what messages call v: its type, save for the values that are
// userdata to Lua alone.
func valueName(v glua.LValue) string {
	if v == glua.LValue(sandbox().null) {
		return "null"
	}
	return typeName(v)
}

// refusals returns the metamethods of a type whose values can be neither called
// nor negated. gopher-lua's own messages for these do not say what the value was.
func refusals() map[string]*glua.LFunction {
	return map[string]*glua.LFunction{
		"__call": builtin(func(l *glua.LState) int {
			l.RaiseError("attempt to call %s", named(l, 1, ""))
			return 0
		}),
		"__unm": builtin(negate),
	}
}

// keyRefusal is the metamethod of a type whose values have no members, for members. Their
// names may be long.
func keyRefusal() *glua.LFunction {
	return builtin(func(l *glua.LState) int {
		key := l.Get(2)
		text := keyText(key)
		if b, ok := key.(glua.LBool); ok {
			text = b.String()
		}
		l.RaiseError("attempt to index %s", named(l, 1, "key '"+text+"'"))
		return 0
	})
}

// negate is the unary minus of what is no number: strings count if they are one.
func negate(l *glua.LState) int {
	v := l.Get(1)
	if s, ok := v.(glua.LString); ok {
		if f, ok := textNumber(l, s); ok {
			l.Push(glua.LNumber(-f))
			return 1
		}
	}
	l.RaiseError("attempt to perform arithmetic on %s", named(l, 1, ""))
	return 0
}

// splitPosition cuts the position off a message that gopher-lua made: it ends
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

// fixedWords are messages of gopher-lua's, and what Lua 5.1 says instead. Where
// they name a table, the metamethods of all other types have spoken before.
var fixedWords = map[string]string{
	"attempt to call a non-function object": "attempt to call a table value",
	"__unm undefined":                       "attempt to perform arithmetic on a table value",
	"for statement init must be a number":   "'for' initial value must be a number",
	"for statement limit must be a number":  "'for' limit must be a number",
	"for statement step must be a number":   "'for' step must be a number",
	"too many recursions in gettable":       "loop in gettable",
	"too many recursions in settable":       "loop in settable",
}

// reword turns a message of gopher-lua's, without its position, into Lua 5.1's
// words. Other messages stay what they are.
func reword(message string) string {
	const most = 100 // the others are shorter; do not search what a script made
	if len(message) > most {
		return message
	}
	if fixed, ok := fixedWords[message]; ok {
		return fixed
	}
	if rest, ok := strings.CutPrefix(message, "cannot perform "); ok {
		return rewordArithmetic(message, rest)
	}
	if rest, ok := strings.CutPrefix(message, "attempt to compare "); ok {
		return rewordComparison(message, rest)
	}
	return message
}

// rewordArithmetic is for "OPERATION operation between TYPE and TYPE".
func rewordArithmetic(message, rest string) string {
	_, operands, _ := strings.Cut(rest, " operation between ")
	left, right, ok := strings.Cut(operands, " and ")
	if !ok || !isTypeName(left) || !isTypeName(right) {
		return message
	}
	culprit := left
	switch {
	case left == "number", left == "string" && right != "number" && right != "string":
		culprit = right // a string may be a number; the other operand cannot
	}
	return "attempt to perform arithmetic on a " + typeWord(culprit) + " value"
}

// rewordComparison is for "TYPE with TYPE".
func rewordComparison(message, rest string) string {
	left, right, ok := strings.Cut(rest, " with ")
	if !ok || !isTypeName(left) || !isTypeName(right) {
		return message
	}
	if left == right {
		return "attempt to compare two " + typeWord(left) + " values"
	}
	return "attempt to compare " + typeWord(left) + " with " + typeWord(right)
}

func isTypeName(s string) bool {
	switch s {
	case "nil", "boolean", "number", "string", "table", "function", "userdata", "thread":
		return true
	}
	return false
}

// typeWord is what messages call the values of a type of gopher-lua's. Of the
// userdata that scripts meet, json.null is the one that they have as a value.
func typeWord(name string) string {
	if name == "userdata" {
		return "null"
	}
	return name
}
