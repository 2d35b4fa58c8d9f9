package scriptorium

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep a value is. Arguments, configs and results are at most 32 levels deep.
const maxDepth = 64

// Value is a JSON value as text, which its methods read when they are called. The zero Value is a value
// that is missing: it reads as null.
type Value struct{ raw string }

// Parse returns the JSON value that text is.
func Parse(text string) (Value, error) {
	start := blanks(text, 0)
	end := skip(text, start, maxDepth)
	if end < 0 || blanks(text, end) != len(text) {
		return Value{}, errors.New("not a JSON value")
	}
	return Value{text[start:end]}, nil
}

// trusted returns the value that text is, which the agent has checked.
func trusted(text string) Value { return Value{strings.Trim(text, " \n\t\r")} }

// Raw returns the value as it is written, "null" if it is missing.
func (v Value) Raw() string {
	if v.raw == "" {
		return "null"
	}
	return v.raw
}

// Exists reports whether there is a value, which may be null.
func (v Value) Exists() bool { return v.raw != "" }

// IsNull reports whether the value is null or missing.
func (v Value) IsNull() bool { return v.raw == "" || v.raw[0] == 'n' }

// IsArray reports whether the value is an array.
func (v Value) IsArray() bool { return strings.HasPrefix(v.raw, "[") }

// IsObject reports whether the value is an object.
func (v Value) IsObject() bool { return strings.HasPrefix(v.raw, "{") }

// IsText reports whether the value is a string.
func (v Value) IsText() bool { return strings.HasPrefix(v.raw, `"`) }

// Text returns a string, and "" for all other values.
func (v Value) Text() string { return v.TextOr("") }

// TextOr returns a string, and other for all other values.
func (v Value) TextOr(other string) string {
	if !v.IsText() {
		return other
	}
	return unquote(v.raw[1 : len(v.raw)-1])
}

// Number returns a number, and 0 for all other values.
func (v Value) Number() float64 { return v.NumberOr(0) }

// NumberOr returns a number, and other for all other values.
func (v Value) NumberOr(other float64) float64 {
	if v.raw == "" || v.raw[0] != '-' && (v.raw[0] < '0' || v.raw[0] > '9') {
		return other
	}
	n, err := strconv.ParseFloat(v.raw, 64)
	if err != nil {
		return other
	}
	return n
}

// Bool reports whether the value is true.
func (v Value) Bool() bool { return v.raw == "true" }

// Get returns a member of an object. If a name comes twice, the last one counts, as in other engines.
func (v Value) Get(name string) (member Value) {
	v.each('{', func(n string, value Value) {
		if n == name {
			member = value
		}
	})
	return member
}

// A Member is a member of an object.
type Member struct {
	Name  string
	Value Value
}

// Members returns the members of an object in their order, and none for all other values.
func (v Value) Members() (members []Member) {
	v.each('{', func(name string, value Value) { members = append(members, Member{name, value}) })
	return members
}

// Items returns the elements of an array, and none for all other values.
func (v Value) Items() (items []Value) {
	v.each('[', func(_ string, value Value) { items = append(items, value) })
	return items
}

// Texts returns the strings of an array, or a string as the only one: headers are either.
func (v Value) Texts() (texts []string) {
	if v.IsText() {
		return []string{v.Text()}
	}
	for _, item := range v.Items() {
		texts = append(texts, item.Text())
	}
	return texts
}

// each calls f with each member of an object, or each element of an array, if the value begins with open.
func (v Value) each(open byte, f func(name string, value Value)) {
	if v.raw == "" || v.raw[0] != open {
		return
	}
	s := v.raw
	i := blanks(s, 1)
	if s[i] == open+2 { // the end, in ASCII
		return
	}
	for {
		name := ""
		if open == '{' {
			end := endOfString(s, i)
			name = unquote(s[i+1 : end-1])
			i = blanks(s, blanks(s, end)+1) // the colon
		}
		end := endOf(s, i)
		f(name, Value{s[i:end]})
		if i = blanks(s, end); s[i] != ',' {
			return
		}
		i = blanks(s, i+1)
	}
}

