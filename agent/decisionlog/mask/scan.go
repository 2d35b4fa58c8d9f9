package mask

import (
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON.
type scanner struct {
	in []byte
	at int
	// scratch is a temporary buffer.
	scratch []byte
}

// next skips white space, and returns the next byte without consuming it; 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.in); s.at++ {
		switch c := s.in[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// end reports whether only white space is left.
func (s *scanner) end() bool {
	s.next()
	return s.at == len(s.in)
}

// scanText returns the bytes between the quotes of a string. plain is true if it is ASCII without escapes.
func (s *scanner) scanText() (raw []byte, plain bool, err error) {
	s.at++
	plain = true
	rest := s.in[s.at:]
	for i := 0; i < len(rest); i++ {
		switch inText[rest[i]] {
		case isPlain:
		case isQuote:
			s.at += i + 1
			return rest[:i], plain, nil
		case isEscape:
			plain = false
			n := escape(rest[i:])
			if n == 0 {
				return nil, false, errNotJSON
			}
			i += n - 1
		case isControl:
			return nil, false, errNotJSON
		default:
			plain = false
		}
	}
	return nil, false, errNotJSON
}

// escape returns the length of the escape at the start of b; 0 if there is none.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b); ok {
			return 6
		}
	}
	return 0
}

// hex4 returns the code of the \u escape with four hexadecimal digits at the start of b.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// decode appends the decoded form of raw, which scanText returned.
func decode(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		c := raw[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		if raw[i+1] != 'u' {
			dst = append(dst, unescaped(raw[i+1]))
			i += 2
			continue
		}
		r, _ := hex4(raw[i:])
		i += 6
		if utf16.IsSurrogate(r) {
			low, ok := hex4(raw[i:])
			if r = utf16.DecodeRune(r, low); ok && r != utf8.RuneError {
				i += 6
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// appendText appends the text, escaped for JSON, without quotes. Equal texts have equal results. Invalid UTF-8 becomes
// U+FFFD.
func appendText(dst, text []byte) []byte {
	const digits = "0123456789abcdef"
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(text[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		i++
	}
	return dst
}

// AppendText appends the text as a JSON string.
func AppendText(dst []byte, text string) []byte {
	plain := true
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	dst = append(dst, '"')
	if plain {
		dst = append(dst, text...)
	} else {
		dst = appendText(dst, []byte(text))
	}
	return append(dst, '"')
}

// scanScalar returns a number, true, false or null; nil if there is none of them.
func (s *scanner) scanScalar() (token []byte, isNumber bool) {
	literal := ""
	switch s.peek() {
	case 't':
		literal = "true"
	case 'f':
		literal = "false"
	case 'n':
		literal = "null"
	}
	if rest := s.in[s.at:]; literal != "" && len(rest) >= len(literal) && string(rest[:len(literal)]) == literal {
		s.at += len(literal)
		return rest[:len(literal)], false
	}
	start := s.at
	if s.peek() == '-' {
		s.at++
	}
	switch c := s.peek(); {
	case c == '0':
		s.at++
	case !s.digits():
		return nil, false
	}
	if s.peek() == '.' {
		if s.at++; !s.digits() {
			return nil, false
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		if !s.digits() {
			return nil, false
		}
	}
	return s.in[start:s.at], true
}

func (s *scanner) peek() byte {
	if s.at < len(s.in) {
		return s.in[s.at]
	}
	return 0
}

// digits consumes digits, and reports whether there were any.
func (s *scanner) digits() bool {
	start := s.at
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.at++
	}
	return s.at > start
}
