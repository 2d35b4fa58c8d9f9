package lua

import (
	"math"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine"
)

// apiVersion is scriptorium.api: it counts up when a script could notice that something
// was added, and nothing is ever taken away within it.
const apiVersion = 3

// hostCost is what a call of the host costs: it looks something up.
const hostCost = 10

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

// hostOf returns what the agent lends to the call. Where there is no agent, the script
// has made a mistake by asking for what.
func hostOf(l *glua.LState, what string) engine.Host {
	meterOf(l).charge(l, hostCost)
	host := callOf(l).inv.Host
	if host == nil {
		l.RaiseError("%s is not available: the script runs without an agent", what)
	}
	return host
}

// pushFailure returns nil and what is wrong with a text that came from outside: no
// mistake of the script's, which may want to go on.
func pushFailure(l *glua.LState, message string) int {
	l.Push(glua.LNil)
	l.Push(glua.LString(message))
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
	name := argString(l, 1)
	meterOf(l).charge(l, len(name)/headerBytesPerInstruction)
	if len(name) > maxHeaderName {
		l.Push(glua.LNil)
		return 1
	}
	name = asciiLower(name)
	c := callOf(l)
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
		meterOf(c.l).pay(len(o.members) / headersPerInstruction)
		return o.get(c, name)
	}
	return t.RawGetString(name)
}

const (
	// headersPerInstruction is how many names of headers are compared for one instruction,
	// and headerBytesPerInstruction how many of their bytes.
	headersPerInstruction     = 8
	headerBytesPerInstruction = 16
	// maxHeaderName is longer than the names that any gateway passes on.
	maxHeaderName = 4 << 10
)

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
		if key, ok := k.(glua.LString); ok && sameHeader(l, string(key), name) {
			return v
		}
	}
	return glua.LNil
}

// header returns which member is the header with the name, which is in lower case; -1 if
// none is.
func (o *lazyObject) header(l *glua.LState, name string) int {
	meterOf(l).charge(l, len(o.members)/headersPerInstruction)
	found := -1
	for i := len(o.members) - 1; i >= 0; i-- {
		switch key := o.members[i].name; {
		case key == name:
			return i
		case sameHeader(l, key, name) && found < 0:
			found = i
		}
	}
	return found
}

// sameHeader reports whether key is name, which is in lower case. Only ASCII has
// cases in names of headers.
func sameHeader(l *glua.LState, key, name string) bool {
	if len(key) != len(name) {
		return false
	}
	meterOf(l).charge(l, len(name)/headerBytesPerInstruction)
	for i := range len(key) {
		if lowerByte(key[i]) != name[i] {
			return false
		}
	}
	return true
}

func asciiLower(s string) string {
	for i := range len(s) {
		if lowerByte(s[i]) != s[i] {
			return string(appendLower(make([]byte, 0, len(s)), s))
		}
	}
	return s
}

func appendLower(dst []byte, s string) []byte {
	for i := range len(s) {
		dst = append(dst, lowerByte(s[i]))
	}
	return dst
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
