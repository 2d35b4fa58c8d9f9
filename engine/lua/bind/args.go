package bind

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
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

// Raise ends the running function with err, whose kind and position survive
// unless the script catches it: pcall hands it out as a string.
func Raise(l *vm.LState, err *script.Error) {
	if err.Line == 0 {
		where := l.Where(1)
		err.Line = LineOf(where)
		err.Message = LibraryPosition(where+" ") + err.Message
	}
	l.Raise(&vm.LUserData{Value: err})
}

// RaiseLimit is Raise for a bound that is reached.
func RaiseLimit(l *vm.LState, format string, args ...any) {
	Raise(l, script.Errorf(script.Limit, "", format, args...))
}

// LineOf returns the line of a position, such as "script:12:"; 0 if it is none of the script's.
func LineOf(position string) int {
	text, ok := strings.CutPrefix(position, compile.ChunkName+":")
	if !ok {
		return 0
	}
	text, _, _ = strings.Cut(text, ":")
	line, _ := strconv.Atoi(text)
	return line
}

// SplitPosition cuts the position off a message of the machine's: it ends
// with ": ", or is empty.
func SplitPosition(message string) (position, rest string) {
	after, ok := strings.CutPrefix(message, compile.ChunkName+":")
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

// LibraryPosition returns the position that the text begins with, such as "acme/lib:12: ", if it is one of a
// library; else "".
func LibraryPosition(text string) string {
	name, rest, ok := strings.Cut(text, ":")
	if !ok || !strings.Contains(name, "/") {
		return ""
	}
	if _, err := script.ParseName(name); err != nil {
		return ""
	}
	position, _ := SplitPosition(compile.ChunkName + ":" + rest)
	if position == "" {
		return ""
	}
	return name + strings.TrimPrefix(position, compile.ChunkName)
}
