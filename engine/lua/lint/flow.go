package lint

import (
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
)

// checkReached checks that each statement of a block can be reached.
func (c *checker) checkReached(stmts []ast.Stmt) {
	for i, stmt := range stmts[:max(len(stmts)-1, 0)] {
		if _, isLabel := stmts[i+1].(*ast.LabelStmt); !isLabel && c.ends(stmt) {
			c.find(unreachable, stmts[i+1].Line(), "", "nothing reaches this statement: the one before it ends the block")
			return
		}
	}
}

// ends reports whether no statement after this one is reached.
func (c *checker) ends(stmt ast.Stmt) bool {
	switch s := stmt.(type) {
	case *ast.ReturnStmt, *ast.BreakStmt, *ast.GotoStmt:
		return true
	case *ast.DoBlockStmt:
		return c.endsBlock(s.Stmts)
	case *ast.IfStmt:
		return c.endsBlock(s.Then) && c.endsBlock(s.Else)
	case *ast.WhileStmt:
		_, forever := s.Condition.(*ast.TrueExpr)
		return forever && !breaks(s.Stmts)
	case *ast.FuncCallStmt:
		call, ok := s.Expr.(*ast.FuncCallExpr)
		return ok && c.isGlobal(call.Func, "error")
	}
	return false
}

func (c *checker) endsBlock(stmts []ast.Stmt) bool {
	return len(stmts) > 0 && c.ends(stmts[len(stmts)-1])
}

// breaks reports whether a statement may leave the loop around it.
func breaks(stmts []ast.Stmt) bool {
	for _, stmt := range stmts {
		switch s := stmt.(type) {
		case *ast.BreakStmt, *ast.GotoStmt:
			return true
		case *ast.DoBlockStmt:
			if breaks(s.Stmts) {
				return true
			}
		case *ast.IfStmt:
			if breaks(s.Then) || breaks(s.Else) {
				return true
			}
		}
	}
	return false
}

// sortedNames returns the names that are sorted anywhere: table.sort(NAME, or a function such as sorted(NAME.
func sortedNames(tokens []compile.Token) map[string]bool {
	sorted := map[string]bool{}
	for i := 0; i+2 < len(tokens); i++ {
		if tokens[i+1].Text == "(" && strings.Contains(strings.ToLower(tokens[i].Text), "sort") {
			sorted[tokens[i+2].Text] = true
		}
	}
	return sorted
}

// checkOrder checks that a loop over pairs makes nothing whose order matters.
func (c *checker) checkOrder(s *ast.GenericForStmt) {
	if len(s.Exprs) != 1 {
		return
	}
	call, ok := s.Exprs[0].(*ast.FuncCallExpr)
	if !ok || !c.isGlobal(call.Func, "pairs") {
		return
	}
	if name, line := c.ordered(s.Stmts, s.Names); name != "" {
		c.find(pairsOrder, line, name, "the order of %s is that of pairs, in which the members were first set: sort it", name)
	}
}

// ordered returns the name of the list or text that the statements add to; "" if they add to none, or to one that is
// sorted. One of the own names is of the loop, and most
// likely new each time.
func (c *checker) ordered(stmts []ast.Stmt, own []string) (name string, line int) {
	own = slices.Clip(own)
	for _, stmt := range stmts {
		if declared, ok := stmt.(*ast.LocalAssignStmt); ok {
			own = append(own, declared.Names...)
		}
		if name, line = c.addsTo(stmt, own); name != "" && !c.sorted[name] && !slices.Contains(own, name) {
			return name, line
		}
	}
	return "", 0
}

func (c *checker) addsTo(stmt ast.Stmt, own []string) (name string, line int) {
	switch s := stmt.(type) {
	case *ast.IfStmt:
		if name, line = c.ordered(s.Then, own); name == "" {
			name, line = c.ordered(s.Else, own)
		}
		return name, line
	case *ast.FuncCallStmt:
		call, ok := s.Expr.(*ast.FuncCallExpr)
		if !ok || len(call.Args) != 2 {
			return "", 0
		}
		if object, member, _, ok := c.memberOf(call.Func); ok && object == "table" && member == "insert" {
			return identOf(call.Args[0]), s.Line()
		}
	case *ast.AssignStmt:
		if len(s.Lhs) != 1 {
			return "", 0
		}
		if get, ok := s.Lhs[0].(*ast.AttrGetExpr); ok && isEnd(get) {
			return identOf(get.Object), s.Line()
		}
		if concat, ok := s.Rhs[0].(*ast.StringConcatOpExpr); ok && identOf(s.Lhs[0]) != "" && identOf(concat.Lhs) == identOf(s.Lhs[0]) {
			return identOf(concat.Lhs), s.Line()
		}
	}
	return "", 0
}

// isEnd reports whether the expression is t[#t + 1].
func isEnd(get *ast.AttrGetExpr) bool {
	sum, ok := get.Key.(*ast.ArithmeticOpExpr)
	if !ok {
		return false
	}
	length, ok := sum.Lhs.(*ast.UnaryLenOpExpr)
	return ok && identOf(length.Expr) != "" && identOf(length.Expr) == identOf(get.Object)
}

func identOf(e ast.Expr) string {
	if id, ok := e.(*ast.IdentExpr); ok {
		return id.Value
	}
	return ""
}

// checkPattern checks the pattern of a call.
func (c *checker) checkPattern(name string, line int, args []ast.Expr) {
	switch name {
	case "string.find", "string.match", "string.gmatch", "string.gsub":
	default:
		return
	}
	if len(args) < 2 || len(args) > 3 && name == "string.find" { // it may be plain
		return
	}
	if p, ok := args[1].(*ast.StringExpr); ok {
		if n := wideRepetitions(p.Value); n >= 3 || n == 2 && !strings.HasPrefix(p.Value, "^") {
			c.find(heavyPattern, line, name[strings.IndexByte(name, '.'):], "the pattern %q repeats %d classes that match the same text: it can take time of the power %d of its length", p.Value, n, n)
		}
	}
}

// wideRepetitions returns how many repetitions of a pattern match nearly any text, and are followed by something.
func wideRepetitions(pattern string) (n int) {
	for i := 0; i < len(pattern); i++ {
		wide := false
		switch pattern[i] {
		case '%':
			i++
			wide = i < len(pattern) && strings.IndexByte("SWDAPCLUX", pattern[i]) >= 0
		case '[':
			end := strings.IndexByte(pattern[min(i+2, len(pattern)):], ']')
			if end < 0 {
				return n
			}
			i += 2 + end
		case '.':
			wide = true
		}
		if wide && i+1 < len(pattern) && strings.IndexByte("*+-", pattern[i+1]) >= 0 {
			if rest := strings.Trim(pattern[i+2:], ")$"); rest != "" {
				n++
			}
		}
	}
	return n
}
