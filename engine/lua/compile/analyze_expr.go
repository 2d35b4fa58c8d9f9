package compile

import (
	"github.com/yuin/gopher-lua/ast"

	"github.com/scriptorium-dev/scriptorium/script"
)

func (a *analyzer) exprs(list []ast.Expr, depth int) {
	for i, e := range list {
		list[i] = a.expr(e, depth)
	}
}

// expr walks e and returns what takes its place.
func (a *analyzer) expr(e ast.Expr, depth int) ast.Expr {
	a.at(e, depth)
	a.spend(1)
	switch e := e.(type) {
	case *ast.NumberExpr:
		a.number(e)
	case *ast.StringExpr:
		a.text(e.Value)
	case *ast.IdentExpr:
		a.ident(e.Value)
	case *ast.AttrGetExpr:
		e.Object = a.expr(e.Object, depth+1)
		e.Key = a.expr(e.Key, depth+1)
	case *ast.TableExpr:
		a.table(e, depth)
	case *ast.FuncCallExpr:
		a.call(e, depth)
	case *ast.FunctionExpr:
		a.function(e, false, depth)
	case *ast.Comma3Expr:
		a.usesArguments = a.usesArguments || a.inChunk()
		a.fn.namesRest = true
	case *ast.StringConcatOpExpr:
		return a.concat(e, depth)
	case *ast.UnaryLenOpExpr:
		return operatorCall(Length, e, []ast.Expr{a.expr(e.Expr, depth+1)})
	default:
		return a.operation(e, depth)
	}
	return e
}

// operation walks the other operators, which mostly stay what they are.
func (a *analyzer) operation(e ast.Expr, depth int) ast.Expr {
	switch e := e.(type) {
	case *ast.LogicalOpExpr:
		a.jumps(4)
		e.Lhs, e.Rhs = a.expr(e.Lhs, depth+1), a.expr(e.Rhs, depth+1)
		return logical(e)
	case *ast.RelationalOpExpr:
		a.jumps(1)
		e.Lhs, e.Rhs = a.expr(e.Lhs, depth+1), a.expr(e.Rhs, depth+1)
	case *ast.ArithmeticOpExpr:
		if a.arith++; a.arith > maxArithDepth {
			a.refuse(script.Limit, "more than %d arithmetic operators in one expression; split it", maxArithDepth)
		}
		e.Lhs, e.Rhs = a.expr(e.Lhs, depth+1), a.expr(e.Rhs, depth+1)
		a.arith--
	case *ast.UnaryMinusOpExpr:
		if a.arith++; a.arith > maxArithDepth {
			a.refuse(script.Limit, "more than %d arithmetic operators in one expression; split it", maxArithDepth)
		}
		e.Expr = a.expr(e.Expr, depth+1)
		a.arith--
	case *ast.UnaryNotOpExpr:
		e.Expr = a.expr(e.Expr, depth+1)
		return negated(e)
	}
	return e
}

func (a *analyzer) table(e *ast.TableExpr, depth int) {
	items := 0
	for _, field := range e.Fields {
		if field.Key == nil {
			items++
		} else {
			field.Key = a.expr(field.Key, depth+1)
		}
		field.Value = a.expr(field.Value, depth+1)
	}
	if items > maxArrayItems {
		a.refuse(script.Limit, "more than %d items in one table constructor", maxArrayItems)
	}
}

func (a *analyzer) call(e *ast.FuncCallExpr, depth int) {
	a.require(e)
	if e.Func != nil {
		e.Func = a.expr(e.Func, depth+1)
	} else {
		e.Receiver = a.expr(e.Receiver, depth+1)
		a.constant("s" + e.Method)
	}
	a.exprs(e.Args, depth+1)
}

// concat replaces a chain "a..b..c" by one call, or by several within each
// other if it is long. As in Lua the chain is joined from its end.
func (a *analyzer) concat(e *ast.StringConcatOpExpr, depth int) ast.Expr {
	var operands []ast.Expr
	var rest ast.Expr = e
	for {
		link, ok := rest.(*ast.StringConcatOpExpr)
		if !ok {
			break
		}
		operands = append(operands, a.expr(link.Lhs, depth+1))
		rest = link.Rhs
	}
	operands = append(operands, a.expr(rest, depth+1))
	for len(operands) > concatGroup {
		split := len(operands) - concatGroup
		tail := operatorCall(Concat, e, operands[split:])
		operands = append(operands[:split:split], tail)
	}
	return operatorCall(Concat, e, operands)
}

// operatorCall returns a call of the operator's builtin with exactly these
// operands: the last one, too, gives one value alone.
func operatorCall(name string, at ast.Expr, operands []ast.Expr) *ast.FuncCallExpr {
	single(operands[len(operands)-1])
	fn := &ast.StringExpr{Value: name}
	fn.SetLine(at.Line())
	call := &ast.FuncCallExpr{Func: fn, Args: operands}
	call.SetLine(at.Line())
	return call
}
