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

// closes are what ends an object and a list.
var closes = [2]byte{'}', ']'}

// clean reports whether the value is JSON as a record may have it, byte for byte: without space around
// its parts. What is not may still be JSON.
func clean(value []byte) bool {
	s := scanner{in: value}
	var lists uint64 // a bit for each of the lists and objects around: whether it is a list
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
		// A value, or the beginning of an empty list or object, is behind.
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

// IsTexts reports whether list is JSON texts with commas between them, without space; also if it is empty.
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
