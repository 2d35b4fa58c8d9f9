package lua

import (
	"fmt"
	"slices"
	"strings"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Advise returns what in a source that compiles is probably not meant, in the order of
// its lines: globals that nobody defines, what Lua has and scripts here have not, and
// what Lua itself has given up. Each is an error with a line that a person may
// overrule. It runs nothing, takes time in proportion to the source, and misses much; of
// a source that does not compile it says nothing.
func (*Engine) Advise(src engine.Source) (advice []*script.Error) {
	defer func() {
		if r := recover(); r != nil { // as in compile: the parser may give up on what a stranger wrote
			advice = nil
		}
	}()
	if prescan(src.Code) != nil {
		return nil
	}
	chunk, err := parse.Parse(strings.NewReader(string(src.Code)), chunkName)
	if err != nil {
		return nil
	}
	a := adviser{locals: make(map[string]int), defined: make(map[string]bool)}
	a.block(chunk)
	return a.advice(src.Entrypoint != "")
}

// elsewhere are the globals of Lua 5.1 to 5.4 that scripts have not, and what to use in
// their place, if there is something.
var elsewhere = map[string]string{
	"print": "use log.info", "warn": "use log.warn",
	"io": "", "debug": "", "package": "", "collectgarbage": "", "module": "", "newproxy": "",
	"dofile": "code cannot be loaded", "load": "code cannot be loaded", "loadfile": "code cannot be loaded", "loadstring": "code cannot be loaded",
	"getfenv": "", "setfenv": "", "gcinfo": "", "bit": "", "bit32": "", "utf8": "", "ffi": "", "jit": "", "ngx": "", "redis": "",
}

// deprecated are members of libraries that Lua 5.1 has given up.
var deprecated = map[string]string{
	"table.getn": "use the operator #",
	"math.mod":   "use math.fmod, or the operator %",
}

// remark is a name that was read in a line.
type remark struct {
	line   int
	name   string // "print", or "table.getn"
	member string // "getn"; "" if the name is that of a global
}

// adviser walks a tree and collects which globals are read and which are defined.
type adviser struct {
	locals  map[string]int // variables in scope, by name
	defined map[string]bool
	remarks []remark
	dynamic bool // globals may be defined by other means
}

// advice says what there is to say of the names that were read. Without an entrypoint
// the members of the argument are globals, which nobody knows.
func (a *adviser) advice(entrypoint bool) (advice []*script.Error) {
	said := make(map[string]bool)
	for _, r := range a.remarks {
		if message := a.judge(r, entrypoint && !a.dynamic); message != "" && !said[r.name] {
			said[r.name] = true
			advice = append(advice, &script.Error{Kind: script.Script, Line: r.line, Message: message})
		}
	}
	slices.SortStableFunc(advice, func(x, y *script.Error) int { return x.Line - y.Line })
	return advice
}

// judge returns what is wrong with a name, or "".
func (a *adviser) judge(r remark, allGlobals bool) string {
	global := strings.TrimSuffix(r.name, "."+r.member)
	if a.defined[global] {
		return ""
	}
	if r.member != "" {
		if instead, ok := deprecated[r.name]; ok {
			return fmt.Sprintf("%s is deprecated: %s", r.name, instead)
		}
		if ud, ok := sandbox().base.RawGetString(global).(*glua.LUserData); ok {
			if lib, ok := ud.Value.(library); ok && lib.members.RawGetString(r.member) == glua.LNil {
				return fmt.Sprintf("scripts have no %s", r.name)
			}
		}
		return ""
	}
	if sandbox().hasGlobal(global) || global == "_G" || global == "config" || global == "arg" {
		return ""
	}
	if instead, ok := elsewhere[global]; ok {
		if instead != "" {
			instead = ": " + instead
		}
		return fmt.Sprintf("scripts have no %s%s", clip(global), instead)
	}
	if allGlobals {
		return fmt.Sprintf("%s is defined nowhere, and so nil", clip(global))
	}
	return ""
}

// declare puts variables into scope, and returns what takes them out.
func (a *adviser) declare(names ...string) (leave func()) {
	for _, name := range names {
		a.locals[name]++
	}
	return func() {
		for _, name := range names {
			a.locals[name]--
		}
	}
}

// block walks statements in a scope of their own.
func (a *adviser) block(stmts []ast.Stmt, last ...ast.Expr) {
	var scope []func()
	for _, stmt := range stmts {
		if s, ok := stmt.(*ast.LocalAssignStmt); ok {
			scope = append(scope, a.local(s))
			continue
		}
		a.stmt(stmt)
	}
	a.exprs(last)
	for _, leave := range scope {
		leave()
	}
}

// local walks a declaration. A function sees its own name: the tree does not tell
// whether it does.
func (a *adviser) local(s *ast.LocalAssignStmt) (leave func()) {
	if len(s.Exprs) == 1 {
		if f, ok := s.Exprs[0].(*ast.FunctionExpr); ok {
			leave = a.declare(s.Names...)
			a.function(f)
			return leave
		}
	}
	a.exprs(s.Exprs)
	return a.declare(s.Names...)
}

func (a *adviser) stmt(stmt ast.Stmt) {
	switch s := stmt.(type) {
	case *ast.AssignStmt:
		a.exprs(s.Rhs)
		for _, target := range s.Lhs {
			a.assign(target)
		}
	case *ast.FuncCallStmt:
		a.expr(s.Expr)
	case *ast.DoBlockStmt:
		a.block(s.Stmts)
	case *ast.WhileStmt:
		a.expr(s.Condition)
		a.block(s.Stmts)
	case *ast.RepeatStmt:
		a.block(s.Stmts, s.Condition)
	case *ast.IfStmt:
		a.expr(s.Condition)
		a.block(s.Then)
		a.block(s.Else)
	case *ast.NumberForStmt:
		a.exprs([]ast.Expr{s.Init, s.Limit, s.Step})
		leave := a.declare(s.Name)
		a.block(s.Stmts)
		leave()
	case *ast.GenericForStmt:
		a.exprs(s.Exprs)
		leave := a.declare(s.Names...)
		a.block(s.Stmts)
		leave()
	case *ast.FuncDefStmt:
		a.definition(s)
	case *ast.ReturnStmt:
		a.exprs(s.Exprs)
	}
}

func (a *adviser) definition(s *ast.FuncDefStmt) {
	if s.Name.Func != nil {
		a.assign(s.Name.Func)
		a.function(s.Func)
		return
	}
	a.expr(s.Name.Receiver)
	leave := a.declare("self")
	a.function(s.Func)
	leave()
}

// assign walks what is assigned to.
func (a *adviser) assign(target ast.Expr) {
	if id, ok := target.(*ast.IdentExpr); ok {
		if a.locals[id.Value] == 0 {
			a.defined[id.Value] = true
		}
		return
	}
	a.expr(target)
}

func (a *adviser) function(f *ast.FunctionExpr) {
	leave := a.declare(f.ParList.Names...)
	a.block(f.Stmts)
	leave()
}

func (a *adviser) exprs(list []ast.Expr) {
	for _, e := range list {
		a.expr(e)
	}
}

func (a *adviser) expr(expr ast.Expr) {
	switch e := expr.(type) {
	case *ast.IdentExpr:
		a.read(e)
	case *ast.AttrGetExpr:
		a.member(e)
	case *ast.TableExpr:
		for _, field := range e.Fields {
			a.exprs([]ast.Expr{field.Key, field.Value})
		}
	case *ast.FuncCallExpr:
		a.exprs([]ast.Expr{e.Func, e.Receiver})
		a.exprs(e.Args)
	case *ast.LogicalOpExpr:
		a.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.RelationalOpExpr:
		a.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.StringConcatOpExpr:
		a.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.ArithmeticOpExpr:
		a.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.UnaryMinusOpExpr:
		a.expr(e.Expr)
	case *ast.UnaryNotOpExpr:
		a.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		a.expr(e.Expr)
	case *ast.FunctionExpr:
		a.function(e)
	}
}

func (a *adviser) read(e *ast.IdentExpr) {
	if a.locals[e.Value] > 0 {
		return
	}
	if e.Value == "_G" {
		a.dynamic = true
	}
	a.remarks = append(a.remarks, remark{line: e.Line(), name: e.Value})
}

func (a *adviser) member(e *ast.AttrGetExpr) {
	a.exprs([]ast.Expr{e.Object, e.Key})
	object, ok := e.Object.(*ast.IdentExpr)
	key, isName := e.Key.(*ast.StringExpr)
	if !ok || !isName || a.locals[object.Value] > 0 {
		return
	}
	a.remarks = append(a.remarks, remark{line: object.Line(), name: object.Value + "." + key.Value, member: key.Value})
}
