package lua

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

// compiled is what a source becomes.
type compiled struct {
	proto      *vm.FunctionProto
	usesConfig bool
	usesEnv    bool
	wrapped    bool            // see wrap: the chunk takes the config and returns the entrypoint
	madeLocal  map[string]bool // the globals that wrap made local variables
	onResponse bool            // it may define engine.OnResponse, which a wrapped chunk returns then, too
	requires   []engine.Require
}

// compile checks src and compiles it, running nothing of it.
func compile(src engine.Source) (compiled, *script.Error) { return compileAs(chunkName, src) }

// compileAs is compile for a source that messages call by the name.
func compileAs(name string, src engine.Source) (c compiled, err *script.Error) {
	defer func() {
		if r := recover(); r != nil {
			c, err = compiled{}, script.Errorf(script.Script, "", "the compiler cannot handle this source")
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
	a := newAnalyzer(src.Entrypoint, len(src.Code))
	chunk, err = a.chunk(chunk)
	if err != nil {
		return c, err
	}
	if src.Entrypoint != "" && !a.defines {
		return c, noEntrypoint(src.Entrypoint)
	}
	if src.Library && !a.returns {
		return c, script.Errorf(script.Script, "", "the library returns nothing: end it with return and a table of what it has")
	}
	c = compiled{usesConfig: a.usesConfig, usesEnv: a.usesEnv, onResponse: src.Entrypoint != "" && a.definesOnResponse(), requires: a.required()}
	if wrapped, ok := a.wrap(chunk); ok {
		if c.proto, err = generate(name, wrapped); err == nil {
			c.wrapped, c.madeLocal = true, a.assigned
			return c, nil
		}
	}
	c.proto, err = generate(name, chunk)
	return c, err
}

// generate makes code of a tree.
func generate(name string, chunk []ast.Stmt) (*vm.FunctionProto, *script.Error) {
	scopes := newScopes(chunk)
	compiled, err := glua.Compile(chunk, name)
	if err != nil {
		return nil, compilerError(err)
	}
	if err := finish(compiled, scopes); err != nil {
		return nil, err
	}
	return vm.NewProto(compiled, operatorNamed), nil
}

// operatorNamed returns the builtin that a marker stands for, which the analyzer left; nil if the text is none.
func operatorNamed(text string) vm.LValue {
	if fn := sandbox().operators[text]; fn != nil {
		return fn
	}
	return nil
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

// protoSize estimates the bytes that p holds.
func protoSize(p *vm.FunctionProto) int {
	const fixed, local, upvalue = 400, 48, 32
	size := fixed + local*len(p.DbgLocals) + upvalue*len(p.DbgUpvalues) + 4*len(p.Code) + 8*len(p.DbgSourcePositions) + 8*len(p.FunctionPrototypes)
	for _, constant := range p.Constants {
		size += 16 + 16 + 16 // two slices' elements, and the boxed value
		if s, ok := constant.(vm.LString); ok {
			size += len(s)
		}
	}
	for _, inner := range p.FunctionPrototypes {
		size += protoSize(inner)
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
