package lua

import (
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// derivedOf returns the derived field of t. It is nil in Lua's sense unless t is the request: the
// first argument of the call, with a table of headers.
func derivedOf(l *vm.LState, t *vm.LTable, name string) vm.LValue {
	c := bind.CallOf(l)
	if !isFirst(c, t) {
		return vm.LNil
	}
	derived := &c.Cookies
	if name == luajson.QueryField {
		derived = &c.Query
	}
	if *derived != nil {
		return *derived
	}
	headers := headersOf(c)
	if headers == nil {
		return vm.LNil
	}
	if name == luajson.QueryField {
		*derived = readQuery(l, memberOf(c, t, "query"))
	} else {
		*derived = readCookies(l, headers)
	}
	return *derived
}

// isFirst reports whether t is the first argument of the call.
func isFirst(c *bind.Call, t *vm.LTable) bool { return len(c.Args) > 0 && c.Args[0] == vm.LValue(t) }

// isRequest reports whether t is the request: it has derived fields.
func isRequest(c *bind.Call, t *vm.LTable) bool { return isFirst(c, t) && headersOf(c) != nil }
