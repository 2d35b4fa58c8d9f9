// Package compile makes code for engine/lua/vm of a source. It refuses what could harm whoever parses or runs it: what is
// nested too deep, too large, or takes too long to compile; and rewrites what must be metered. gopher-lua parses and
// generates; its faults are worked around here. It also has what looks at sources and does not run them.
package compile

import (
	"errors"
	"fmt"
	"strings"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// maxCodePerFunction keeps jumps within what an instruction can hold.
	maxCodePerFunction = 100_000
	// maxUpvalues is how many variables of the functions around it a function
	// may use: gopher-lua counts them in a byte.
	maxUpvalues = 255
)

// Compiled is what a source becomes.
type Compiled struct {
	Proto      *vm.FunctionProto
	UsesConfig bool
	UsesEnv    bool
	Wrapped    bool            // see wrap: the chunk takes the config and returns the entrypoint
	MadeLocal  map[string]bool // the globals that wrap made local variables
	OnResponse bool            // it may define engine.OnResponse, which a wrapped chunk returns then, too
	Requires   []engine.Require
}

// ChunkName is the name that messages call a script by, whatever its name is.
const ChunkName = "script"

// Builtins are what every script has.
type Builtins interface {
	// HasGlobal reports whether there is a global variable of the name.
	HasGlobal(name string) bool
	// HasModule reports whether require returns something for the name.
	HasModule(name string) bool
	// Operator returns the builtin for Concat, Length or Arg; nil for other names.
	Operator(name string) vm.LValue
}

// Compile checks src, which messages call by the name, and compiles it, running nothing of it.
func Compile(name string, src engine.Source, builtins Builtins) (c Compiled, err *script.Error) {
	defer func() {
		if r := recover(); r != nil {
			c, err = Compiled{}, script.Errorf(script.Script, "", "the compiler cannot handle this source")
			err.Err = fmt.Errorf("panic: %v", r)
		}
	}()
	if src.Entrypoint != "" && !isName(src.Entrypoint) {
		return c, script.Errorf(script.Invalid, "entrypoint", "%q is not a name of Lua", hostapi.Clip(src.Entrypoint))
	}
	if err := prescan(src.Code); err != nil {
		return c, err
	}
	code := string(src.Code)
	chunk, parseErr := parse.Parse(strings.NewReader(code), name)
	if parseErr != nil {
		return c, syntaxError(code, parseErr)
	}
	a := newAnalyzer(src.Entrypoint, len(src.Code), builtins)
	chunk, err = a.chunk(chunk)
	if err != nil {
		return c, err
	}
	if src.Entrypoint != "" && !a.defines {
		return c, NoEntrypoint(src.Entrypoint)
	}
	if src.Library && !a.returns {
		return c, script.Errorf(script.Script, "", "the library returns nothing: end it with return and a table of what it has")
	}
	c = Compiled{UsesConfig: a.usesConfig, UsesEnv: a.usesEnv, OnResponse: src.Entrypoint != "" && a.definesOnResponse(), Requires: a.required()}
	if wrapped, ok := a.wrap(chunk); ok {
		if c.Proto, err = generate(name, wrapped, builtins); err == nil {
			c.Wrapped, c.MadeLocal = true, a.assigned
			return c, nil
		}
	}
	c.Proto, err = generate(name, chunk, builtins)
	return c, err
}

// generate makes code of a tree.
func generate(name string, chunk []ast.Stmt, builtins Builtins) (*vm.FunctionProto, *script.Error) {
	scopes := newScopes(chunk)
	compiled, err := glua.Compile(chunk, name)
	if err != nil {
		return nil, compilerError(err)
	}
	if err := finish(compiled, scopes); err != nil {
		return nil, err
	}
	return vm.NewProto(compiled, builtins.Operator), nil
}

// finish gives p and the functions within it the places where local variables end, and refuses those that are too large.
func finish(p *glua.FunctionProto, s *scopes) *script.Error {
	s.settle(p)
	if len(p.Code) > maxCodePerFunction || len(p.DbgUpvalues) > maxUpvalues {
		return &script.Error{
			Kind: script.Limit, Line: p.LineDefined,
			Message: "the function is too large, or uses too many variables of the functions around it; split it",
		}
	}
	for _, inner := range p.FunctionPrototypes {
		if err := finish(inner, s); err != nil {
			return err
		}
	}
	return nil
}

// Size estimates the bytes that p holds.
func Size(p *vm.FunctionProto) int {
	const fixed, local, upvalue = 400, 48, 32
	size := fixed + local*len(p.DbgLocals) + upvalue*len(p.DbgUpvalues) + 4*len(p.Code) + 8*len(p.DbgSourcePositions) + 8*len(p.FunctionPrototypes)
	for _, constant := range p.Constants {
		size += 16 + 16 + 16 // two slices' elements, and the boxed value
		if s, ok := constant.(vm.LString); ok {
			size += len(s)
		}
	}
	for _, inner := range p.FunctionPrototypes {
		size += Size(inner)
	}
	return size
}

