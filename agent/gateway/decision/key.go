package decision

import (
	"net/url"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

var _ gateway.Keys = (*Request)(nil)

// maxParsed is how many bytes of cookies, or of the query, are looked through for a key: scripts see no
// more of them.
const maxParsed = 64 << 10

// Key implements gateway.Keys: the value is what a script sees under the same name. A header or a
// parameter that comes more than once is no key, so that a client which adds one does not choose
// between two.
func (r *Request) Key(source script.KeySource) string {
	switch part, name := source.Parts(); part {
	case script.KeyAddress:
		return r.RemoteAddr
	case script.KeyHeader:
		return r.onlyHeader(name)
	case script.KeyCookie:
		return r.cookie(name)
	case script.KeyQuery:
		return r.onlyParam(name)
	}
	return ""
}

// onlyHeader returns the value of the header, whose name is in lower case; "" unless it comes once.
func (r *Request) onlyHeader(name string) (value string) {
	seen := 0
	for other, values := range r.Headers {
		if len(values) > 0 && strings.EqualFold(other, name) {
			value, seen = values[0], seen+len(values)
		}
	}
	if seen != 1 {
		return ""
	}
	return value
}

// cookie returns the first of the name, as browsers send the most specific one first.
func (r *Request) cookie(name string) string {
	left := maxParsed
	for header, values := range r.Headers {
		if !strings.EqualFold(header, "cookie") {
			continue
		}
		for _, text := range values {
			for pair := range strings.SplitSeq(text, ";") {
				if left -= len(pair) + 1; left < 0 {
					return ""
				}
				if of, value, ok := strings.Cut(pair, "="); ok && strings.Trim(of, " \t") == name {
					return unquoted(strings.Trim(value, " \t"))
				}
			}
		}
	}
	return ""
}

func unquoted(value string) string {
	if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
		return value[1 : n-1]
	}
	return value
}

// onlyParam returns the parameter of the query; "" unless it comes once, without escapes that cannot be
// decoded.
func (r *Request) onlyParam(name string) (value string) {
	if len(r.Query) > maxParsed {
		return ""
	}
	seen := 0
	for pair := range strings.SplitSeq(r.Query, "&") {
		of, text, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(of); err != nil || decoded != name {
			continue
		}
		var err error
		if value, err = url.QueryUnescape(text); err != nil {
			return ""
		}
		seen++
	}
	if seen != 1 {
		return ""
	}
	return value
}
