package mask

import "unicode/utf8"

// kinds of bytes in a text.
const (
	isPlain byte = iota
	isQuote
	isEscape
	isControl
	isWide // a part of a character that is not ASCII
)

var inText = func() (kinds [256]byte) {
	for c := range kinds {
		switch {
		case c == '"':
			kinds[c] = isQuote
		case c == '\\':
			kinds[c] = isEscape
		case c < ' ':
			kinds[c] = isControl
		case c >= utf8.RuneSelf:
			kinds[c] = isWide
		}
	}
	return kinds
}()

// closes has the closing brackets of an object and a list.
var closes = [2]byte{'}', ']'}

// clean reports whether the value is JSON that a record can have unchanged: valid UTF-8, without white space. A value
// that is not clean can still be JSON.
func clean(value []byte) bool {
	s := scanner{in: value}
	var lists uint64 // a bit for each enclosing bracket: 1 for a list, 0 for an object
	depth := 0
	for {
		switch c := s.peek(); c {
		case '{', '[':
			if depth++; depth >= maxDepth {
				return false
			}
			s.at++
			lists <<= 1
			if c == '[' {
				lists |= 1
			}
			switch closing := s.peek(); {
			case closing == c+2: // { and } are two apart, and so are [ and ]
			case c == '{':
				if !s.cleanKey() {
					return false
				}
				continue
			default:
				continue
			}
		case '"':
			if !s.cleanText() {
				return false
			}
		default:
			if token, _ := s.scanScalar(); token == nil {
				return false
			}
		}
		// After a value, or after the opening bracket of an empty list or object.
		for depth > 0 && s.peek() == closes[lists&1] {
			s.at++
			lists >>= 1
			depth--
		}
		if depth == 0 {
			return s.at == len(value)
		}
		if s.peek() != ',' {
			return false
		}
		s.at++
		if lists&1 == 0 && !s.cleanKey() {
			return false
		}
	}
}

func (s *scanner) cleanKey() bool {
	if s.peek() != '"' || !s.cleanText() || s.peek() != ':' {
		return false
	}
	s.at++
	return true
}

func (s *scanner) cleanText() bool {
	raw, plain, err := s.scanText()
	return err == nil && (plain || utf8.Valid(raw))
}

// IsTexts reports whether list is empty, or JSON strings separated by commas without white space.
func IsTexts(list []byte) bool {
	s := scanner{in: list}
	for len(list) > 0 {
		if s.peek() != '"' || !s.cleanText() {
			return false
		}
		if s.at == len(list) {
			return true
		}
		if s.peek() != ',' {
			return false
		}
		s.at++
	}
	return true
}
