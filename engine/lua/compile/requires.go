package compile

import (
	"github.com/yuin/gopher-lua/ast"

	"github.com/scriptorium-dev/scriptorium/engine"
)

// What a source requires is read off its calls of require, so that it can be resolved before the
// source runs. A source that has a variable of that name itself calls something else.

const requireName = "require"

// require notes the call if it is one of require.
func (a *analyzer) require(e *ast.FuncCallExpr) {
	if fn, ok := e.Func.(*ast.IdentExpr); !ok || fn.Value != requireName {
		return
	}
	found := engine.Require{Line: e.Line()}
	if len(e.Args) > 0 {
		if name, ok := e.Args[0].(*ast.StringExpr); ok {
			found.Name, found.Constant = name.Value, true
		}
	}
	if !found.Constant || !a.builtins.HasModule(found.Name) {
		a.requires = append(a.requires, found)
	}
}

// declares notes variables of the script.
func (a *analyzer) declares(names ...string) {
	for _, name := range names {
		a.ownRequire = a.ownRequire || name == requireName
	}
}

// keepsRequire reports whether s is "local require = require".
func keepsRequire(s *ast.LocalAssignStmt) bool {
	if len(s.Names) != 1 || len(s.Exprs) != 1 {
		return false
	}
	value, ok := s.Exprs[0].(*ast.IdentExpr)
	return ok && s.Names[0] == requireName && value.Value == requireName
}

// required returns the calls of require.
func (a *analyzer) required() []engine.Require {
	if a.ownRequire {
		return nil
	}
	return a.requires
}
