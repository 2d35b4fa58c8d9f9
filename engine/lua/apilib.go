package lua

import (
	"math"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/script"
)

// apiVersion is scriptorium.api: it counts up when a script could notice that something
// was added, and nothing is ever taken away within it.
const apiVersion = 3

// addAPI adds what the agent lends to scripts, and what Lua has no library for.
func (b *box) addAPI() {
	b.fill(b.base, "", map[string]glua.LGFunction{
		"get_request_header": getRequestHeader,
		"log_info":           logAt(engine.Info),
	})
	b.library("base64", base64Functions(), nil)
	b.library("counter", counterFunctions(), nil)
	b.library("crypto", cryptoFunctions(), nil)
	b.library("kv", kvFunctions(), nil)
	b.library("log", logFunctions(), nil)
	b.library("ratelimit", ratelimitFunctions(), nil)
	b.library("re", reFunctions(), nil)
	b.library("scriptorium", nil, map[string]glua.LValue{"api": glua.LNumber(apiVersion)})
	b.library("time", timeFunctions(), nil)
}

// hostOf returns what the call of l may use of hostapi.
func hostOf(l *glua.LState) *hostapi.Call { return &callOf(l).host }

// check ends the running builtin if hostapi has refused what it asked for. parameters are hostapi's names of the
// builtin's arguments.
func check(l *glua.LState, err *script.Error, parameters ...string) {
	if err == nil {
		return
	}
	meterOf(l).charge(l, 0) // fails here if the budget is why
	for i, name := range parameters {
		if name == err.Field {
			argError(l, i+1, err.Message)
		}
	}
	if err.Kind == script.Script {
		l.RaiseError("%s", err.Message)
	}
	raise(l, script.Errorf(err.Kind, "", "%s", err.Message))
}

// pushOr returns v, or nil and the problem, if there is one, of a text that came from outside: no mistake of the
// script's, which may want to go on.
func pushOr(l *glua.LState, v glua.LValue, problem string) int {
	if problem == "" {
		l.Push(v)
		return 1
	}
	l.Push(glua.LNil)
	l.Push(glua.LString(problem))
	return 2
}

// argOptions returns the n-th argument, a table of options, none of which has another
// name than those.
func argOptions(l *glua.LState, n int, names ...string) *glua.LTable {
	t, ok := l.Get(n).(*glua.LTable)
	if !ok {
		typeError(l, n, "table")
	}
	settle(callOf(l), t)
	m := meterOf(l)
	for k, _ := m.next(t, glua.LNil); k != glua.LNil; k, _ = m.next(t, k) {
		name, known := k.(glua.LString)
		if known {
			known = false
			for _, n := range names {
				known = known || n == string(name)
			}
		}
		if m.charge(l, 1); !known {
			argError(l, n, "there is no option "+keyText(k)+"; there are "+strings.Join(names, ", "))
		}
	}
	return t
}

// numberOption returns the option of the n-th argument, a number, or otherwise if it
// is not given.
func numberOption(l *glua.LState, n int, t *glua.LTable, name string, otherwise float64) float64 {
	switch v := t.RawGetString(name).(type) {
	case glua.LNumber:
		if !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) {
			return float64(v)
		}
	case *glua.LNilType:
		return otherwise
	}
	argError(l, n, name+" must be a number")
	return 0
}

// getRequestHeader returns a header of the request: of the first argument, or of the
// globals that stand for it. It copies nothing and changes nothing of either.
func getRequestHeader(l *glua.LState) int {
	c := callOf(l)
	name, ok := c.host.HeaderName(argString(l, 1))
	meterOf(l).charge(l, 0)
	if !ok {
		l.Push(glua.LNil)
		return 1
	}
	value := headerOf(l, headersOf(c), name)
	if list, ok := value.(*glua.LTable); ok && lazyOf(list) == nil {
		value = list.RawGetInt(1)
	}
	switch v := value.(type) {
	case glua.LString:
		l.Push(v)
	case glua.LNumber:
		l.Push(glua.LString(formatNumber(float64(v))))
	default:
		l.Push(glua.LNil)
	}
	return 1
}

