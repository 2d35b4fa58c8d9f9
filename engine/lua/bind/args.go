package bind

import (
	"fmt"
	"math"

	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// ArgError ends the running builtin because its n-th argument is not as it
// should be.
func ArgError(l *vm.LState, n int, message string) {
	name := "?"
	if f := l.Frame(); f != nil {
		if known, ok := CallOf(l).Names[f.Fn]; ok {
			name = known
		}
	}
	l.RaiseError("bad argument #%d to '%s' (%s)", n, name, message)
}

// TypeError is ArgError for a value of a wrong type.
func TypeError(l *vm.LState, n int, want string) {
	got := "no value"
	if n <= l.GetTop() {
		got = values.Name(l.Get(n))
		if values.IsLibrary(l.Get(n)) {
			got = "library, which is read-only"
		}
	}
	ArgError(l, n, fmt.Sprintf("%s expected, got %s", want, got))
}

// ArgAny returns the n-th argument, which may be nil but not missing.
func ArgAny(l *vm.LState, n int) vm.LValue {
	if n > l.GetTop() {
		ArgError(l, n, "value expected")
	}
	return l.Get(n)
}

// ArgTable returns the first argument, a table, which is not lazy any more.
func ArgTable(l *vm.LState) *vm.LTable {
	t, ok := l.Get(1).(*vm.LTable)
	if !ok {
		TypeError(l, 1, "table")
	}
	luajson.Settle(t)
	return t
}

// ArgFunction returns a function.
func ArgFunction(l *vm.LState, n int) *vm.LFunction {
	fn, ok := l.Get(n).(*vm.LFunction)
	if !ok {
		TypeError(l, n, "function")
	}
	return fn
}

// ArgString returns a string; numbers count as what they print.
func ArgString(l *vm.LState, n int) string {
	switch v := l.Get(n).(type) {
	case vm.LString:
		return string(v)
	case vm.LNumber:
		return numeral.Format(float64(v))
	}
	TypeError(l, n, "string")
	return ""
}

// OptString is ArgString, or otherwise if the argument is nil or missing.
func OptString(l *vm.LState, n int, otherwise string) string {
	if l.Get(n) == vm.LNil {
		return otherwise
	}
	return ArgString(l, n)
}

// ArgNumber returns a number; strings count if they are one.
func ArgNumber(l *vm.LState, n int) float64 {
	switch v := l.Get(n).(type) {
	case vm.LNumber:
		return float64(v)
	case vm.LString:
		if f, ok := TextNumber(l, v); ok {
			return float64(f)
		}
	}
	TypeError(l, n, "number")
	return 0
}

// TextNumber returns the number that a string is, if it is one.
func TextNumber(l *vm.LState, v vm.LString) (vm.LNumber, bool) {
	f, ok := numeral.Parse(l.Meter, string(v))
	l.Charge(0) // fails here if the budget is why reading did
	return vm.LNumber(f), ok
}

// ArgInt returns a number cut to an integer; what is beyond 2^53 counts as 2^53,
// and what is no number as 0.
func ArgInt(l *vm.LState, n int) int { return ToInt(ArgNumber(l, n)) }

// OptInt is ArgInt, or otherwise if the argument is nil or missing.
func OptInt(l *vm.LState, n, otherwise int) int {
	if l.Get(n) == vm.LNil {
		return otherwise
	}
	return ArgInt(l, n)
}

// OptLast returns the n-th argument, the last index to look at: by default the
// length of t.
func OptLast(l *vm.LState, n int, t *vm.LTable) int {
	if l.Get(n) == vm.LNil {
		return Border(t)
	}
	return ArgInt(l, n)
}

// ToInt is ArgInt for a number.
func ToInt(f float64) int {
	if math.IsNaN(f) {
		return 0
	}
	return int(max(-numeral.MaxExact, min(f, numeral.MaxExact)))
}

// Border is the length of t: an n so that t[n] is not nil and t[n+1] is. t.Len is
// one of its array part alone.
func Border(t *vm.LTable) int {
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
