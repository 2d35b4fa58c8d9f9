package compile

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

// beginning is what statements begin with, once code is made of them.
type beginning uint8

const (
	withNothing beginning = iota // labels and empty blocks
	withJump
	withCode
)

// spaced returns the statements of a loop with something before a jump that comes
// first.
func (a *analyzer) spaced(stmts []ast.Stmt) []ast.Stmt {
	if a.beginning(stmts) != withJump {
		return stmts
	}
	return append([]ast.Stmt{spacer(stmts[0])}, stmts...)
}

// spacer returns a statement that does nothing, but has code, for the place before s.
func spacer(s ast.Stmt) ast.Stmt {
	nothing := &ast.LocalAssignStmt{Names: []string{"(nothing)"}, Exprs: []ast.Expr{&ast.NilExpr{}}}
	nothing.SetLine(s.Line())
	nothing.Exprs[0].SetLine(s.Line())
	return within(s, []ast.Stmt{nothing})
}

// beginning looks no further than it must, and spends for each statement it looks at.
func (a *analyzer) beginning(stmts []ast.Stmt) beginning {
	for _, stmt := range stmts {
		if first := a.beginningOf(stmt); first != withNothing {
			return first
		}
	}
	return withNothing
}

func (a *analyzer) beginningOf(stmt ast.Stmt) beginning {
	a.spend(1)
	switch stmt := stmt.(type) {
	case *ast.BreakStmt, *ast.GotoStmt:
		return withJump
	case *ast.LabelStmt:
		return withNothing
	case *ast.DoBlockStmt:
		return a.beginning(stmt.Stmts)
	}
	return withCode
}

// spacedLabels does as spaced does behind each label. It looks at each statement once,
// from the last one on.
func (a *analyzer) spacedLabels(stmts []ast.Stmt) []ast.Stmt {
	jumps := make(map[int]bool) // the statements that need something before them
	next := withNothing         // what follows begins with
	for i := len(stmts) - 1; i >= 0; i-- {
		if _, label := stmts[i].(*ast.LabelStmt); !label {
			if first := a.beginningOf(stmts[i]); first != withNothing {
				next = first
			}
			continue
		}
		if next == withJump {
			jumps[i+1] = true
			next = withCode
		}
	}
	if len(jumps) == 0 {
		return stmts
	}
	walked := make([]ast.Stmt, 0, len(stmts)+len(jumps))
	for i, stmt := range stmts {
		if jumps[i] {
			walked = append(walked, spacer(stmt))
		}
		walked = append(walked, stmt)
	}
	return walked
}
