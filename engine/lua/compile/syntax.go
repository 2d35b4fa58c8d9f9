package compile

import (
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// Syntax is the tree and the tokens of a source, for programs that look at scripts and do not run them.
type Syntax struct {
	Chunk  []ast.Stmt
	Tokens []Token
}

// Token is a piece of a source that is no comment. Line and Column begin at 1, in bytes.
type Token struct {
	Text         string
	Line, Column int
}

// Parse parses a source that the engine compiles; ok is false if it does not compile. The time is linear in the source.
func Parse(code []byte) (s Syntax, ok bool) {
	defer func() {
		if r := recover(); r != nil { // as in compile: the parser may give up on what a stranger wrote
			s, ok = Syntax{}, false
		}
	}()
	if prescan(code) != nil {
		return s, false
	}
	chunk, err := parse.Parse(strings.NewReader(string(code)), ChunkName)
	if err != nil {
		return s, false
	}
	s.Chunk = chunk
	scan := newScanner(string(code))
	for t := scan.next(); t.kind != tokenEnd; t = scan.next() {
		s.Tokens = append(s.Tokens, Token{t.text, t.line, t.column})
	}
	return s, true
}

// CodeLines returns the lines of a source that have tokens.
func CodeLines(code []byte) map[int]bool {
	lines := map[int]bool{}
	s := newScanner(string(code))
	for t := s.next(); t.kind != tokenEnd && t.kind != tokenUnfinished; t = s.next() {
		lines[t.line] = true
	}
	return lines
}
