package compile

import (
	"slices"

	"github.com/yuin/gopher-lua/ast"

	"github.com/scriptorium-dev/scriptorium/engine"
)

// Most scripts only ever name their globals. Such a script is compiled with its
// globals as local variables around it:
//
//	local config = ...
//	local string, handle = string
//	do
//	    … the script …
//	end
//	return handle
//
// If the script assigns to on_response, the last line returns that, too.
//
// A call then needs no table for its environment, and finds each variable without
// looking it up. A script that could tell the difference is left as it is: one that
// mentions _G, returns from the chunk, or uses the chunk's arguments; and so is one
// that would have too many variables.

// MaxGlobals is how many globals become local variables; a function has room for
// 200.
const MaxGlobals = 50

// maxLocalsBeside is how many variables the chunk may have of its own then.
const maxLocalsBeside = 100

// wrap returns the chunk with its globals as local variables; ok is false if that
// cannot be done.
func (a *analyzer) wrap(chunk []ast.Stmt) (wrapped []ast.Stmt, ok bool) {
	if a.entrypoint == "" || a.usesEnv || a.returns || a.usesArguments ||
		len(a.assigned) > MaxGlobals || a.chunkLocals > maxLocalsBeside ||
		2*a.cost > a.afford { // it may have to be compiled again without
		return nil, false
	}
	if a.usesConfig {
		a.assigned["config"] = true
		wrapped = append(wrapped, &ast.LocalAssignStmt{
			Names: []string{"config"},
			Exprs: []ast.Expr{&ast.Comma3Expr{AdjustRet: true}},
		})
	}
	results := []ast.Expr{&ast.IdentExpr{Value: a.entrypoint}}
	if a.definesOnResponse() {
		results = append(results, &ast.IdentExpr{Value: engine.OnResponse})
	}
	wrapped = append(wrapped, a.declaration(), &ast.DoBlockStmt{Stmts: chunk}, &ast.ReturnStmt{Exprs: results})
	for _, stmt := range wrapped {
		stmt.SetLine(1)
	}
	return wrapped, true
}

// definesOnResponse reports whether the script may define engine.OnResponse.
func (a *analyzer) definesOnResponse() bool { return a.usesEnv || a.assigned[engine.OnResponse] }

// declaration declares all globals that the script assigns to; those that every
// script finds keep their values.
func (a *analyzer) declaration() *ast.LocalAssignStmt {
	found, fresh := []string{}, []string{}
	for name := range a.assigned {
		switch {
		case name == "config":
		case a.builtins.HasGlobal(name):
			found = append(found, name)
		default:
			fresh = append(fresh, name)
		}
	}
	slices.Sort(found)
	slices.Sort(fresh)
	local := &ast.LocalAssignStmt{Names: slices.Concat(found, fresh)}
	for _, name := range found {
		local.Exprs = append(local.Exprs, &ast.IdentExpr{Value: name})
	}
	return local
}
