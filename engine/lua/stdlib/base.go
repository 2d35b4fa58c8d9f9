// Package stdlib is the library of Lua 5.1, as far as scripts have it, and json. Operators on strings and lengths are
// functions of it, too: the compiler has them called.
package stdlib

import (
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// maxResults is how many values a builtin may return.
const maxResults = 8000

// Libraries returns those of Lua, and json.
func Libraries() []values.Module {
	return []values.Module{
		{Name: "string", Functions: stringFunctions},
		{Name: "table", Functions: tableFunctions},
		{Name: "math", Functions: mathFunctions, Values: mathConstants},
		{Name: "os", Functions: osFunctions},
		{Name: "json", Functions: jsonFunctions, Values: map[string]vm.LValue{"null": values.Null}},
	}
}

// Functions returns the global functions. What is missing of Lua 5.1 is missing
// on purpose: functions that change environments, load code, reach the outside
// or the collector, and coroutines.
func Functions() map[string]vm.LGFunction {
	return map[string]vm.LGFunction{
		"assert":       baseAssert,
		"error":        baseError,
		"getmetatable": baseGetMetatable,
		"ipairs":       baseIpairs,
		"next":         baseNext,
		"pairs":        basePairs,
		"rawequal":     baseRawequal,
		"rawget":       baseRawget,
		"rawset":       baseRawset,
		"select":       baseSelect,
		"setmetatable": baseSetmetatable,
		"tonumber":     baseTonumber,
		"tostring":     baseTostring,
		"type":         baseType,
		"unpack":       baseUnpack,
	}
}

func baseAssert(l *vm.LState) int {
	if !vm.LVIsFalse(bind.ArgAny(l, 1)) {
		return l.GetTop()
	}
	raiseText(l, whereOf(l), bind.OptString(l, 2, "assertion failed!"))
	return 0
}

func baseError(l *vm.LState) int {
	value, level := l.Get(1), bind.OptInt(l, 2, 1)
	if level > 0 && bind.IsText(value) {
		raiseText(l, where(l, level), bind.ArgString(l, 1))
	}
	l.Raise(value)
	return 0
}

// raiseText raises a text, which may be long, behind a position.
func raiseText(l *vm.LState, position, message string) {
	if position != "" {
		bind.Allocate(l, bind.StringBytes+len(position)+len(message))
	}
	l.Raise(vm.LString(position + message))
}

// whereOf is where of the innermost function that is no builtin.
func whereOf(l *vm.LState) string {
	for level := 1; level <= l.Calls; level++ {
		if position := where(l, level); position != "" {
			return position
		}
	}
	return ""
}

// where returns what messages begin with that blame the function at the level: 1
// is the one that called the builtin that runs. It is empty for builtins, and where
// there is no such level.
func where(l *vm.LState, level int) string {
	position := l.Where(min(level, l.Calls))
	if !strings.HasPrefix(position, compile.ChunkName) && bind.LibraryPosition(position+" ") == "" {
		return ""
	}
	return position + " "
}

func baseGetMetatable(l *vm.LState) int {
	v := bind.ArgAny(l, 1)
	switch v.Type() {
	case vm.LTTable, vm.LTString, vm.LTUserData:
		if !luajson.IsMarked(v) {
			return l.Return(metatableOf(l, v))
		}
	}
	l.Push(vm.LNil) // other types have what refusals made, which is ours
	return 1
}

// metatableOf returns what scripts see as the metatable of v.
func metatableOf(l *vm.LState, v vm.LValue) vm.LValue {
	meta := l.Metatable(v)
	if meta == nil {
		return vm.LNil
	}
	if instead := meta.RawGetString("__metatable"); !vm.IsNil(instead) {
		return instead
	}
	return meta
}

func baseSetmetatable(l *vm.LState) int {
	t := bind.ArgTable(l)
	meta, ok := l.Get(2).(*vm.LTable)
	if !ok && (l.Get(2) != vm.LNil || l.GetTop() < 2) {
		bind.ArgError(l, 2, "nil or table expected")
	}
	if t.Metatable != nil && t.Metatable.RawGetString("__metatable") != vm.LNil {
		l.RaiseError("cannot change a protected metatable")
	}
	t.Metatable = meta
	l.SetTop(1)
	return 1
}

func baseIpairsNext(l *vm.LState) int {
	t, i := bind.ArgTable(l), bind.ArgInt(l, 2)+1
	v := t.RawGetInt(i)
	if v == vm.LNil {
		return 0
	}
	l.Push(vm.LNumber(i))
	l.Push(v)
	return 2
}

// What the functions for iteration return, which do one step of it.
var (
	ipairsNext  = values.Builtin(baseIpairsNext)
	pairsNext   = values.Builtin(baseNext)
	libraryNext = values.Builtin(baseLibraryNext)
)

// IteratorNames returns what messages call them.
func IteratorNames() map[*vm.LFunction]string {
	return map[*vm.LFunction]string{ipairsNext: "for iterator", pairsNext: "next", libraryNext: "for iterator"}
}

func baseIpairs(l *vm.LState) int {
	t := bind.ArgTable(l)
	l.Push(ipairsNext)
	l.Push(t)
	l.Push(vm.LNumber(0))
	return 3
}

func baseNext(l *vm.LState) int {
	if values.IsLibrary(l.Get(1)) {
		return baseLibraryNext(l)
	}
	return pushNext(l, bind.ArgTable(l))
}

func pushNext(l *vm.LState, t *vm.LTable) int {
	k, v := l.Meter.Next(t, l.Get(2))
	l.Push(k)
	if k == vm.LNil {
		return 1
	}
	l.Push(v)
	return 2
}

func baseLibraryNext(l *vm.LState) int {
	if !values.IsLibrary(l.Get(1)) {
		bind.TypeError(l, 1, "table")
	}
	return pushNext(l, values.Members(l.Get(1)))
}

func basePairs(l *vm.LState) int {
	v := l.Get(1)
	if values.IsLibrary(v) {
		l.Push(libraryNext)
	} else {
		bind.ArgTable(l)
		l.Push(pairsNext)
	}
	l.Push(v)
	l.Push(vm.LNil)
	return 3
}

func baseRawequal(l *vm.LState) int {
	return l.Return(vm.LBool(bind.ArgAny(l, 1) == bind.ArgAny(l, 2)))
}

func baseRawget(l *vm.LState) int {
	t := values.Members(l.Get(1))
	if t == nil {
		t = bind.ArgTable(l)
	}
	return l.Return(t.RawGet(bind.ArgAny(l, 2)))
}

func baseRawset(l *vm.LState) int {
	t := bind.ArgTable(l)
	luajson.Set(l, t, bind.ArgAny(l, 2), bind.ArgAny(l, 3)) // refuses nil and NaN
	l.SetTop(1)
	return 1
}

func baseSelect(l *vm.LState) int {
	top := l.GetTop()
	if l.Get(1) == vm.LString("#") {
		return l.Return(vm.LNumber(top - 1))
	}
	n := bind.ArgInt(l, 1)
	if n < 0 {
		n += top
	}
	if n < 1 {
		bind.ArgError(l, 1, "index out of range")
	}
	return max(top-n, 0)
}

func baseTonumber(l *vm.LState) int {
	v := bind.ArgAny(l, 1)
	base := bind.OptInt(l, 2, 10)
	if base != 10 {
		s := bind.ArgString(l, 1)
		if base < 2 || base > 36 {
			bind.ArgError(l, 2, "base out of range")
		}
		f, ok := numeral.ParseInteger(l.Meter, s, base)
		return pushNumberOrNil(l, vm.LNumber(f), ok)
	}
	switch v := v.(type) {
	case vm.LNumber:
		l.Push(v)
	case vm.LString:
		n, ok := bind.TextNumber(l, v)
		return pushNumberOrNil(l, n, ok)
	default:
		l.Push(vm.LNil)
	}
	return 1
}

func pushNumberOrNil(l *vm.LState, n vm.LNumber, ok bool) int {
	if !ok {
		return l.Return(vm.LNil)
	}
	return l.Return(n)
}

func baseTostring(l *vm.LState) int {
	v := bind.ArgAny(l, 1)
	if s, ok := v.(vm.LString); ok {
		return l.Return(s)
	}
	return l.Return(vm.LString(bind.ToString(l, v)))
}

func baseType(l *vm.LState) int { return l.Return(vm.LString(values.TypeName(bind.ArgAny(l, 1)))) }

func baseUnpack(l *vm.LState) int {
	t := bind.ArgTable(l)
	first, last := bind.OptInt(l, 2, 1), bind.OptLast(l, 3, t)
	n := last - first + 1
	if n <= 0 {
		return 0
	}
	if n > maxResults {
		l.RaiseError("too many results to unpack")
	}
	l.Charge(n)
	for i := range n {
		l.Push(t.RawGetInt(first + i))
	}
	return n
}
