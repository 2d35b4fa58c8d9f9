package hostlib

import (
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// Derived returns the derived field of t. It is nil in Lua's sense unless t is the request: the
// first argument of the call, with a table of headers.
func Derived(l *vm.LState, t *vm.LTable, name string) vm.LValue {
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

// IsRequest reports whether t is the request: it has derived fields.
func IsRequest(c *bind.Call, t *vm.LTable) bool { return isFirst(c, t) && headersOf(c) != nil }

// getRequestHeader returns a header of the request: of the first argument, or of the
// globals that stand for it. It copies nothing and changes nothing of either.
func getRequestHeader(l *vm.LState) int {
	c := bind.CallOf(l)
	name, ok := c.Host.HeaderName(bind.ArgString(l, 1))
	l.Charge(0)
	if !ok {
		return l.Return(vm.LNil)
	}
	value := headerOf(l, headersOf(c), name)
	if list, ok := value.(*vm.LTable); ok && luajson.Lazy(list) == nil {
		value = list.RawGetInt(1)
	}
	switch v := value.(type) {
	case vm.LString:
		l.Push(v)
	case vm.LNumber:
		l.Push(vm.LString(numeral.Format(float64(v))))
	default:
		l.Push(vm.LNil)
	}
	return 1
}

// headersOf returns the headers of the request that the call is about; nil if there are
// none.
func headersOf(c *bind.Call) *vm.LTable {
	var headers vm.LValue
	switch {
	case c.Globals != nil:
		headers = c.Globals.RawGetString("headers")
	case len(c.Args) > 0:
		if request, ok := c.Args[0].(*vm.LTable); ok {
			headers = memberOf(c, request, "headers")
		}
	}
	t, _ := headers.(*vm.LTable)
	return t
}

// memberOf returns t[name], raw, and leaves t lazy if it is.
func memberOf(c *bind.Call, t *vm.LTable, name string) vm.LValue {
	if o := luajson.Lazy(t); o != nil {
		c.Host.Pay(o.Count() / hostapi.HeadersPerInstruction)
		return o.Get(name)
	}
	return t.RawGetString(name)
}

// headerOf returns the header with the name, which is in lower case; one that is
// written so counts first. It is nil in Lua's sense if there is none.
func headerOf(l *vm.LState, headers *vm.LTable, name string) vm.LValue {
	if headers == nil {
		return vm.LNil
	}
	if o := luajson.Lazy(headers); o != nil {
		if i := headerAt(l, o, name); i >= 0 {
			return o.ValueAt(i)
		}
		return vm.LNil
	}
	if v := headers.RawGetString(name); v != vm.LNil {
		return v
	}
	m := l.Meter
	for k, v := m.Next(headers, vm.LNil); k != vm.LNil; k, v = m.Next(headers, k) {
		l.Charge(1)
		if key, ok := k.(vm.LString); ok && bind.HostOf(l).SameHeader(string(key), name) {
			return v
		}
	}
	return vm.LNil
}

// headerAt returns which member is the header with the name, which is in lower case; -1 if
// none is.
func headerAt(l *vm.LState, o *luajson.Object, name string) int {
	l.Charge(o.Count() / hostapi.HeadersPerInstruction)
	found := -1
	for i := o.Count() - 1; i >= 0; i-- {
		switch key := o.Name(i); {
		case key == name:
			return i
		case bind.HostOf(l).SameHeader(key, name) && found < 0:
			found = i
		}
	}
	return found
}

// readCookies returns the cookies in the headers of a request: the first one of each name.
func readCookies(l *vm.LState, headers *vm.LTable) *vm.LTable {
	cookies := &vm.LTable{}
	bind.Allocate(l, vm.TableBytes)
	pairs := bind.HostOf(l).Pairs()
	read := func(header vm.LValue) {
		text, ok := header.(vm.LString)
		if !ok {
			return
		}
		for name, value := range pairs.Cookies(string(text)) {
			if cookies.RawGetString(name) == vm.LNil && pairs.Keep() {
				luajson.Set(l, cookies, vm.LString(name), vm.LString(value))
			}
		}
		l.Charge(0)
	}
	header := headerOf(l, headers, "cookie")
	read(header)
	if list, ok := header.(*vm.LTable); ok && luajson.Lazy(list) == nil {
		for i := range list.Len() {
			l.Charge(1)
			read(list.RawGetInt(i + 1))
		}
	}
	return cookies
}

// readQuery returns the parameters in a query: text by name, or a list of texts for a name that
// comes more than once.
func readQuery(l *vm.LState, query vm.LValue) *vm.LTable {
	params := &vm.LTable{}
	bind.Allocate(l, vm.TableBytes)
	text, ok := query.(vm.LString)
	if !ok {
		return params
	}
	pairs := bind.HostOf(l).Pairs()
	for name, value := range pairs.Query(string(text)) {
		addParam(l, params, vm.LString(name), vm.LString(value))
	}
	l.Charge(0)
	return params
}

func addParam(l *vm.LState, params *vm.LTable, name, value vm.LString) {
	switch before := params.RawGetString(string(name)).(type) {
	case *vm.LTable:
		luajson.Set(l, before, vm.LNumber(before.Len()+1), value)
	case vm.LString:
		list := &vm.LTable{}
		bind.Allocate(l, vm.TableBytes)
		luajson.Set(l, list, vm.LNumber(1), before)
		luajson.Set(l, list, vm.LNumber(2), value)
		luajson.Set(l, params, name, list)
	default:
		luajson.Set(l, params, name, value)
	}
}
