package lua

import (
	"strings"

	glua "github.com/yuin/gopher-lua"
)

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

// readCookies returns the cookies in the headers of a request.
func readCookies(l *glua.LState, headers *glua.LTable) *glua.LTable {
	r := cookieReader{l: l, meter: meterOf(l), cookies: newTable(), left: maxCookieBytes}
	r.meter.make(l, tableBytes)
	r.header(headerOf(l, headers, "cookie"))
	return r.cookies
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
