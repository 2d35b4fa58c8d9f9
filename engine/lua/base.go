package lua

import (
	"hash/maphash"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// maxResults is how many values a builtin may return.
const maxResults = 8000

// errorCost is what catching an error costs: gopher-lua makes a traceback.
const errorCost = 500

// baseFunctions returns the global functions. What is missing of Lua 5.1 is missing
// on purpose: functions that change environments, load code, reach the outside
// or the collector, and coroutines.
func baseFunctions() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"assert":       baseAssert,
		"error":        baseError,
		"getmetatable": baseGetMetatable,
		"ipairs":       baseIpairs,
		"next":         baseNext,
		"pairs":        basePairs,
		"pcall":        basePcall,
		"rawequal":     baseRawequal,
		"rawget":       baseRawget,
		"rawset":       baseRawset,
		"require":      baseRequire,
		"select":       baseSelect,
		"setmetatable": baseSetmetatable,
		"tonumber":     baseTonumber,
		"tostring":     baseTostring,
		"type":         baseType,
		"unpack":       baseUnpack,
		"xpcall":       baseXpcall,
	}
}

func baseAssert(l *glua.LState) int {
	if !glua.LVIsFalse(argAny(l, 1)) {
		return l.GetTop()
	}
	raiseText(l, whereOf(l), optString(l, 2, "assertion failed!"))
	return 0
}

func baseError(l *glua.LState) int {
	value, level := l.Get(1), optInt(l, 2, 1)
	if level > 0 && isText(value) {
		raiseText(l, where(l, level), argString(l, 1))
	}
	l.Error(value, 0)
	return 0
}

// raiseText raises a text, which may be long, behind a position.
func raiseText(l *glua.LState, position, message string) {
	if position != "" {
		meterOf(l).make(l, stringBytes+len(position)+len(message))
	}
	l.Error(glua.LString(position+message), 0)
}

// whereOf is where of the innermost function that is no builtin.
func whereOf(l *glua.LState) string {
	for level := 1; level <= callStackSize; level++ {
		if position := where(l, level); position != "" {
			return position
		}
	}
	return ""
}

// where returns what messages begin with that blame the function at the level: 1
// is the one that called the builtin that runs. It is empty for builtins, and where
// there is no such level.
func where(l *glua.LState, level int) string {
	position := l.Where(min(level, callStackSize))
	if !strings.HasPrefix(position, chunkName) && libraryPosition(position+" ") == "" {
		return ""
	}
	return position + " "
}

func baseGetMetatable(l *glua.LState) int {
	v := argAny(l, 1)
	switch v.Type() {
	case glua.LTTable, glua.LTString, glua.LTUserData:
		if !isMarked(v) {
			l.Push(l.GetMetatable(v))
			return 1
		}
	}
	l.Push(glua.LNil) // other types have what refusals made, which is ours
	return 1
}

// isMarked reports whether v is a table whose metatable is a mark of ours: for
// scripts it has none.
func isMarked(v glua.LValue) bool {
	t, ok := v.(*glua.LTable)
	if !ok {
		return false
	}
	b := sandbox()
	meta, _ := t.Metatable.(*glua.LTable)
	return meta != nil && (meta == b.arrayMeta || meta == b.requestMeta || meta == b.nullsMeta || meta == b.lazyMeta)
}

func baseSetmetatable(l *glua.LState) int {
	t := argTable(l)
	meta := l.Get(2)
	if _, ok := meta.(*glua.LTable); !ok && (meta != glua.LNil || l.GetTop() < 2) {
		argError(l, 2, "nil or table expected")
	}
	if old, ok := t.Metatable.(*glua.LTable); ok && old.RawGetString("__metatable") != glua.LNil {
		l.RaiseError("cannot change a protected metatable")
	}
	t.Metatable = meta
	l.SetTop(1)
	return 1
}

func baseIpairsNext(l *glua.LState) int {
	t, i := argTable(l), argInt(l, 2)+1
	v := rawGetIndex(t, i)
	if v == glua.LNil {
		return 0
	}
	l.Push(glua.LNumber(i))
	l.Push(v)
	return 2
}

func baseIpairs(l *glua.LState) int {
	t := argTable(l)
	l.Push(sandbox().ipairsNext)
	l.Push(t)
	l.Push(glua.LNumber(0))
	return 3
}

func baseNext(l *glua.LState) int {
	if isLibrary(l.Get(1)) {
		return baseLibraryNext(l)
	}
	return pushNext(l, argTable(l))
}

func pushNext(l *glua.LState, t *glua.LTable) int {
	k, v := meterOf(l).next(t, l.Get(2))
	l.Push(k)
	if k == glua.LNil {
		return 1
	}
	l.Push(v)
	return 2
}

func baseLibraryNext(l *glua.LState) int {
	if !isLibrary(l.Get(1)) {
		typeError(l, 1, "table")
	}
	return pushNext(l, libraryMembers(l.Get(1)))
}

func basePairs(l *glua.LState) int {
	v := l.Get(1)
	if isLibrary(v) {
		l.Push(sandbox().libraryNext)
	} else {
		argTable(l)
		l.Push(sandbox().pairsNext)
	}
	l.Push(v)
	l.Push(glua.LNil)
	return 3
}

