package compile

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"

	"github.com/scriptorium-dev/scriptorium/script"
)

// stmt walks s and returns what takes its place.
func (a *analyzer) stmt(s ast.Stmt, depth int) ast.Stmt {
	a.spend(1)
	switch s := s.(type) {
	case *ast.AssignStmt:
		return a.assign(s, depth)
	case *ast.LocalAssignStmt:
		a.localAssign(s, depth)
	case *ast.FuncCallStmt:
		s.Expr = a.expr(s.Expr, depth+1)
	case *ast.DoBlockStmt:
		s.Stmts = a.block(s.Stmts, depth+1)
	case *ast.FuncDefStmt:
		a.define(s, depth)
	case *ast.ReturnStmt:
		a.returns = a.returns || a.inChunk()
		a.exprs(s.Exprs, depth+1)
	case *ast.IfStmt:
		a.jumps(3)
		s.Condition = a.expr(s.Condition, depth+1)
		s.Then, s.Else = a.block(s.Then, depth+1), a.block(s.Else, depth+1)
		return decided(s)
	case *ast.LabelStmt:
		if a.fn.labels++; a.fn.labels > maxGotos {
			a.refuse(script.Limit, "the function has more than %d labels", maxGotos)
		}
	case *ast.GotoStmt:
		if a.fn.gotos++; a.fn.gotos > maxGotos {
			a.refuse(script.Limit, "the function has more than %d gotos", maxGotos)
		}
	default:
		return a.loop(s, depth)
	}
	return s
}

func (a *analyzer) loop(s ast.Stmt, depth int) ast.Stmt {
	a.jumps(4)
	switch s := s.(type) {
	case *ast.WhileStmt:
		s.Condition = a.expr(s.Condition, depth+1)
		s.Stmts = a.spaced(a.block(s.Stmts, depth+1))
		if isTrue, constant := truth(s.Condition); constant && !isTrue {
			return within(s, nil)
		}
	case *ast.RepeatStmt:
		locals := a.fn.locals
		a.fn.blocks++
		s.Stmts = a.spaced(a.statements(s.Stmts, depth+1))
		s.Condition = a.expr(s.Condition, depth+1) // sees the block's variables
		a.fn.blocks--
		a.fn.locals = locals
	case *ast.NumberForStmt:
		s.Init, s.Limit = a.expr(s.Init, depth+1), a.expr(s.Limit, depth+1)
		if s.Step != nil {
			s.Step = a.expr(s.Step, depth+1)
		}
		a.declares(s.Name)
		s.Stmts = a.loopBody(s.Stmts, 4, depth)
	case *ast.GenericForStmt:
		a.exprs(s.Exprs, depth+1)
		a.declares(s.Names...)
		s.Stmts = a.spaced(a.loopBody(s.Stmts, 3+len(s.Names), depth))
	}
	return s
}

// loopBody walks the body of a for loop that declares n variables.
func (a *analyzer) loopBody(stmts []ast.Stmt, n, depth int) []ast.Stmt {
	locals := a.fn.locals
	a.declare(n)
	stmts = a.block(stmts, depth+1)
	a.fn.locals = locals
	return stmts
}

func (a *analyzer) localAssign(s *ast.LocalAssignStmt, depth int) {
	if !keepsRequire(s) {
		a.declares(s.Names...)
	}
	if !isInitialized(s) {
		a.exprs(s.Exprs, depth+1)
		a.declare(len(s.Names))
		return
	}
	before := a.mentions[s.Names[0]]
	a.exprs(s.Exprs, depth+1)
	a.declare(1)
	if a.mentions[s.Names[0]] > before {
		nothing := &ast.NilExpr{}
		nothing.SetLine(s.Line())
		s.Exprs = append(s.Exprs, nothing) // which makes it another kind of statement
	}
}