// endOf returns where the value at i ends. Values are checked when they are made, so it looks for the end alone.
func endOf(s string, i int) int {
	switch s[i] {
	case '"':
		return endOfString(s, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch s[i] {
			case '"':
				i = endOfString(s, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(s) && s[i] > ' ' && s[i] != ',' && s[i] != '}' && s[i] != ']' {
		i++
	}
	return i
}

func endOfString(s string, i int) int {
	for i++; s[i] != '"'; i++ {
		if s[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// blanks returns where the blanks at i end.
func blanks(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// skip returns where the value that begins at i ends, -1 if there is none.
func skip(s string, i, depth int) int {
	if i >= len(s) || depth == 0 {
		return -1
	}
	switch s[i] {
	case '{':
		return skipList(s, i, depth, '}')
	case '[':
		return skipList(s, i, depth, ']')
	case '"':
		return skipString(s, i)
	case 't':
		return skipWord(s, i, "true")
	case 'f':
		return skipWord(s, i, "false")
	case 'n':
		return skipWord(s, i, "null")
	}
	return skipNumber(s, i)
}

func skipList(s string, i, depth int, end byte) int {
	i = blanks(s, i+1)
	if i < len(s) && s[i] == end {
		return i + 1
	}
	for {
		if end == '}' {
			if i = skipString(s, i); i < 0 {
				return -1
			}
			if i = blanks(s, i); i >= len(s) || s[i] != ':' {
				return -1
			}
			i = blanks(s, i+1)
		}
		if i = skip(s, i, depth-1); i < 0 {
			return -1
		}
		i = blanks(s, i)
		switch {
		case i >= len(s):
			return -1
		case s[i] == end:
			return i + 1
		case s[i] != ',':
			return -1
		}
		i = blanks(s, i+1)
	}
}

func skipString(s string, i int) int {
	if i >= len(s) || s[i] != '"' {
		return -1
	}
	for i++; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return i + 1
		case s[i] < ' ':
			return -1
		case s[i] == '\\':
			if i++; i >= len(s) || strings.IndexByte(`"\/bfnrtu`, s[i]) < 0 {
				return -1
			}
			if s[i] == 'u' {
				if _, ok := hex4(s, i+1); !ok {
					return -1
				}
			}
		}
	}
	return -1
}

func skipWord(s string, i int, word string) int {
	if !strings.HasPrefix(s[i:], word) {
		return -1
	}
	return i + len(word)
}

func skipNumber(s string, i int) int {
	if i < len(s) && s[i] == '-' {
		i++
	}
	from := i
	if i = digits(s, i); i < 0 || i > from+1 && s[from] == '0' {
		return -1
	}
	if i < len(s) && s[i] == '.' {
		if i = digits(s, i+1); i < 0 {
			return -1
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		i = digits(s, i)
	}
	return i
}

// digits returns where the digits at i end, -1 if there are none.
func digits(s string, i int) int {
	from := i
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

func hex4(s string, i int) (rune, bool) {
	if i+4 > len(s) {
		return 0, false
	}
	n, err := strconv.ParseUint(s[i:i+4], 16, 16)
	return rune(n), err == nil
}

// unquote decodes what is between the quotes of a string.
func unquote(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		i++
		switch s[i] {
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			r, _ := hex4(s, i+1)
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if strings.HasPrefix(s[i+1:], `\u`) {
					low, _ = hex4(s, i+3)
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			b = utf8.AppendRune(b, r)
		default:
			b = append(b, s[i])
		}
	}
	return string(b)
}

// Quote returns text as a JSON string. What is not UTF-8 becomes U+FFFD.
func Quote(text string) string { return string(appendQuoted(nil, text)) }

func appendQuoted(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	plain := 0 // from here on, text is as it is in JSON
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, text[plain:i]...)
		plain = i + 1
		switch {
		case c >= ' ':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(b, text[plain:]...), '"')
}
