package lua

import (
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// Bounds of request.query_params, as of request.cookies.
const (
	maxParams      = 256
	maxParamsBytes = 64 << 10
)

// What request.query_params costs at its first use, besides an instruction for each pair.
const (
	paramCost                = 10 // instructions for each parameter
	paramBytesPerInstruction = 8
)

// readQuery returns the parameters in a query: text by name, or a list of texts for a name that
// comes more than once.
func readQuery(l *glua.LState, query glua.LValue) *glua.LTable {
	m, params := meterOf(l), newTable()
	m.make(l, tableBytes)
	text, isText := query.(glua.LString)
	rest, left := string(text), maxParamsBytes
	for count, more := 0, isText; more && count < maxParams; {
		var pair string
		pair, rest, more = strings.Cut(rest, "&")
		if left -= len(pair) + 1; left < 0 {
			break
		}
		m.charge(l, 1+len(pair)/paramBytesPerInstruction)
		if pair == "" {
			continue
		}
		m.charge(l, paramCost)
		count++
		name, value, _ := strings.Cut(pair, "=")
		addParam(l, params, glua.LString(unescapeForm(name)), glua.LString(unescapeForm(value)))
	}
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

// unescapeForm decodes %XX and +, as forms encode them. What is no escape stays.
func unescapeForm(s string) string {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '+':
			b = append(b, ' ')
		case c == '%' && i+2 < len(s) && isHexDigit(s[i+1]) && isHexDigit(s[i+2]):
			b = append(b, fromHex(s[i+1])<<4|fromHex(s[i+2]))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

func fromHex(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