// isInitialized reports whether s is "local f = function() … end". gopher-lua takes
// that for "local function f() … end", where f is the new variable within the
// function, too. The parser tells the last line of the latter alone.
func isInitialized(s *ast.LocalAssignStmt) bool {
	if len(s.Names) != 1 || len(s.Exprs) != 1 || s.LastLine() != 0 {
		return false
	}
	_, ok := s.Exprs[0].(*ast.FunctionExpr)
	return ok
}

func (a *analyzer) define(s *ast.FuncDefStmt, depth int) {
	if s.Name.Func == nil {
		s.Name.Receiver = a.expr(s.Name.Receiver, depth+1)
		a.constant("s" + s.Name.Method)
		a.function(s.Func, true, depth)
		return
	}
	a.target(s.Name.Func)
	s.Name.Func = a.expr(s.Name.Func, depth+1)
	a.function(s.Func, false, depth)
}

// target notes an assignment to a variable.
func (a *analyzer) target(e ast.Expr) {
	ident, ok := e.(*ast.IdentExpr)
	if !ok {
		return
	}
	a.assigned[ident.Value] = true
	a.declares(ident.Value)
	a.constant("s" + ident.Value) // which is looked up once more
	if ident.Value == a.entrypoint {
		a.defines = true
	}
}

func (a *analyzer) assign(s *ast.AssignStmt, depth int) ast.Stmt {
	for _, e := range s.Lhs {
		a.target(e)
	}
	a.exprs(s.Lhs, depth+1)
	a.exprs(s.Rhs, depth+1)
	if !miscompiled(s) {
		return s
	}
	return viaLocals(s)
}

// miscompiled reports whether gopher-lua may compile s wrongly. It assigns to
// local variables before all values are read, as in "a, b = b, a"; a call that is
// cut to one value overwrites a function's last parameter before it is made, as in
// "x = (f(x))"; and "x = y and z" leaves that parameter as it is if y is a false
// variable of the function around.
func miscompiled(s *ast.AssignStmt) bool {
	toName := false
	for _, e := range s.Lhs {
		if _, ok := e.(*ast.IdentExpr); ok {
			toName = true
		}
	}
	if len(s.Lhs) > 1 {
		return toName
	}
	switch value := s.Rhs[0].(type) {
	case *ast.FuncCallExpr:
		return toName && (value.AdjustRet || len(s.Rhs) > 1)
	case *ast.LogicalOpExpr:
		return toName
	}
	return false
}

// viaLocals returns "do local o, v1, v2 = t, … b = v2 o.x = v1 end" for
// "t.x, b = …": everything is read before anything is assigned, from the right, as
// the reference implementation does.
func viaLocals(s *ast.AssignStmt) ast.Stmt {
	local := &ast.LocalAssignStmt{}
	keep := func(e ast.Expr) ast.Expr {
		name := fmt.Sprintf("(temporary %d)", len(local.Names))
		local.Names = append(local.Names, name)
		if e != nil {
			local.Exprs = append(local.Exprs, e)
		}
		ident := &ast.IdentExpr{Value: name}
		ident.SetLine(s.Line())
		return ident
	}
	for _, target := range s.Lhs {
		member, ok := target.(*ast.AttrGetExpr)
		if !ok {
			continue
		}
		member.Object = keep(member.Object)
		if _, constant := member.Key.(*ast.StringExpr); !constant {
			member.Key = keep(member.Key)
		}
	}
	assigns := make([]ast.Stmt, len(s.Lhs))
	for i, target := range s.Lhs {
		assign := &ast.AssignStmt{Lhs: []ast.Expr{target}, Rhs: []ast.Expr{keep(nil)}}
		assign.SetLine(s.Line())
		assigns[len(assigns)-1-i] = assign
	}
	local.Exprs = append(local.Exprs, s.Rhs...)
	local.SetLine(s.Line())
	block := &ast.DoBlockStmt{Stmts: append([]ast.Stmt{local}, assigns...)}
	block.SetLine(s.Line())
	block.SetLastLine(s.Line())
	return block
}
