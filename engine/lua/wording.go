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
