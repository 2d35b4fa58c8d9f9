package lua

import (
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// cookiesField is the field of a request that the engine adds. It is no member of the
// table: pairs does not show it, and a result does not have it.
const cookiesField = "cookies"

// Bounds of request.cookies. No gateway passes on longer headers, and browsers send
// fewer cookies.
const (
	maxCookies     = 256
	maxCookieBytes = 64 << 10 // of Cookie headers
)

// What request.cookies costs at its first use, besides an instruction for each pair.
const (
	cookieCost                = 10 // instructions for each cookie
	cookieBytesPerInstruction = 8
)

// cookiesOf returns the field cookies of t. It is nil in Lua's sense unless t is the
// request: the first argument of the call, with a table of headers.
func cookiesOf(l *glua.LState, t *glua.LTable) glua.LValue {
	c := callOf(l)
	if !c.isFirst(t) {
		return glua.LNil
	}
	if c.cookies != nil {
		return c.cookies
	}
	headers := headersOf(c)
	if headers == nil {
		return glua.LNil
	}
	r := cookieReader{l: l, meter: meterOf(l), cookies: newTable(), left: maxCookieBytes}
	r.meter.make(l, tableBytes)
	r.header(headerOf(l, headers, "cookie"))
	c.cookies = r.cookies
	return c.cookies
}

// isFirst reports whether t is the first argument of the call.
func (c *call) isFirst(t *glua.LTable) bool {
	return len(c.args) > 0 && c.args[0] == glua.LValue(t)
}

// requestIndex is __index of a request that is not lazy any more.
func requestIndex(l *glua.LState) int {
	t, ok := l.Get(1).(*glua.LTable)
	if !ok || l.Get(2) != glua.LValue(glua.LString(cookiesField)) {
		l.Push(glua.LNil)
		return 1
	}
	l.Push(cookiesOf(l, t))
	return 1
}

// cookieReader reads Cookie headers (RFC 6265, section 4.2) and skips what is no cookie.
type cookieReader struct {
	l       *glua.LState
	meter   *meter
	cookies *glua.LTable
	count   int
	left    int // bytes that may still be read
}

// header reads the value of the header: text, or a list of texts.
func (r *cookieReader) header(value glua.LValue) {
	switch v := value.(type) {
	case glua.LString:
		r.text(string(v))
	case *glua.LTable:
		if lazyOf(v) != nil {
			return
		}
		for i := range v.Len() {
			r.meter.charge(r.l, 1)
			if text, ok := v.RawGetInt(i + 1).(glua.LString); ok {
				r.text(string(text))
			}
		}
	}
}

func (r *cookieReader) text(header string) {
	for more := true; more; {
		var pair string
		pair, header, more = strings.Cut(header, ";")
		if r.left -= len(pair) + 1; r.left < 0 || r.count == maxCookies {
			r.left = 0
			return
		}
		r.meter.charge(r.l, 1+len(pair)/cookieBytesPerInstruction)
		if name, value, ok := parseCookie(pair); ok {
			r.add(name, value)
		}
	}
}

// add keeps the first cookie of a name: clients send the one with the longest path first.
func (r *cookieReader) add(name, value string) {
	if r.cookies.RawGetString(name) != glua.LNil {
		return
	}
	r.meter.charge(r.l, cookieCost)
	r.count++
	setRaw(r.l, r.cookies, glua.LString(name), glua.LString(value))
}

// parseCookie parses name=value. It takes the quotes off the value, and decodes nothing.
func parseCookie(pair string) (name, value string, ok bool) {
	const blank = " \t"
	name, value, ok = strings.Cut(pair, "=")
	name, value = strings.Trim(name, blank), strings.Trim(value, blank)
	if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
		value = value[1 : n-1]
	}
	return name, value, ok && isToken(name) && !hasControl(value)
}

// isToken reports whether s may be the name of a cookie: a token of RFC 9110.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}
