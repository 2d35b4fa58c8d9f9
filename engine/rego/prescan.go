package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/scriptorium-dev/scriptorium/script"
)

// The bounds of sources, beside maxNesting. What the parser and the compiler cost grows with some of these numbers
// multiplied by themselves.
const (
	maxPolicyBytes = 256 << 10 // of all modules together
	maxSetElements = 256       // of a set that a source lists
	maxRules       = 2000
	maxElses       = 100
	maxTypeSize    = 20_000   // of what the compiler works out about a rule's value
	maxBodyWork    = 64 << 20 // of all bodies: for each the square of its expressions, multiplied by its terms
	maxIndexNodes  = 500_000  // of all indexes of rules
	maxGraphEdges  = 100_000  // from references to the rules that they may select
)

// prescan refuses a source with a long list of elements in braces, before the parser makes a set of it: it looks at each
// element that came before.
func prescan(file string, code []byte) *script.Error {
	s := scanner{code: code, line: 1}
	s.frames = append(s.frames, frame{})
	for s.at < len(code) {
		if line := s.step(); line > 0 {
			return at(script.Errorf(script.Limit, "", "a set has more than %d elements: split it, or put it into a document of data", maxSetElements), &ast.Location{File: file, Row: line, Col: 1})
		}
	}
	return nil
}

// frame is a bracket that is open, or a template string.
type frame struct {
	quote  byte // that ends the template string; 0 for a bracket
	brace  bool
	line   int
	commas int
	colons int
}

// scanner reads a source as far as it takes to know what is text.
type scanner struct {
	code   []byte
	at     int
	line   int
	frames []frame
}

// step reads a token. It returns the line of a set that ends and is too long, else 0.
func (s *scanner) step() int {
	c := s.code[s.at]
	s.at++
	if c == '\n' {
		s.line++
	}
	top := &s.frames[len(s.frames)-1]
	if top.quote != 0 {
		s.inTemplate(top, c)
		return 0
	}
	switch c {
	case '#':
		for s.at < len(s.code) && s.code[s.at] != '\n' {
			s.at++
		}
	case '"', '`':
		if s.at >= 2 && s.code[s.at-2] == '$' {
			s.frames = append(s.frames, frame{quote: c})
			return 0
		}
		s.skip(c)
	case '{', '[', '(':
		s.frames = append(s.frames, frame{brace: c == '{', line: s.line})
	case '}', ']', ')':
		if len(s.frames) > 1 {
			s.frames = s.frames[:len(s.frames)-1]
		}
	case ',':
		if top.commas++; top.brace && top.colons == 0 && top.commas >= maxSetElements {
			return top.line
		}
	case ':':
		if s.at >= len(s.code) || s.code[s.at] != '=' {
			top.colons++
		}
	}
	return 0
}

// inTemplate reads a byte of a template string.
func (s *scanner) inTemplate(top *frame, c byte) {
	switch c {
	case '\\':
		s.at++
	case '{':
		s.frames = append(s.frames, frame{brace: true, line: s.line})
	case top.quote:
		s.frames = s.frames[:len(s.frames)-1]
	}
}

// skip reads to the end of a text.
func (s *scanner) skip(quote byte) {
	for s.at < len(s.code) {
		c := s.code[s.at]
		s.at++
		switch {
		case c == '\n':
			s.line++
		case c == '\\' && quote == '"':
			s.at++
		case c == quote:
			return
		}
	}
}