// compilerError translates an error of gopher-lua's compiler.
func compilerError(err error) *script.Error {
	e, ok := errors.AsType[*glua.CompileError](err)
	if !ok {
		return script.Errorf(script.Script, "", "%s", hostapi.Clip(err.Error()))
	}
	kind := script.Script
	for _, bound := range []string{"too many", "overflow", "too long"} {
		if strings.Contains(e.Message, bound) {
			kind = script.Limit
		}
	}
	return &script.Error{Kind: kind, Message: hostapi.Clip(e.Message), Line: max(e.Line, 0) & lineMask}
}

// syntaxError translates an error of gopher-lua's parser, which knows where the
// offending token ends.
func syntaxError(code string, err error) *script.Error {
	e, ok := errors.AsType[*parse.Error](err)
	if !ok {
		return script.Errorf(script.Script, "", "%s", hostapi.Clip(err.Error()))
	}
	if e.Pos.Line == parse.EOF {
		return unexpectedEnd(code)
	}
	where := token{line: e.Pos.Line, column: max(e.Pos.Column, 1), text: e.Token}
	s := newScanner(code)
	for t := s.next(); t.kind != tokenEnd; t = s.next() {
		if t.endLine == e.Pos.Line && t.endColumn == e.Pos.Column {
			where = t
			break
		}
	}
	switch e.Message {
	case "syntax error":
		return at(script.Errorf(script.Script, "", "unexpected %s", quoteToken(where.text)), where)
	case "parse error":
		return at(script.Errorf(script.Script, "", "the statement before %s is incomplete", quoteToken(where.text)), where)
	}
	return at(script.Errorf(script.Script, "", "%s near %s", strings.ToLower(hostapi.Clip(e.Message)), quoteToken(where.text)), where)
}

func unexpectedEnd(code string) *script.Error {
	n := nesting{levels: make([]level, 1, 16)}
	s := newScanner(code)
	end := s.next()
	for ; end.kind != tokenEnd; end = s.next() {
		_, _ = n.add(end)
	}
	opener, open := n.unclosed()
	if !open {
		return at(script.Errorf(script.Script, "", "the script ends within a statement"), end)
	}
	where := "in this line" // no number of a line: the source and its manifest count differently
	switch lines := end.line - opener.line; {
	case lines == 1:
		where = "in the line above"
	case lines > 1:
		where = fmt.Sprintf("%d lines above", lines)
	}
	return at(script.Errorf(script.Script, "", "the script ends, but the %s %s is not closed", quoteToken(opener.text), where), end)
}

func quoteToken(text string) string {
	const most = 40
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return "'" + text + "'"
}

// NoEntrypoint is the error of a script without one.
func NoEntrypoint(name string) *script.Error {
	return script.Errorf(script.Script, "",
		"the script defines no global function %q; define it or set the entrypoint", name)
}

// DefinesOnly reports whether what a wrapped chunk gives is the same each time and
// cannot change.
func DefinesOnly(chunk *vm.FunctionProto) bool {
	for pc := 0; pc < len(chunk.Code); pc++ {
		switch chunk.Code[pc].Op() {
		case glua.OP_MOVE, glua.OP_MOVEN, glua.OP_LOADK, glua.OP_LOADBOOL, glua.OP_LOADNIL,
			glua.OP_GETGLOBAL, glua.OP_GETTABLEKS, glua.OP_CLOSE, glua.OP_RETURN:
		case glua.OP_CLOSURE:
			fn := chunk.ClosureAt(pc)
			if len(assignedUpvalues(fn)) > 0 {
				return false
			}
			pc += fn.NumUpvalues
		default:
			return false
		}
	}
	return true
}

// assignedUpvalues returns which variables of the functions around it p assigns to,
// or a function within it.
func assignedUpvalues(p *vm.FunctionProto) map[int]bool {
	assigned := map[int]bool{}
	for pc := 0; pc < len(p.Code); pc++ {
		switch p.Code[pc].Op() {
		case glua.OP_SETUPVAL:
			assigned[p.Code[pc].B()] = true
		case glua.OP_CLOSURE:
			fn := p.ClosureAt(pc)
			for i := range assignedUpvalues(fn) {
				if where := p.Code[pc+1+i]; where.Op() == glua.OP_GETUPVAL {
					assigned[where.B()] = true
				}
			}
			pc += fn.NumUpvalues
		}
	}
	return assigned
}
