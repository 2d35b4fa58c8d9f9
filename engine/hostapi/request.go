package hostapi

import (
	"iter"
	"strings"
)

const (
	// HeadersPerInstruction is how many names of headers are compared for one instruction.
	HeadersPerInstruction = 8
	// headerBytesPerInstruction is how many of their bytes are.
	headerBytesPerInstruction = 16
	// maxHeaderName is longer than the names that any gateway passes on.
	maxHeaderName = 4 << 10

	// Bounds of cookies and of the parameters of a query. No gateway passes on longer headers, and browsers send fewer
	// cookies.
	maxPairs      = 256
	maxPairsBytes = 64 << 10
	// pairCost is what each that is kept costs, besides its bytes.
	pairCost                = 10
	pairBytesPerInstruction = 8
)

// HeaderName returns a name as SameHeader wants it; ok is false if no header has such a name, or the call is to end.
func (c *Call) HeaderName(name string) (lower string, ok bool) {
	if !c.Pay(len(name)/headerBytesPerInstruction) || len(name) > maxHeaderName {
		return "", false
	}
	for i := range len(name) {
		if lowerByte(name[i]) != name[i] {
			return lowered(name), true
		}
	}
	return name, true
}

func lowered(s string) string {
	dst := make([]byte, 0, len(s))
	for i := range len(s) {
		dst = append(dst, lowerByte(s[i]))
	}
	return string(dst)
}

// SameHeader reports whether key is name, which is in lower case, and pays for that. Only ASCII has cases in names of
// headers.
func (c *Call) SameHeader(key, name string) bool {
	if len(key) != len(name) || !c.Pay(len(name)/headerBytesPerInstruction) {
		return false
	}
	for i := range len(key) {
		if lowerByte(key[i]) != name[i] {
			return false
		}
	}
	return true
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// Pairs reads cookies or parameters: no more than one request may have of them. It skips what is neither.
type Pairs struct {
	call  *Call
	count int
	bytes int // that were read
}

// Pairs returns a reader that has read nothing.
func (c *Call) Pairs() Pairs { return Pairs{call: c} }

// Keep is for a pair that is kept. It reports whether the call may go on.
func (p *Pairs) Keep() bool {
	p.count++
	return p.call.Pay(pairCost)
}

// split yields the parts of text.
func (p *Pairs) split(text, separator string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for more := true; more; {
			var pair string
			pair, text, more = strings.Cut(text, separator)
			if p.bytes += len(pair) + 1; p.bytes > maxPairsBytes || p.count == maxPairs {
				p.bytes = maxPairsBytes
				return
			}
			if !p.call.Pay(1+len(pair)/pairBytesPerInstruction) || !yield(pair) {
				return
			}
		}
	}
}

// Cookies yields the cookies of a Cookie header (RFC 6265, section 4.2). It takes the quotes off values, and decodes
// nothing. Of those with one name, the first counts: clients send the one with the longest path first.
func (p *Pairs) Cookies(header string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for pair := range p.split(header, ";") {
			if name, value, ok := parseCookie(pair); ok && !yield(name, value) {
				return
			}
		}
	}
}

// parseCookie parses name=value.
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

// Query yields the parameters of a query, decoded as forms encode them. It keeps all of them.
func (p *Pairs) Query(query string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for pair := range p.split(query, "&") {
			if pair == "" {
				continue
			}
			if !p.Keep() {
				return
			}
			name, value, _ := strings.Cut(pair, "=")
			if !yield(unescapeForm(name), unescapeForm(value)) {
				return
			}
		}
	}
}

// unescapeForm decodes %XX and +. What is no escape stays.
func unescapeForm(s string) string {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '+':
			b = append(b, ' ')
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b = append(b, fromHex(s[i+1])<<4|fromHex(s[i+2]))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

func fromHex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
