package bind

import (
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

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
