package compile

import (
	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// gopher-lua notes where each local variable of a function begins, but not where it ends: it takes the variable's register
// for its place in that list. Errors would name variables of blocks that have ended. So the lines of the tree get the number
// of their scope before gopher-lua compiles it. The lines of the code then say where each scope ends, and lose it again.

const (
	scopeShift = 24 // a source has fewer lines
	lineMask   = 1<<scopeShift - 1
)

// scopes are the functions and blocks of a tree, numbered from 1 in the order in which they begin.
type scopes struct {
	all    []scope
	locals map[int][]int // the scopes of a function's variables in the order of the compiler, by the function
	fn     int
	at     int
}

type scope struct{ outer, last, end int } // last is the last scope within it; end is where the code leaves it

// newScopes marks the lines of a chunk.
func newScopes(chunk []ast.Stmt) *scopes {
	s := &scopes{all: make([]scope, 1), locals: map[int][]int{}}
	s.enter()
	s.fn = s.at
	s.stmts(chunk)
	s.leave()
	return s
}

func (s *scopes) enter() {
	s.all = append(s.all, scope{outer: s.at})
	s.at = len(s.all) - 1
}

func (s *scopes) leave() {
	s.all[s.at].last = len(s.all) - 1
	s.at = s.all[s.at].outer
}

func (s *scopes) mark(n ast.PositionHolder) {
	if line := n.Line(); line > 0 {
		n.SetLine(line&lineMask | s.at<<scopeShift)
	}
}

func (s *scopes) declare(n int) {
	for range n {
		s.locals[s.fn] = append(s.locals[s.fn], s.at)
	}
}

func (s *scopes) block(stmts []ast.Stmt) {
	s.enter()
	s.stmts(stmts)
	s.leave()
}

func (s *scopes) function(f *ast.FunctionExpr, self int) {
	outer := s.fn
	s.enter()
	s.fn = s.at
	s.mark(f)
	s.declare(self + len(f.ParList.Names))
	if f.ParList.HasVargs && glua.CompatVarArg {
		s.declare(1) // arg
	}
	s.stmts(f.Stmts)
	s.leave()
	s.fn = outer
}

func (s *scopes) stmts(stmts []ast.Stmt) {
	for _, stmt := range stmts {
		s.stmt(stmt)
	}
}

// stmt leaves the lines of labels and gotos, which gopher-lua writes into messages.
func (s *scopes) stmt(stmt ast.Stmt) {
	switch n := stmt.(type) {
	case *ast.LabelStmt, *ast.GotoStmt, *ast.BreakStmt:
		return
	case *ast.AssignStmt:
		s.exprs(n.Lhs...)
		s.exprs(n.Rhs...)
	case *ast.LocalAssignStmt:
		s.exprs(n.Exprs...)
		s.declare(len(n.Names))
	case *ast.FuncCallStmt:
		s.exprs(n.Expr)
	case *ast.DoBlockStmt:
		s.block(n.Stmts)
	case *ast.FuncDefStmt:
		self := 0
		if n.Name.Func == nil {
			self = 1
		}
		s.exprs(n.Name.Func, n.Name.Receiver)
		s.function(n.Func, self)
	case *ast.ReturnStmt:
		s.exprs(n.Exprs...)
	case *ast.IfStmt:
		s.exprs(n.Condition)
		s.block(n.Then)
		s.block(n.Else)
	default:
		s.loop(stmt)
	}
	s.mark(stmt)
}

func (s *scopes) loop(stmt ast.Stmt) {
	if n, ok := stmt.(*ast.WhileStmt); ok {
		s.exprs(n.Condition)
	}
	s.enter()
	switch n := stmt.(type) {
	case *ast.WhileStmt:
		s.stmts(n.Stmts)
	case *ast.RepeatStmt:
		s.stmts(n.Stmts)
		s.exprs(n.Condition)
	case *ast.NumberForStmt:
		s.exprs(n.Init, n.Limit, n.Step)
		s.declare(3 + 1)
		s.stmts(n.Stmts)
	case *ast.GenericForStmt:
		s.exprs(n.Exprs...)
		s.declare(3 + len(n.Names))
		s.stmts(n.Stmts)
	}
	s.leave()
}

// exprs skips those that there are not.
func (s *scopes) exprs(exprs ...ast.Expr) {
	for _, expr := range exprs {
		if expr == nil {
			continue
		}
		s.mark(expr)
		switch e := expr.(type) {
		case *ast.AttrGetExpr:
			s.exprs(e.Object, e.Key)
		case *ast.TableExpr:
			for _, field := range e.Fields {
				s.exprs(field.Key, field.Value)
			}
		case *ast.FuncCallExpr:
			s.exprs(e.Func, e.Receiver)
			s.exprs(e.Args...)
		case *ast.LogicalOpExpr:
			s.exprs(e.Lhs, e.Rhs)
		case *ast.RelationalOpExpr:
			s.exprs(e.Lhs, e.Rhs)
		case *ast.StringConcatOpExpr:
			s.exprs(e.Lhs, e.Rhs)
		case *ast.ArithmeticOpExpr:
			s.exprs(e.Lhs, e.Rhs)
		case *ast.UnaryMinusOpExpr:
			s.exprs(e.Expr)
		case *ast.UnaryNotOpExpr:
			s.exprs(e.Expr)
		case *ast.UnaryLenOpExpr:
			s.exprs(e.Expr)
		case *ast.FunctionExpr:
			s.function(e, 0)
		}
	}
}

// settle says where the variables of a function end, and gives its lines back. Without that, the function has no names of
// variables.
func (s *scopes) settle(p *glua.FunctionProto) {
	fn := max(p.LineDefined>>scopeShift, 1)
	p.LineDefined &= lineMask
	p.LastLineDefined &= lineMask
	at := fn
	leave := func(next, pc int) {
		for at != fn && (next < at || next > s.all[at].last) {
			s.all[at].end = pc
			at = s.all[at].outer
		}
	}
	for pc, line := range p.DbgSourcePositions {
		if line <= lineMask {
			continue
		}
		p.DbgSourcePositions[pc] = line & lineMask
		next := line >> scopeShift
		leave(next, pc)
		at = next
	}
	leave(fn, len(p.Code))
	if len(s.locals[fn]) != len(p.DbgLocals) {
		p.DbgLocals = nil
		return
	}
	for i, local := range p.DbgLocals {
		if local.EndPc = len(p.Code); s.locals[fn][i] != fn {
			local.EndPc = s.all[s.locals[fn][i]].end
		}
	}
}
