package lua

import (
	"fmt"
	"math"

	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// argError ends the running builtin because its n-th argument is not as it
// should be.
func argError(l *vm.LState, n int, message string) {
	name := "?"
	if f := l.Frame(); f != nil {
		if known, ok := bindingOf(l).Names[f.Fn]; ok {
			name = known
		}
	}
	l.RaiseError("bad argument #%d to '%s' (%s)", n, name, message)
}

func typeError(l *vm.LState, n int, want string) {
	got := "no value"
	if n <= l.GetTop() {
		got = values.Name(l.Get(n))
		if values.IsLibrary(l.Get(n)) {
			got = "library, which is read-only"
		}
	}
	argError(l, n, fmt.Sprintf("%s expected, got %s", want, got))
}

func argAny(l *vm.LState, n int) vm.LValue {
	if n > l.GetTop() {
		argError(l, n, "value expected")
	}
	return l.Get(n)
}

// argTable returns the first argument, a table, which is not lazy any more.
func argTable(l *vm.LState) *vm.LTable {
	t, ok := l.Get(1).(*vm.LTable)
	if !ok {
		typeError(l, 1, "table")
	}
	luajson.Settle(t)
	return t
}

func argFunction(l *vm.LState, n int) *vm.LFunction {
	fn, ok := l.Get(n).(*vm.LFunction)
	if !ok {
		typeError(l, n, "function")
	}
	return fn
}

// argString returns a string; numbers count as what they print.
func argString(l *vm.LState, n int) string {
	switch v := l.Get(n).(type) {
	case vm.LString:
		return string(v)
	case vm.LNumber:
		return numeral.Format(float64(v))
	}
	typeError(l, n, "string")
	return ""
}

func optString(l *vm.LState, n int, otherwise string) string {
	if l.Get(n) == vm.LNil {
		return otherwise
	}
	return argString(l, n)
}

// argNumber returns a number; strings count if they are one.
func argNumber(l *vm.LState, n int) float64 {
	switch v := l.Get(n).(type) {
	case vm.LNumber:
		return float64(v)
	case vm.LString:
		if f, ok := textNumber(l, v); ok {
			return float64(f)
		}
	}
	typeError(l, n, "number")
	return 0
}

// textNumber returns the number that a string is, if it is one.
func textNumber(l *vm.LState, v vm.LString) (vm.LNumber, bool) {
	f, ok := numeral.Parse(l.Meter, string(v))
	l.Charge(0) // fails here if the budget is why reading did
	return vm.LNumber(f), ok
}

// argInt returns a number cut to an integer; what is beyond 2^53 counts as 2^53,
// and what is no number as 0.
func argInt(l *vm.LState, n int) int { return toInt(argNumber(l, n)) }

func optInt(l *vm.LState, n, otherwise int) int {
	if l.Get(n) == vm.LNil {
		return otherwise
	}
	return argInt(l, n)
}

// optLast returns the n-th argument, the last index to look at: by default the
// length of t.
func optLast(l *vm.LState, n int, t *vm.LTable) int {
	if l.Get(n) == vm.LNil {
		return border(t)
	}
	return argInt(l, n)
}

func toInt(f float64) int {
	if math.IsNaN(f) {
		return 0
	}
	return int(max(-numeral.MaxExact, min(f, numeral.MaxExact)))
}

// border is the length of t: an n so that t[n] is not nil and t[n+1] is. t.Len is
// one of its array part alone.
func border(t *vm.LTable) int {
	n := t.Len()
	if n < vm.MaxArrayIndex-1 {
		return n
	}
	low, high := n, 2*n
	for t.RawGetInt(high) != vm.LNil {
		low, high = high, 2*high
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; t.RawGetInt(middle) != vm.LNil {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
