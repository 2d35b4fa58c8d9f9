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
	part, name := source.Parts()
	if part == script.KeyAddress {
		return r.RemoteAddr
	}
	if r.keys.lookups++; r.keys.lookups > fewKeys {
		return r.indexed(part, name)
	}
	switch part {
	case script.KeyHeader:
		return r.onlyHeader(name)
	case script.KeyCookie:
		return r.cookie(name)
	case script.KeyQuery:
		return r.onlyParam(name)
	}
	return ""
}

// fewKeys of a request are looked for one by one, which takes no memory. Each script of a chain may have
// a key of its own, and a client may send many cookies: for more keys, an index is made.
const fewKeys = 4

// keys are the parts of a request by name. A part that is no key because of others is "".
type keys struct {
	lookups int
	headers map[string]string
	cookies map[string]string
	params  map[string]string // as they came
}

// indexed is Key, with an index.
func (r *Request) indexed(part script.KeyPart, name string) string {
	k := &r.keys
	switch part {
	case script.KeyHeader:
		if k.headers == nil {
			k.headers = make(map[string]string, len(r.Headers))
			for name, values := range r.Headers {
				if len(values) > 0 {
					once(k.headers, lowerOf(name), values[0], len(values) == 1)
				}
			}
		}
		return k.headers[name]
	case script.KeyCookie:
		if k.cookies == nil {
			k.cookies = map[string]string{}
			r.eachCookie(func(name, value string) bool {
				if _, there := k.cookies[name]; !there && isCookie(value) {
					k.cookies[name] = unquoted(value)
				}
				return true
			})
		}
		return k.cookies[name]
	case script.KeyQuery:
		if k.params == nil {
			k.params = map[string]string{}
			r.eachParam(func(name, text string) bool {
				if len(name) <= escaped*script.MaxKeyName {
					if decoded, err := url.QueryUnescape(name); err == nil {
						once(k.params, decoded, text, true)
					}
				}
				return true
			})
		}
		return param(k.params[name])
	}
	return ""
}

// once notes the value of the name, or "" if there is another one.
func once(values map[string]string, name, value string, alone bool) {
	if _, there := values[name]; there || !alone {
		value = ""
	}
	values[name] = value
}

// onlyHeader returns the value of the header, whose name is in lower case; "" unless it comes once.
func (r *Request) onlyHeader(name string) (value string) {
	seen := 0
	for other, values := range r.Headers {
		if len(values) > 0 && isNamed(other, name) {
			value, seen = values[0], seen+len(values)
		}
	}
	if seen != 1 {
		return ""
	}
	return value
}

// cookie returns the first of the name, as browsers send the most specific one first.
func (r *Request) cookie(name string) (value string) {
	r.eachCookie(func(of, text string) bool {
		if of != name || !isCookie(text) {
			return true
		}
		value = unquoted(text)
		return false
	})
	return value
}

// eachCookie calls take with the pairs of the cookies, until it returns false.
func (r *Request) eachCookie(take func(name, value string) bool) {
	var few [4]string
	headers := few[:0]
	for header := range r.Headers {
		if isNamed(header, "cookie") {
			headers = append(headers, header)
		}
	}
	slices.Sort(headers)
	left, pairs := maxParsed, 0
	for _, header := range headers {
		for _, text := range r.Headers[header] {
			for pair := range strings.SplitSeq(text, ";") {
				if left -= len(pair) + 1; left < 0 || pairs == maxPairs {
					return
				}
				name, value, ok := strings.Cut(pair, "=")
				if !ok {
					continue
				}
				if pairs++; !take(strings.Trim(name, blank), strings.Trim(value, blank)) {
					return
				}
			}
		}
	}
}

// isCookie reports whether a cookie can have the value.
func isCookie(value string) bool { return !strings.ContainsFunc(value, isControl) }

const blank = " \t"

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

func unquoted(value string) string {
	if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
		return value[1 : n-1]
	}
	return value
}

// onlyParam returns the parameter of the query; "" unless it comes once, without escapes that cannot be
// decoded. It decodes nothing that is too long for the name.
func (r *Request) onlyParam(name string) string {
	var text string
	seen := 0
	r.eachParam(func(of, value string) bool {
		if len(of) <= escaped*len(name) {
			if decoded, err := url.QueryUnescape(of); err == nil && decoded == name {
				text, seen = value, seen+1
			}
		}
		return seen <= 1
	})
	if seen != 1 {
		return ""
	}
	return param(text)
}

// eachParam calls take with the parameters of the query as they came, until it returns false.
func (r *Request) eachParam(take func(name, text string) bool) {
	left, pairs := maxParsed, 0
	for pair := range strings.SplitSeq(r.Query, "&") {
		if left -= len(pair) + 1; left < 0 || pairs == maxPairs {
			return
		}
		if pair == "" {
			continue
		}
		name, text, _ := strings.Cut(pair, "=")
		if pairs++; !take(name, text) {
			return
		}
	}
}

// param returns the value of a parameter. It decodes nothing that is too long for a key.
func param(text string) string {
	if len(text) > escaped*script.MaxKeyBytes {
		return ""
	}
	value, err := url.QueryUnescape(text)
	if err != nil || len(value) > script.MaxKeyBytes {
		return ""
	}
	return value
}
