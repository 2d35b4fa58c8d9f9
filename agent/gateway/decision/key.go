package decision

import (
	"net/url"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

var _ gateway.Keys = (*Request)(nil)

// Bounds of what is looked through for a key: scripts see no more of it.
const (
	maxParsed = 64 << 10 // bytes of cookies, or of the query
	maxPairs  = 256      // parameters, or cookies
	escaped   = 3        // bytes of a query that one byte of a key can take
)

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
	var few [4]string
	headers := few[:0]
	for header := range r.Headers {
		if strings.EqualFold(header, "cookie") {
			headers = append(headers, header)
		}
	}
	slices.Sort(headers)
	left, pairs := maxParsed, 0
	for _, header := range headers {
		for _, text := range r.Headers[header] {
			for pair := range strings.SplitSeq(text, ";") {
				if left -= len(pair) + 1; left < 0 || pairs == maxPairs {
					return ""
				}
				of, value, ok := strings.Cut(pair, "=")
				if !ok {
					continue
				}
				pairs++
				if strings.Trim(of, blank) != name {
					continue
				}
				if value = strings.Trim(value, blank); !strings.ContainsFunc(value, isControl) { // else it is no cookie
					return unquoted(value)
				}
			}
		}
	}
	return ""
}

const blank = " \t"

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

func unquoted(value string) string {
	if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
		return value[1 : n-1]
	}
	return value
}

// onlyParam returns the parameter of the query; "" unless it comes once, without escapes that cannot be
// decoded. It decodes nothing that is too long for the name, or for a key.
func (r *Request) onlyParam(name string) (value string) {
	left, pairs, seen := maxParsed, 0, 0
	for pair := range strings.SplitSeq(r.Query, "&") {
		if left -= len(pair) + 1; left < 0 || pairs == maxPairs {
			break
		}
		if pair == "" {
			continue
		}
		pairs++
		of, text, _ := strings.Cut(pair, "=")
		if len(of) > escaped*len(name) {
			continue
		}
		if decoded, err := url.QueryUnescape(of); err != nil || decoded != name {
			continue
		}
		var err error
		if seen++; seen > 1 || len(text) > escaped*script.MaxKeyBytes {
			return ""
		}
		if value, err = url.QueryUnescape(text); err != nil || len(value) > script.MaxKeyBytes {
			return ""
		}
	}
	return value
}
