package lint

import (
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// What messages call variables.
const (
	kindLocal     = "local variable"
	kindFunction  = "local function"
	kindParameter = "parameter"
	kindLoop      = "loop variable"
)

// block walks statements in a scope of their own. last is an expression in the scope.
func (c *checker) block(stmts []ast.Stmt, last ...ast.Expr) {
	c.enter()
	c.checkReached(stmts)
	for _, stmt := range stmts {
		c.stmt(stmt)
	}
	c.exprs(last)
	c.leave()
}

func (c *checker) stmt(stmt ast.Stmt) {
	switch s := stmt.(type) {
	case *ast.LocalAssignStmt:
		c.local(s)
	case *ast.AssignStmt:
		c.exprs(s.Rhs)
		for _, target := range s.Lhs {
			c.assign(target)
		}
	case *ast.FuncCallStmt:
		c.expr(s.Expr)
	case *ast.DoBlockStmt:
		c.block(s.Stmts)
	case *ast.WhileStmt:
		c.condition(s.Condition)
		c.block(s.Stmts)
	case *ast.RepeatStmt:
		c.block(s.Stmts, s.Condition)
	case *ast.IfStmt:
		c.condition(s.Condition)
		c.block(s.Then)
		c.block(s.Else)
	case *ast.NumberForStmt:
		c.exprs([]ast.Expr{s.Init, s.Limit, s.Step})
		c.loop(s.Line(), []string{s.Name}, s.Stmts)
	case *ast.GenericForStmt:
		c.exprs(s.Exprs)
		c.checkOrder(s)
		c.loop(s.Line(), s.Names, s.Stmts)
	case *ast.FuncDefStmt:
		c.definition(s)
	case *ast.ReturnStmt:
		c.exprs(s.Exprs)
	}
}

func (c *checker) loop(line int, names []string, stmts []ast.Stmt) {
	c.enter()
	for i, name := range names {
		v := c.declare(kindLoop, name, line)
		if i < len(names)-1 { // the last ones need the first ones
			v.reads++
		}
	}
	c.block(stmts)
	c.leave()
}

// local walks a declaration. A function sees its own name: the tree does not tell whether it does.
func (c *checker) local(s *ast.LocalAssignStmt) {
	if len(s.Exprs) == 1 {
		if f, ok := s.Exprs[0].(*ast.FunctionExpr); ok {
			v := c.declare(kindFunction, s.Names[0], s.Line())
			c.function(f)
			v.reads = 0 // a function that only calls itself is not used
			for _, name := range s.Names[1:] {
				c.declare(kindLocal, name, s.Line())
			}
			return
		}
	}
	c.exprs(s.Exprs)
	for i, name := range s.Names {
		if i < len(s.Exprs) && (isIdent(s.Exprs[i], name) || requires(s.Exprs[i], name)) { // local string = string
			c.scope.variables = append(c.scope.variables, &variable{name: name, line: s.Line(), kind: kindLocal})
			continue
		}
		v := c.declare(kindLocal, name, s.Line())
		if i < len(s.Names)-1 && len(s.Exprs) == 1 { // local a, b = f(): b needs a
			v.reads++
		}
	}
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.IdentExpr)
	return ok && id.Value == name
}

// requires reports whether the expression is require("name").
func requires(e ast.Expr, name string) bool {
	call, ok := e.(*ast.FuncCallExpr)
	if !ok || !isIdent(call.Func, "require") || len(call.Args) != 1 {
		return false
	}
	text, ok := call.Args[0].(*ast.StringExpr)
	return ok && text.Value == name
}

func (c *checker) definition(s *ast.FuncDefStmt) {
	if s.Name.Func != nil {
		c.assign(s.Name.Func)
		c.function(s.Func)
		return
	}
	c.expr(s.Name.Receiver)
	c.enter()
	c.declare(kindParameter, "self", s.Line())
	c.function(s.Func)
	c.leave()
}

