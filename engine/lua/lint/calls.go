package lint

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/diagnose"
)

// checkCall checks the arguments of a call of a library function.
func (c *checker) checkCall(e *ast.FuncCallExpr) {
	name, line, args := c.callee(e)
	s := parsed()[name]
	if s == nil {
		return
	}
	open := len(args) > 0 && isOpen(args[len(args)-1]) // the last one may be several values, or none
	text := name[max(strings.LastIndexByte(name, '.'), 0):]
	switch {
	case len(args) < s.least && !open:
		c.find(wrongArguments, line, text, "%s needs at least %s and gets %d: %s(%s)", name, arguments(s.least), len(args), name, s)
	case len(args) > len(s.parameters) && !s.rest:
		c.find(wrongArguments, line, text, "%s takes at most %s and gets %d: %s(%s)", name, arguments(len(s.parameters)), len(args), name, s)
	}
	for i, arg := range args[:min(len(args), len(s.parameters))] {
		if p := s.parameters[i]; !fits(arg, p) {
			c.find(wrongArguments, line, text, "%s needs a %s as its argument %d, %s, and gets a %s", name, p.kind, i+1, p.name, literal(arg))
		}
	}
	c.checkPattern(name, line, args)
}

func arguments(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

// callee returns the name of the library function that the call calls, with its arguments; "" for other functions.
func (c *checker) callee(e *ast.FuncCallExpr) (name string, line int, args []ast.Expr) {
	if id, ok := e.Func.(*ast.IdentExpr); ok && c.isGlobal(e.Func, id.Value) {
		return id.Value, id.Line(), e.Args
	}
	if object, member, line, ok := c.memberOf(e.Func); ok && c.globals[object] == nil {
		return object + "." + member, line, e.Args
	}
	if e.Receiver != nil && !c.methods[e.Method] && !c.requires { // most likely a string: s:find(p)
		return "string." + e.Method, e.Line(), append([]ast.Expr{e.Receiver}, e.Args...)
	}
	return "", 0, nil
}

// ownMethods returns the names of members that are assigned to or defined anywhere: they may be methods of tables.
func ownMethods(tokens []compile.Token) map[string]bool {
	own := map[string]bool{}
	for i := 0; i+1 < len(tokens); i++ {
		next := tokens[i+1].Text
		if next == "=" || next == "(" && i > 1 && (tokens[i-1].Text == ":" || tokens[i-1].Text == ".") && definedAt(tokens, i-2) {
			own[tokens[i].Text] = true
		}
	}
	return own
}

// definedAt reports whether the token ends the names of "function a.b".
func definedAt(tokens []compile.Token, i int) bool {
	for i >= 2 && tokens[i-1].Text == "." {
		i -= 2
	}
	return i >= 1 && tokens[i-1].Text == "function"
}

func isOpen(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		return !e.AdjustRet
	case *ast.Comma3Expr:
		return !e.AdjustRet
	}
	return false
}

// The types of literals.
const (
	kindOfText     = "string"
	kindOfNumber   = "number"
	kindOfTable    = "table"
	kindOfFunction = "function"
)

// literal returns the type of a literal; "" for other expressions.
func literal(e ast.Expr) string {
	switch e.(type) {
	case *ast.StringExpr, *ast.StringConcatOpExpr:
		return kindOfText
	case *ast.NumberExpr:
		return kindOfNumber
	case *ast.TableExpr:
		return kindOfTable
	case *ast.FunctionExpr:
		return kindOfFunction
	case *ast.TrueExpr, *ast.FalseExpr:
		return "boolean"
	case *ast.NilExpr:
		return "nil"
	}
	return ""
}

// fits reports whether the argument can be what the parameter needs.
func fits(arg ast.Expr, p parameter) bool {
	got := literal(arg)
	switch {
	case got == "", p.kind == "", got == p.kind, got == "nil" && p.optional, p.kind == kindOfText && got == kindOfNumber:
		return true
	case p.kind == kindOfNumber && got == kindOfText:
		s, ok := arg.(*ast.StringExpr)
		if !ok {
			return true // numbers that are put together
		}
		_, err := strconv.ParseFloat(strings.TrimSpace(s.Value), 64)
		return err == nil
	}
	return false
}

// judgeConfig judges a use of a member of config.
func (c *checker) judgeConfig(name string) (*Rule, string) {
	if value, ok := c.config[name]; c.config == nil || ok && string(value) != "null" {
		return nil, ""
	}
	near := ""
	for known := range c.config {
		if diagnose.Similar(name, known) && (near == "" || known < near) {
			near = known
		}
	}
	return unknownConfig, "spec.config has no " + name + didYouMean("config.", near)
}

// checkNull checks for a comparison of a member of an object with json.null.
func (c *checker) checkNull(member, null ast.Expr) {
	object, name, _, ok := c.memberOf(null)
	get, isMember := member.(*ast.AttrGetExpr)
	if !ok || object != "json" || name != "null" || !isMember {
		return
	}
	if key, isText := get.Key.(*ast.StringExpr); isText {
		c.find(nullMember, member.Line(), "."+key.Value, "%s is nil if it is null in the JSON: compare it with nil", key.Value)
	}
}