// basePcall catches errors of the script, but not the end of its budget.
func basePcall(l *glua.LState) int {
	argAny(l, 1)
	if value, failed := protectedCall(l, l.GetTop()-1); failed {
		l.Push(glua.LFalse)
		l.Push(value)
		return 2
	}
	l.Insert(glua.LTrue, 1)
	return l.GetTop()
}

// baseXpcall calls the handler after the stack was unwound: without the debug
// library it cannot see the difference.
func baseXpcall(l *glua.LState) int {
	handler := argAny(l, 2)
	l.SetTop(1)
	value, failed := protectedCall(l, 0)
	if !failed {
		l.Insert(glua.LTrue, 1)
		return l.GetTop()
	}
	l.SetTop(0)
	l.Push(glua.LFalse)
	if _, callable := handler.(*glua.LFunction); callable {
		l.Push(handler)
		l.Push(value)
		if _, failed := protectedCall(l, 1); !failed {
			l.SetTop(2) // a handler returns one value
			return 2
		}
	}
	l.SetTop(1)
	l.Push(glua.LString("error in error handling"))
	return 2
}

// protectedCall calls the function on the stack and reports whether it failed,
// and with which value.
func protectedCall(l *glua.LState, args int) (glua.LValue, bool) {
	err := l.PCall(args, glua.MultRet, nil)
	if err == nil {
		return nil, false
	}
	m := meterOf(l)
	api, ok := err.(*glua.ApiError) //nolint:errorlint // PCall returns nothing else
	if !ok || api.Type == glua.ApiErrorPanic {
		m.reason = faulted
		m.exhaust()
	}
	m.charge(l, errorCost)
	m.make(l, errorSize(api))
	return caught(api, m), true
}

func baseRawequal(l *glua.LState) int {
	l.Push(glua.LBool(argAny(l, 1) == argAny(l, 2)))
	return 1
}

func baseRawget(l *glua.LState) int {
	t := libraryMembers(l.Get(1))
	if t == nil {
		t = argTable(l)
	}
	l.Push(t.RawGet(argAny(l, 2)))
	return 1
}

func baseRawset(l *glua.LState) int {
	t := argTable(l)
	setRaw(l, t, argAny(l, 2), argAny(l, 3)) // refuses nil and NaN
	l.SetTop(1)
	return 1
}

func baseSelect(l *glua.LState) int {
	top := l.GetTop()
	if l.Get(1) == glua.LString("#") {
		l.Push(glua.LNumber(top - 1))
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

func baseTonumber(l *glua.LState) int {
	v := argAny(l, 1)
	base := optInt(l, 2, 10)
	if base != 10 {
		s := argString(l, 1)
		if base < 2 || base > 36 {
			argError(l, 2, "base out of range")
		}
		pushNumberOrNil(l)(meterOf(l).parseInteger(s, base))
		return 1
	}
	switch v := v.(type) {
	case glua.LNumber:
		l.Push(v)
	case glua.LString:
		pushNumberOrNil(l)(textNumber(l, v))
	default:
		l.Push(glua.LNil)
	}
	return 1
}

func pushNumberOrNil(l *glua.LState) func(float64, bool) {
	return func(f float64, ok bool) {
		if ok {
			l.Push(glua.LNumber(f))
		} else {
			l.Push(glua.LNil)
		}
	}
}

func baseTostring(l *glua.LState) int {
	v := argAny(l, 1)
	if s, ok := v.(glua.LString); ok {
		l.Push(s)
		return 1
	}
	l.Push(glua.LString(toString(l, v)))
	return 1
}

var addressSeed = maphash.MakeSeed()

// toString is tostring(v), __tostring included.
func toString(l *glua.LState, v glua.LValue) string {
	switch v := v.(type) {
	case glua.LString:
		return string(v)
	case glua.LNumber:
		return formatNumber(float64(v))
	case glua.LBool, *glua.LNilType:
		return v.String()
	}
	if fn := l.GetMetaField(v, "__tostring"); fn != glua.LNil {
		l.Push(fn)
		l.Push(v)
		l.Call(1, 1)
		result := l.Get(-1)
		l.Pop(1)
		switch result := result.(type) {
		case glua.LString:
			return string(result)
		case glua.LNumber:
			return formatNumber(float64(result))
		}
		l.RaiseError("'tostring' must return a string")
	}
	// Not the address itself, which is nobody's business.
	return typeName(v) + ": 0x" + strconv.FormatUint(maphash.Comparable(addressSeed, v), 16)
}

func baseType(l *glua.LState) int {
	l.Push(glua.LString(typeName(argAny(l, 1))))
	return 1
}

func baseUnpack(l *glua.LState) int {
	t := argTable(l)
	first, last := optInt(l, 2, 1), optLast(l, 3, t)
	n := last - first + 1
	if n <= 0 {
		return 0
	}
	if n > maxResults {
		l.RaiseError("too many results to unpack")
	}
	meterOf(l).charge(l, n)
	for i := range n {
		l.Push(rawGetIndex(t, first+i))
	}
	return n
}
