package lua

import (
	"math"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// apiVersion is scriptorium.api: it counts up when a script could notice that something
// was added, and nothing is ever taken away within it.
const apiVersion = 3

// hostFunctions returns the global functions.
func hostFunctions() map[string]vm.LGFunction {
	return map[string]vm.LGFunction{"get_request_header": getRequestHeader, "log_info": logAt(engine.Info)}
}

// hostLibraries returns what the agent provides to scripts, and what Lua has no library for.
func hostLibraries() []values.Module {
	return []values.Module{
		{Name: "base64", Functions: base64Functions()},
		{Name: "counter", Functions: counterFunctions()},
		{Name: "crypto", Functions: cryptoFunctions()},
		{Name: "kv", Functions: kvFunctions()},
		{Name: "log", Functions: logFunctions()},
		{Name: "ratelimit", Functions: ratelimitFunctions()},
		{Name: "re", Functions: reFunctions()},
		{Name: "scriptorium", Values: map[string]vm.LValue{"api": vm.LNumber(apiVersion)}},
		{Name: "time", Functions: timeFunctions()},
	}
}

// check ends the running builtin if hostapi has refused what it asked for. parameters are hostapi's names of the
// builtin's arguments.
func check(l *vm.LState, err *script.Error, parameters ...string) {
	if err == nil {
		return
	}
	l.Charge(0) // fails here if the budget is why
	for i, name := range parameters {
		if name == err.Field {
			bind.ArgError(l, i+1, err.Message)
		}
	}
	if err.Kind == script.Script {
		l.RaiseError("%s", err.Message)
	}
	bind.Raise(l, script.Errorf(err.Kind, "", "%s", err.Message))
}

// pushOr returns v, or nil and the problem, if there is one, of a text that came from outside: no mistake of the
// script's, which may want to go on.
func pushOr(l *vm.LState, v vm.LValue, problem string) int {
	if problem == "" {
		l.Push(v)
		return 1
	}
	l.Push(vm.LNil)
	l.Push(vm.LString(problem))
	return 2
}

// argOptions returns the n-th argument, a table of options, none of which has another
// name than those.
func argOptions(l *vm.LState, n int, names ...string) *vm.LTable {
	t, ok := l.Get(n).(*vm.LTable)
	if !ok {
		bind.TypeError(l, n, "table")
	}
	luajson.Settle(t)
	m := l.Meter
	for k, _ := m.Next(t, vm.LNil); k != vm.LNil; k, _ = m.Next(t, k) {
		name, known := k.(vm.LString)
		if known {
			known = false
			for _, n := range names {
				known = known || n == string(name)
			}
		}
		if l.Charge(1); !known {
			bind.ArgError(l, n, "there is no option "+values.KeyText(k)+"; there are "+strings.Join(names, ", "))
		}
	}
	return t
}

// numberOption returns the option of the n-th argument, a number, or otherwise if it
// is not given.
func numberOption(l *vm.LState, n int, t *vm.LTable, name string, otherwise float64) float64 {
	switch v := t.RawGetString(name).(type) {
	case vm.LNumber:
		if !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) {
			return float64(v)
		}
	case *vm.LNilType:
		return otherwise
	}
	bind.ArgError(l, n, name+" must be a number")
	return 0
}

// getRequestHeader returns a header of the request: of the first argument, or of the
// globals that stand for it. It copies nothing and changes nothing of either.
func getRequestHeader(l *vm.LState) int {
	c := bind.CallOf(l)
	name, ok := c.Host.HeaderName(bind.ArgString(l, 1))
	l.Charge(0)
	if !ok {
		l.Push(vm.LNil)
		return 1
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
