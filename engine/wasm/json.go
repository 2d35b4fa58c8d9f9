package wasm

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/script"
)

// maxDepth is how deep the values of arguments and results may be nested, as for every engine.
const maxDepth = 32

// jsonError says what is wrong with a text, and where.
type jsonError struct {
	kind    script.Kind // Script, or Limit for what is too deep
	at      int
	message string
}

func (e *jsonError) Error() string { return "byte " + strconv.Itoa(e.at) + ": " + e.message }

// scanner checks that a text is one JSON value (RFC 8259) in valid UTF-8, without making anything of it.
type scanner struct {
	text   []byte
	at     int
	spaces bool // there is white space between tokens
}

// checkJSON reports what is wrong with text. spaces says that there is white space that could be left out.
func checkJSON(text []byte) (spaces bool, err *jsonError) {
	s := scanner{text: text}
	if err := s.value(0); err != nil {
		return false, err
	}
	if s.space(); s.at < len(text) {
		return false, s.fail("there is more after the value")
	}
	return s.spaces, nil
}

func (s *scanner) fail(message string) *jsonError {
	return &jsonError{kind: script.Script, at: s.at, message: message}
}

// space skips white space, and returns the byte that follows; 0 at the end.
func (s *scanner) space() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
			s.spaces = true
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) value(depth int) *jsonError {
	switch c := s.space(); c {
	case '{', '[':
		if depth >= maxDepth {
			return &jsonError{kind: script.Limit, at: s.at, message: "nested deeper than " + strconv.Itoa(maxDepth)}
		}
		s.at++
		if c == '{' {
			return s.object(depth + 1)
		}
		return s.array(depth + 1)
	case '"':
		return s.string()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

func (s *scanner) object(depth int) *jsonError {
	if s.space() == '}' {
		s.at++
		return nil
	}
	for {
		if s.space() != '"' {
			return s.fail("the name of a member is missing")
		}
		if err := s.string(); err != nil {
			return err
		}
		if s.space() != ':' {
			return s.fail("a colon is missing")
		}
		s.at++
		if err := s.value(depth); err != nil {
			return err
		}
		switch s.space() {
		case ',':
			s.at++
		case '}':
			s.at++
			return nil
		default:
			return s.fail("an object is not closed")
		}
	}
}

func (s *scanner) array(depth int) *jsonError {
	if s.space() == ']' {
		s.at++
		return nil
	}
	for {
		if err := s.value(depth); err != nil {
			return err
		}
		switch s.space() {
		case ',':
			s.at++
		case ']':
			s.at++
			return nil
		default:
			return s.fail("an array is not closed")
		}
	}
}

func (s *scanner) word(want string) *jsonError {
	if !bytes.HasPrefix(s.text[s.at:], []byte(want)) {
		return s.fail("not a JSON value")
	}
	s.at += len(want)
	return nil
}

func (s *scanner) string() *jsonError {
	s.at++
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < ' ':
			return s.fail("a control character in a string")
		case c < utf8.RuneSelf:
			s.at++
		default:
			r, size := utf8.DecodeRune(s.text[s.at:])
			if r == utf8.RuneError && size == 1 {
				return s.fail("not valid UTF-8")
			}
			s.at += size
		}
	}
	return s.fail("a string is not closed")
}

func (s *scanner) escape() *jsonError {
	if s.at+1 >= len(s.text) {
		return s.fail("a string is not closed")
	}
	switch s.text[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return nil
	case 'u':
		if s.at+6 > len(s.text) {
			return s.fail("an escape is cut")
		}
		for _, c := range s.text[s.at+2 : s.at+6] {
			if c |= 0x20; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return s.fail("an escape that there is not")
			}
		}
		s.at += 6
		return nil
	}
	return s.fail("an escape that there is not")
}

func (s *scanner) number() *jsonError {
	if s.peek() == '-' {
		s.at++
	}
	switch c := s.peek(); {
	case c == '0':
		s.at++
	case '1' <= c && c <= '9':
		s.digits()
	default:
		return s.fail("not a JSON value")
	}
	if s.peek() == '.' {
		s.at++
		if !s.digits() {
			return s.fail("digits are missing after the point")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		if !s.digits() {
			return s.fail("digits are missing in the exponent")
		}
	}
	return nil
}

func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) digits() bool {
	start := s.at
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.at++
	}
	return s.at > start
}

// invalid is the error of what the caller has sent.
func invalid(field string, err *jsonError) *script.Error {
	return &script.Error{Kind: script.Invalid, Field: field, Message: err.Error()}
}

// resultError is the error of what the module has returned.
func resultError(err *jsonError) *script.Error {
	return script.Errorf(err.kind, "", "the module returned a text that is not one JSON value: %s", err)
}

// compact appends text without white space between tokens.
func compact(dst, text []byte) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	if err := json.Compact(buf, text); err != nil {
		return dst, err
	}
	return buf.Bytes(), nil
}
