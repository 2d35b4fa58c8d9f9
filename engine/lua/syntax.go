package lua

import (
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
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
	chunk, err := parse.Parse(strings.NewReader(string(code)), chunkName)
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

// HasGlobal reports whether every script has a global variable of the name.
func HasGlobal(name string) bool { return sandbox().hasGlobal(name) }

// HasMember reports whether the global variable is a library, and whether it has the member.
func HasMember(global, member string) (isLib, has bool) {
	ud, _ := sandbox().base.RawGetString(global).(*vm.LUserData)
	if ud == nil || !isLibrary(ud) {
		return false, false
	}
	return true, ud.Value.(library).members.RawGetString(member) != vm.LNil
}

// NearestGlobal returns the global variable whose name differs least from the name; "" if none is similar.
func NearestGlobal(name string) string { return nearest(name, sandbox().base) }

// NearestMember is NearestGlobal for a member of a library.
func NearestMember(global, member string) string {
	ud, _ := sandbox().base.RawGetString(global).(*vm.LUserData)
	if ud == nil || !isLibrary(ud) {
		return ""
	}
	return nearest(member, ud.Value.(library).members)
}
