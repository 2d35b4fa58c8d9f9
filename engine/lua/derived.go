package lua

import "github.com/scriptorium-dev/scriptorium/engine/lua/vm"

// Fields of a request that the engine derives from others when a script reads them. They are no
// members of the table: pairs does not show them, and a result does not have them.
const (
	cookiesField = "cookies"
	queryField   = "query_params"
)

func isDerived(name string) bool { return name == cookiesField || name == queryField }

// derivedOf returns the derived field of t. It is nil in Lua's sense unless t is the request: the
// first argument of the call, with a table of headers.
func derivedOf(l *vm.LState, t *vm.LTable, name string) vm.LValue {
	c := callOf(l)
	if !c.isFirst(t) {
		return vm.LNil
	}
	derived := &c.cookies
	if name == queryField {
		derived = &c.query
	}
	if *derived != nil {
		return *derived
	}
	headers := headersOf(c)
	if headers == nil {
		return vm.LNil
	}
	if name == queryField {
		*derived = readQuery(l, memberOf(c, t, "query"))
	} else {
		*derived = readCookies(l, headers)
	}
	return *derived
}

// isFirst reports whether t is the first argument of the call.
func (c *call) isFirst(t *vm.LTable) bool {
	return len(c.args) > 0 && c.args[0] == vm.LValue(t)
}

// requestIndex is __index of a request that is not lazy any more.
func requestIndex(l *vm.LState) int {
	t, isTable := l.Get(1).(*vm.LTable)
	name, isText := l.Get(2).(vm.LString)
	if !isTable || !isText || !isDerived(string(name)) {
		l.Push(vm.LNil)
		return 1
	}
	l.Push(derivedOf(l, t, string(name)))
	return 1
}