// assign walks what is assigned to.
func (c *checker) assign(target ast.Expr) {
	id, ok := target.(*ast.IdentExpr)
	if !ok {
		if get, isGet := target.(*ast.AttrGetExpr); isGet { // t.x = 1 reads t
			c.exprs([]ast.Expr{get.Object, get.Key})
		}
		return
	}
	if v := c.lookup(id.Value); v != nil {
		v.assign = id.Line()
		return
	}
	g := c.globals[id.Value]
	if g == nil {
		g = &global{line: id.Line()}
		c.globals[id.Value] = g
	}
	g.atChunk = g.atChunk || c.functions == 0
}

func (c *checker) function(f *ast.FunctionExpr) {
	c.functions++
	c.enter()
	for _, name := range f.ParList.Names {
		c.declare(kindParameter, name, f.Line())
	}
	c.block(f.Stmts)
	for i := len(c.scope.variables) - 1; i >= 0; i-- { // those before one that is read are needed
		if c.scope.variables[i].reads > 0 {
			for _, v := range c.scope.variables[:i] {
				v.reads++
			}
			break
		}
	}
	c.leave()
	c.functions--
}

func (c *checker) exprs(list []ast.Expr) {
	for _, e := range list {
		c.expr(e)
	}
}

// condition walks an expression that may be nil.
func (c *checker) condition(e ast.Expr) {
	c.expect(e)
	c.expr(e)
}

// expect takes note that the script expects that a global, or a member of one, may not be there.
func (c *checker) expect(e ast.Expr) {
	if name := c.globalName(e); name != "" {
		c.tested[name] = true
	}
}

// globalName returns the name of a global or of a member of one, such as "ngx" or "table.unpack"; "" for anything else.
func (c *checker) globalName(e ast.Expr) string {
	if object, member, _, ok := c.memberOf(e); ok {
		return object + "." + member
	}
	if name := identOf(e); name != "" && c.lookup(name) == nil {
		return name
	}
	return ""
}

func (c *checker) expr(expr ast.Expr) {
	switch e := expr.(type) {
	case *ast.IdentExpr:
		c.read(e)
	case *ast.AttrGetExpr:
		c.member(e)
	case *ast.TableExpr:
		for _, field := range e.Fields {
			c.exprs([]ast.Expr{field.Key, field.Value})
		}
	case *ast.FuncCallExpr:
		c.call(e)
	case *ast.LogicalOpExpr:
		c.condition(e.Lhs)
		if first := c.globalName(e.Lhs); e.Operator == "or" && first != "" && !strings.HasPrefix(first, "config.") {
			c.expect(e.Rhs) // unpack or table.unpack
		}
		c.expr(e.Rhs)
	case *ast.RelationalOpExpr:
		c.comparison(e)
	case *ast.StringConcatOpExpr:
		c.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.ArithmeticOpExpr:
		c.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.UnaryMinusOpExpr:
		c.expr(e.Expr)
	case *ast.UnaryNotOpExpr:
		c.condition(e.Expr)
	case *ast.UnaryLenOpExpr:
		c.expr(e.Expr)
	case *ast.FunctionExpr:
		c.function(e)
	}
}

func (c *checker) read(e *ast.IdentExpr) {
	if v := c.lookup(e.Value); v != nil {
		v.reads++
		return
	}
	if e.Value == "_G" {
		c.dynamic = true
	}
	c.uses = append(c.uses, use{line: e.Line(), name: e.Value})
}

func (c *checker) member(e *ast.AttrGetExpr) {
	c.exprs([]ast.Expr{e.Object, e.Key})
	if object, member, line, ok := c.memberOf(e); ok {
		c.uses = append(c.uses, use{line: line, name: object, member: member})
	}
}

func (c *checker) comparison(e *ast.RelationalOpExpr) {
	for _, pair := range [][2]ast.Expr{{e.Lhs, e.Rhs}, {e.Rhs, e.Lhs}} {
		if _, isNil := pair[1].(*ast.NilExpr); isNil {
			c.expect(pair[0])
		}
		c.checkNull(pair[0], pair[1])
	}
	c.exprs([]ast.Expr{e.Lhs, e.Rhs})
}

func (c *checker) call(e *ast.FuncCallExpr) {
	c.exprs([]ast.Expr{e.Func, e.Receiver})
	c.exprs(e.Args)
	if c.isGlobal(e.Func, "type") && len(e.Args) == 1 {
		c.expect(e.Args[0])
	}
	c.checkCall(e)
}
