package lua

import (
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// maxResults is how many values a builtin may return.
const maxResults = 8000

// baseFunctions returns the global functions. What is missing of Lua 5.1 is missing
// on purpose: functions that change environments, load code, reach the outside
// or the collector, and coroutines.
func baseFunctions() map[string]vm.LGFunction {
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
	if !vm.LVIsFalse(argAny(l, 1)) {
		return l.GetTop()
	}
	raiseText(l, whereOf(l), optString(l, 2, "assertion failed!"))
	return 0
}

func baseError(l *vm.LState) int {
	value, level := l.Get(1), optInt(l, 2, 1)
	if level > 0 && isText(value) {
		raiseText(l, where(l, level), argString(l, 1))
	}
	l.Raise(value)
	return 0
}

// raiseText raises a text, which may be long, behind a position.
func raiseText(l *vm.LState, position, message string) {
	if position != "" {
		allocate(l, stringBytes+len(position)+len(message))
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
	if !strings.HasPrefix(position, compile.ChunkName) && libraryPosition(position+" ") == "" {
		return ""
	}
	return position + " "
}

func baseGetMetatable(l *vm.LState) int {
	v := argAny(l, 1)
	switch v.Type() {
	case vm.LTTable, vm.LTString, vm.LTUserData:
		if !luajson.IsMarked(v) {
			l.Push(metatableOf(l, v))
			return 1
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
	t := argTable(l)
	meta, ok := l.Get(2).(*vm.LTable)
	if !ok && (l.Get(2) != vm.LNil || l.GetTop() < 2) {
		argError(l, 2, "nil or table expected")
	}
	if t.Metatable != nil && t.Metatable.RawGetString("__metatable") != vm.LNil {
		l.RaiseError("cannot change a protected metatable")
	}
	t.Metatable = meta
	l.SetTop(1)
	return 1
}

func baseIpairsNext(l *vm.LState) int {
	t, i := argTable(l), argInt(l, 2)+1
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

// iteratorNames returns what messages call them.
func iteratorNames() map[*vm.LFunction]string {
	return map[*vm.LFunction]string{ipairsNext: "for iterator", pairsNext: "next", libraryNext: "for iterator"}
}

func baseIpairs(l *vm.LState) int {
	t := argTable(l)
	l.Push(ipairsNext)
	l.Push(t)
	l.Push(vm.LNumber(0))
	return 3
}

func baseNext(l *vm.LState) int {
	if values.IsLibrary(l.Get(1)) {
		return baseLibraryNext(l)
	}
	return pushNext(l, argTable(l))
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
		typeError(l, 1, "table")
	}
	return pushNext(l, values.Members(l.Get(1)))
}

func basePairs(l *vm.LState) int {
	v := l.Get(1)
	if values.IsLibrary(v) {
		l.Push(libraryNext)
	} else {
		argTable(l)
		l.Push(pairsNext)
	}
	l.Push(v)
	l.Push(vm.LNil)
	return 3
}

func baseRawequal(l *vm.LState) int {
	l.Push(vm.LBool(argAny(l, 1) == argAny(l, 2)))
	return 1
}

func baseRawget(l *vm.LState) int {
	t := values.Members(l.Get(1))
	if t == nil {
		t = argTable(l)
	}
	l.Push(t.RawGet(argAny(l, 2)))
	return 1
}

func baseRawset(l *vm.LState) int {
	t := argTable(l)
	luajson.Set(l, t, argAny(l, 2), argAny(l, 3)) // refuses nil and NaN
	l.SetTop(1)
	return 1
}

func baseSelect(l *vm.LState) int {
	top := l.GetTop()
	if l.Get(1) == vm.LString("#") {
		l.Push(vm.LNumber(top - 1))
		return 1
	}
	n := argInt(l, 1)
	if n < 0 {
		n += top
	}
	if n < 1 {
		argError(l, 1, "index out of range")
	}
	return max(top-n, 0)
}

func baseTonumber(l *vm.LState) int {
	v := argAny(l, 1)
	base := optInt(l, 2, 10)
	if base != 10 {
		s := argString(l, 1)
		if base < 2 || base > 36 {
			argError(l, 2, "base out of range")
		}
		f, ok := numeral.ParseInteger(l.Meter, s, base)
		return pushNumberOrNil(l, vm.LNumber(f), ok)
	}
	switch v := v.(type) {
	case vm.LNumber:
		l.Push(v)
	case vm.LString:
		n, ok := textNumber(l, v)
		return pushNumberOrNil(l, n, ok)
	default:
		l.Push(vm.LNil)
	}
	return 1
}

func pushNumberOrNil(l *vm.LState, n vm.LNumber, ok bool) int {
	if !ok {
		l.Push(vm.LNil)
		return 1
	}
	l.Push(n)
	return 1
}

func baseTostring(l *vm.LState) int {
	v := argAny(l, 1)
	if s, ok := v.(vm.LString); ok {
		l.Push(s)
		return 1
	}
	l.Push(vm.LString(toString(l, v)))
	return 1
}

var addressSeed = maphash.MakeSeed()

// toString is tostring(v), __tostring included.
func toString(l *vm.LState, v vm.LValue) string {
	switch v := v.(type) {
	case vm.LString:
		return string(v)
	case vm.LNumber:
		return numeral.Format(float64(v))
	case vm.LBool, *vm.LNilType:
		return v.String()
	}
	if fn := l.GetMetaField(v, "__tostring"); fn != vm.LNil {
		l.Push(fn)
		l.Push(v)
		l.Call(1, 1)
		result := l.Get(-1)
		l.Pop(1)
		switch result := result.(type) {
		case vm.LString:
			return string(result)
		case vm.LNumber:
			return numeral.Format(float64(result))
		}
		l.RaiseError("'tostring' must return a string")
	}
	// Not the address itself, which is nobody's business.
	return values.TypeName(v) + ": 0x" + strconv.FormatUint(maphash.Comparable(addressSeed, v), 16)
}

func baseType(l *vm.LState) int {
	l.Push(vm.LString(values.TypeName(argAny(l, 1))))
	return 1
}

func baseUnpack(l *vm.LState) int {
	t := argTable(l)
	first, last := optInt(l, 2, 1), optLast(l, 3, t)
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
