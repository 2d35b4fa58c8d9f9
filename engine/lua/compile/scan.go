package compile

import (
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
)

// tokenKind sorts tokens as far as the checks before parsing need it.
type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenKeyword
	tokenNumber
	tokenString
	tokenSymbol
	tokenUnfinished // a string or comment that never ends
)

// token is a piece of the source. Lines and columns are from 1, columns in bytes.
type token struct {
	kind          tokenKind
	text          string
	line, column  int // of its first byte
	endLine       int // of its last byte
	endColumn     int
	bracketedText bool // a long string or comment
}

// scanner splits a source into tokens just as gopher-lua's lexer does, so that
// what is measured is what will be parsed.
type scanner struct {
	src       string
	at        int
	line      int
	lineStart int // offset of the line's first byte
}

func newScanner(src string) *scanner { return &scanner{src: src, line: 1} }

func (s *scanner) peek(ahead int) byte {
	if s.at+ahead < len(s.src) {
		return s.src[s.at+ahead]
	}
	return 0
}

// newline steps over a line's end at s.at: one or two bytes.
func (s *scanner) newline() {
	first := s.src[s.at]
	s.at++
	if second := s.peek(0); (second == '\n' || second == '\r') && second != first {
		s.at++
	}
	s.line++
	s.lineStart = s.at
}

// next returns the next token that is not a comment.
func (s *scanner) next() token {
	for {
		s.skipSpace()
		t := token{line: s.line, column: s.at - s.lineStart + 1}
		start := s.at
		switch c := s.peek(0); {
		case s.at >= len(s.src):
			return t
		case c == '-' && s.peek(1) == '-':
			s.at += 2
			if !s.comment() {
				t.kind, t.bracketedText = tokenUnfinished, true
				return t
			}
			continue
		case isNameByte(c) && !numeral.IsDigit(c):
			s.name(&t)
		case numeral.IsDigit(c), c == '.' && numeral.IsDigit(s.peek(1)):
			t.kind = tokenNumber
			s.number()
		case c == '"', c == '\'':
			t.kind = tokenString
			if !s.quoted(c) {
				t.kind = tokenUnfinished
			}
		case c == '[' && s.longLevel() >= 0:
			t.kind = tokenString
			if !s.long(s.longLevel()) {
				t.kind, t.bracketedText = tokenUnfinished, true
			}
		default:
			t.kind = tokenSymbol
			s.at += symbolLen(s.src[s.at:])
		}
		t.text = s.src[start:s.at]
		t.endLine, t.endColumn = s.line, s.at-s.lineStart
		return t
	}
}

func (s *scanner) skipSpace() {
	for s.at < len(s.src) {
		switch s.src[s.at] {
		case ' ', '\t':
			s.at++
		case '\n', '\r':
			s.newline()
		default:
			return
		}
	}
}

func (s *scanner) name(t *token) {
	start := s.at
	for isNameByte(s.peek(0)) {
		s.at++
	}
	t.kind = tokenName
	if keywords[s.src[start:s.at]] {
		t.kind = tokenKeyword
	}
}

func (s *scanner) number() {
	for {
		c := s.peek(0)
		switch {
		case (c == 'e' || c == 'E') && (s.peek(1) == '+' || s.peek(1) == '-'):
			s.at += 2
		case numeral.IsDigit(c), isNameByte(c), c == '.' && s.peek(1) != '.':
			s.at++
		default:
			return
		}
	}
}

// quoted steps over a string in quotes, and reports whether it ends.
func (s *scanner) quoted(quote byte) bool {
	s.at++
	for s.at < len(s.src) {
		switch c := s.src[s.at]; c {
		case quote:
			s.at++
			return true
		case '\n', '\r':
			return false
		case '\\':
			s.at++
			if n := s.peek(0); n == '\n' || n == '\r' {
				s.newline()
			} else {
				s.at++
			}
		default:
			s.at++
		}
	}
	s.at = len(s.src)
	return false
}

// comment steps over what follows "--", and reports whether it ends.
func (s *scanner) comment() bool {
	if s.peek(0) == '[' {
		if level := s.longLevel(); level >= 0 {
			return s.long(level)
		}
	}
	for s.at < len(s.src) && s.src[s.at] != '\n' && s.src[s.at] != '\r' {
		s.at++
	}
	return true
}

// longLevel returns how many '=' the long bracket at s.at has, or -1 if there
// is none.
func (s *scanner) longLevel() int {
	level := 0
	for s.peek(1+level) == '=' {
		level++
	}
	if s.peek(1+level) == '[' {
		return level
	}
	return -1
}

// long steps over a long bracket, and reports whether it ends.
func (s *scanner) long(level int) bool {
	s.at += level + 2
	closing := "]" + strings.Repeat("=", level) + "]"
	end := strings.Index(s.src[s.at:], closing)
	stop := s.at + end
	if end < 0 {
		stop = len(s.src)
	}
	for s.at < stop {
		if c := s.src[s.at]; c == '\n' || c == '\r' {
			s.newline()
		} else {
			s.at++
		}
	}
	if end < 0 {
		return false
	}
	s.at += len(closing)
	return true
}

func symbolLen(s string) int {
	for _, symbol := range [...]string{"...", "..", "==", "~=", "<=", ">=", "::"} {
		if strings.HasPrefix(s, symbol) {
			return len(symbol)
		}
	}
	return 1
}

func isNameByte(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || numeral.IsDigit(c)
}

// isName reports whether s can be the name of a global.
func isName(s string) bool {
	if s == "" || numeral.IsDigit(s[0]) || keywords[s] {
		return false
	}
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return true
}

var keywords = map[string]bool{
	"and": true, "break": true, "do": true, "else": true, "elseif": true, "end": true, "false": true,
	"for": true, "function": true, "goto": true, "if": true, "in": true, "local": true, "nil": true,
	"not": true, "or": true, "repeat": true, "return": true, "then": true, "true": true, "until": true,
	"while": true,
}
