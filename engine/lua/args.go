package lua

import (
	"fmt"
	"math"

	glua "github.com/yuin/gopher-lua"
)

// argError ends the running builtin because its n-th argument is not as it
// should be.
func argError(l *glua.LState, n int, message string) {
	name := "?"
	if debug, ok := l.GetStack(0); ok {
		if fn, err := l.GetInfo("f", debug, glua.LNil); err == nil {
			if known, ok := sandbox().names[fn.(*glua.LFunction)]; ok {
				name = known
			}
		}
	}
	l.RaiseError("bad argument #%d to '%s' (%s)", n, name, message)
}

func typeError(l *glua.LState, n int, want string) {
	got := "no value"
	if n <= l.GetTop() {
		got = valueName(l.Get(n))
		if isLibrary(l.Get(n)) {
			got = "library, which is read-only"
		}
	}
	argError(l, n, fmt.Sprintf("%s expected, got %s", want, got))
}

// typeName is what type() returns for v.
func typeName(v glua.LValue) string {
	if isLibrary(v) {
		return "table"
	}
	return v.Type().String()
}

func isLibrary(v glua.LValue) bool { return libraryMembers(v) != nil }

// libraryMembers returns what is in the library v; nil if it is none.
func libraryMembers(v glua.LValue) *glua.LTable {
	if ud, ok := v.(*glua.LUserData); ok {
		if lib, ok := ud.Value.(library); ok {
			return lib.members
		}
	}
	return nil
}

func argAny(l *glua.LState, n int) glua.LValue {
	if n > l.GetTop() {
		argError(l, n, "value expected")
	}
	return l.Get(n)
}

// argTable returns the first argument, a table, which is not lazy any more.
func argTable(l *glua.LState) *glua.LTable {
	t, ok := l.Get(1).(*glua.LTable)
	if !ok {
		typeError(l, 1, "table")
	}
	settle(callOf(l), t)
	return t
}

func argFunction(l *glua.LState, n int) *glua.LFunction {
	fn, ok := l.Get(n).(*glua.LFunction)
	if !ok {
		typeError(l, n, "function")
	}
	return fn
}

// argString returns a string; numbers count as what they print.
func argString(l *glua.LState, n int) string {
	switch v := l.Get(n).(type) {
	case glua.LString:
		return string(v)
	case glua.LNumber:
		return formatNumber(float64(v))
	}
	typeError(l, n, "string")
	return ""
}

func optString(l *glua.LState, n int, otherwise string) string {
	if l.Get(n) == glua.LNil {
		return otherwise
	}
	return argString(l, n)
}

// argNumber returns a number; strings count if they are one.
func argNumber(l *glua.LState, n int) float64 {
	switch v := l.Get(n).(type) {
	case glua.LNumber:
		return float64(v)
	case glua.LString:
		f, ok := textNumber(l, v)
		if ok {
			return f
		}
	}
	typeError(l, n, "number")
	return 0
}

// textNumber returns the number that a string is, if it is one.
func textNumber(l *glua.LState, v glua.LString) (float64, bool) {
	m := meterOf(l)
	f, ok := m.parseNumber(string(v))
	m.charge(l, 0) // fails here if the budget is why reading did
	return f, ok
}

// argInt returns a number cut to an integer; what is beyond 2^53 counts as 2^53,
// and what is no number as 0.
func argInt(l *glua.LState, n int) int { return toInt(argNumber(l, n)) }

func optInt(l *glua.LState, n, otherwise int) int {
	if l.Get(n) == glua.LNil {
		return otherwise
	}
	return argInt(l, n)
}

// optLast returns the n-th argument, the last index to look at: by default the
// length of t.
func optLast(l *glua.LState, n int, t *glua.LTable) int {
	if l.Get(n) == glua.LNil {
		return border(t)
	}
	return argInt(l, n)
}

func toInt(f float64) int {
	if math.IsNaN(f) {
		return 0
	}
	return int(max(-maxExactInteger, min(f, maxExactInteger)))
}

// rawGetIndex reads t[i], whichever part of the table it lives in.
func rawGetIndex(t *glua.LTable, i int) glua.LValue {
	if 0 < i && i < maxArrayIndex {
		return t.RawGetInt(i)
	}
	return t.RawGetH(glua.LNumber(i))
}

// border is the length of t: an n so that t[n] is not nil and t[n+1] is. What
// gopher-lua says is right for its array part alone.
func border(t *glua.LTable) int {
	n := t.Len()
	if n < maxArrayIndex-1 {
		return n
	}
	low, high := n, 2*n
	for rawGetIndex(t, high) != glua.LNil {
		low, high = high, 2*high
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; rawGetIndex(t, middle) != glua.LNil {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