// headersOf returns the headers of the request that the call is about; nil if there are
// none.
func headersOf(c *call) *glua.LTable {
	var headers glua.LValue
	switch {
	case c.program.entrypoint == "":
		headers = c.env.RawGetString("headers")
	case len(c.args) > 0:
		if request, ok := c.args[0].(*glua.LTable); ok {
			headers = memberOf(c, request, "headers")
		}
	}
	t, _ := headers.(*glua.LTable)
	return t
}

// memberOf returns t[name], raw, and leaves t lazy if it is.
func memberOf(c *call, t *glua.LTable, name string) glua.LValue {
	if o := lazyOf(t); o != nil {
		meterOf(c.l).pay(len(o.members) / hostapi.HeadersPerInstruction)
		return o.get(c, name)
	}
	return t.RawGetString(name)
}

// headerOf returns the header with the name, which is in lower case; one that is
// written so counts first. It is nil in Lua's sense if there is none.
func headerOf(l *glua.LState, headers *glua.LTable, name string) glua.LValue {
	if headers == nil {
		return glua.LNil
	}
	if o := lazyOf(headers); o != nil {
		if i := o.header(l, name); i >= 0 {
			return o.valueAt(callOf(l), i)
		}
		return glua.LNil
	}
	if v := headers.RawGetString(name); v != glua.LNil {
		return v
	}
	m := meterOf(l)
	for k, v := m.next(headers, glua.LNil); k != glua.LNil; k, v = m.next(headers, k) {
		m.charge(l, 1)
		if key, ok := k.(glua.LString); ok && hostOf(l).SameHeader(string(key), name) {
			return v
		}
	}
	return glua.LNil
}

// header returns which member is the header with the name, which is in lower case; -1 if
// none is.
func (o *lazyObject) header(l *glua.LState, name string) int {
	meterOf(l).charge(l, len(o.members)/hostapi.HeadersPerInstruction)
	found := -1
	for i := len(o.members) - 1; i >= 0; i-- {
		switch key := o.members[i].name; {
		case key == name:
			return i
		case hostOf(l).SameHeader(key, name) && found < 0:
			found = i
		}
	}
	return found
}

// readCookies returns the cookies in the headers of a request: the first one of each name.
func readCookies(l *glua.LState, headers *glua.LTable) *glua.LTable {
	m, cookies := meterOf(l), newTable()
	m.make(l, tableBytes)
	pairs := hostOf(l).Pairs()
	read := func(header glua.LValue) {
		text, ok := header.(glua.LString)
		if !ok {
			return
		}
		for name, value := range pairs.Cookies(string(text)) {
			if cookies.RawGetString(name) == glua.LNil && pairs.Keep() {
				setRaw(l, cookies, glua.LString(name), glua.LString(value))
			}
		}
		m.charge(l, 0)
	}
	header := headerOf(l, headers, "cookie")
	read(header)
	if list, ok := header.(*glua.LTable); ok && lazyOf(list) == nil {
		for i := range list.Len() {
			m.charge(l, 1)
			read(list.RawGetInt(i + 1))
		}
	}
	return cookies
}

// readQuery returns the parameters in a query: text by name, or a list of texts for a name that
// comes more than once.
func readQuery(l *glua.LState, query glua.LValue) *glua.LTable {
	m, params := meterOf(l), newTable()
	m.make(l, tableBytes)
	text, ok := query.(glua.LString)
	if !ok {
		return params
	}
	pairs := hostOf(l).Pairs()
	for name, value := range pairs.Query(string(text)) {
		addParam(l, params, glua.LString(name), glua.LString(value))
	}
	m.charge(l, 0)
	return params
}

func addParam(l *glua.LState, params *glua.LTable, name, value glua.LString) {
	switch before := params.RawGetString(string(name)).(type) {
	case *glua.LTable:
		setRaw(l, before, glua.LNumber(before.Len()+1), value)
	case glua.LString:
		list := newTable()
		meterOf(l).make(l, tableBytes)
		setRaw(l, list, glua.LNumber(1), before)
		setRaw(l, list, glua.LNumber(2), value)
		setRaw(l, params, name, list)
	default:
		setRaw(l, params, name, value)
	}
}
