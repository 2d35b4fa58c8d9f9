package lua

import "github.com/yuin/gopher-lua/ast"

// gopher-lua shortens jumps that lead to jumps. Where a jump goes back to one that
// was shortened before, it takes the distance there for a label, and leads anywhere:
// in "while x do if nil then … else … end end" nothing of the if is executed. So no
// place that is jumped back to, a loop's beginning or a label, may begin with a jump.
// The functions here see to that: constants that would become a jump are evaluated
// now, and a break or goto that comes first gets something before it.

// truth returns whether e is a constant, and whether it is true in a condition.
func truth(e ast.Expr) (isTrue, constant bool) {
	switch e.(type) {
	case *ast.NilExpr, *ast.FalseExpr:
		return false, true
	case *ast.TrueExpr, *ast.NumberExpr, *ast.StringExpr:
		return true, true
	}
	return false, false
}

// logical returns what e is if its first operand is a constant, or e.
func logical(e *ast.LogicalOpExpr) ast.Expr {
	isTrue, constant := truth(e.Lhs)
	switch {
	case !constant:
		return e
	case isTrue == (e.Operator == "and"):
		return single(e.Rhs)
	}
	return e.Lhs
}

// negated returns "not e", evaluated if e is a constant.
func negated(e *ast.UnaryNotOpExpr) ast.Expr {
	isTrue, constant := truth(e.Expr)
	var value ast.Expr
	switch {
	case !constant:
		return e
	case isTrue:
		value = &ast.FalseExpr{}
	default:
		value = &ast.TrueExpr{}
	}
	value.SetLine(e.Line())
	return value
}

// single makes e one value, as an operand is.
func single(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	return e
}

// decided returns the branch of s that is executed, if that is known, or s.
func decided(s *ast.IfStmt) ast.Stmt {
	isTrue, constant := truth(s.Condition)
	if !constant {
		return s
	}
	branch := s.Else
	if isTrue {
		branch = s.Then
	}
	return within(s, branch)
}

// within returns stmts as a block in the place of s.
func within(s ast.Stmt, stmts []ast.Stmt) ast.Stmt {
	block := &ast.DoBlockStmt{Stmts: stmts}
	block.SetLine(s.Line())
	block.SetLastLine(s.LastLine())
	return block
}

// spaced returns the statements of a loop, or those after a label, with something
// before a jump that comes first.
func spaced(stmts []ast.Stmt) []ast.Stmt {
	if !beginsWithJump(stmts) {
		return stmts
	}
	nothing := &ast.LocalAssignStmt{Names: []string{"(nothing)"}, Exprs: []ast.Expr{&ast.NilExpr{}}}
	nothing.SetLine(stmts[0].Line())
	nothing.Exprs[0].SetLine(stmts[0].Line())
	return append([]ast.Stmt{within(stmts[0], []ast.Stmt{nothing})}, stmts...)
}

func beginsWithJump(stmts []ast.Stmt) bool {
	for i, stmt := range stmts {
		switch stmt := stmt.(type) {
		case *ast.BreakStmt, *ast.GotoStmt:
			return true
		case *ast.LabelStmt:
		case *ast.DoBlockStmt:
			if len(stmt.Stmts) > 0 {
				return beginsWithJump(append(stmt.Stmts[:len(stmt.Stmts):len(stmt.Stmts)], stmts[i+1:]...))
			}
		default:
			return false
		}
	}
	return false
}

// spacedLabels does as spaced does behind each label.
func spacedLabels(stmts []ast.Stmt) []ast.Stmt {
	for i := len(stmts) - 1; i >= 0; i-- {
		if _, ok := stmts[i].(*ast.LabelStmt); ok {
			stmts = append(stmts[:i+1:i+1], spaced(stmts[i+1:])...)
		}
	}
	return stmts
}
