package compile

import (
	"math"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what gopher-lua's compiler is given. It recurses with the depth of
// the tree, looks variables and constants up one by one, and numbers jumps in
// 18 bits.
const (
	maxTreeDepth  = 1000
	maxArithDepth = 200 // constants are folded again at every level
	maxFunctions  = 2000
	maxArrayItems = 25_000 // of one constructor
	maxJumps      = 60_000 // of one function
	maxGotos      = 200    // and as many labels, of one function
	concatGroup   = 40     // operands of one call: they all need registers
)

// What compiling may cost: comparisons of names and constants, of which some ten
// million take 100 ms. Larger sources may cost more.
const (
	minCompileCost     = 5_000_000
	compileCostOfAByte = 110
	maxCompileCost     = 50_000_000
)

// The analyzer replaces operators by calls of these names, which become the builtins.
// No script can hold such a string before that.
const (
	OperatorPrefix = "\x00operator "
	Concat         = OperatorPrefix + ".."
	Length         = OperatorPrefix + "#"
	Arg            = OperatorPrefix + "arg"
)

// analyzer walks a tree once. It refuses what the compiler cannot take, finds
// out what the script mentions, and rewrites what must be metered.
type analyzer struct {
	entrypoint string
	builtins   Builtins
	afford     int // cost

	defines    bool // the script may define the entrypoint
	usesConfig bool
	usesEnv    bool

	// For wrap.
	assigned      map[string]bool // names that are assigned to
	chunkLocals   int             // variables of the chunk, in scope at once
	returns       bool            // the chunk returns
	usesArguments bool            // the chunk uses its arguments

	requires   []engine.Require
	ownRequire bool // the script has a variable of that name itself

	fn        *function
	mentions  map[string]int // of names
	functions int
	cost      int
	arith     int // arithmetic operators around the node
	line      int // of the node that is being looked at
}

// function is what is known of the function that is being walked.
type function struct {
	outer     *function
	visible   int // variables of the functions around it
	locals    int // variables in scope
	blocks    int
	jumps     int
	gotos     int
	labels    int
	constants map[string]struct{}
	namesArg  bool // it, or a function in it, mentions "arg"
	namesRest bool // it mentions "..."
}

// refusal carries an error out of the walk.
type refusal struct{ err *script.Error }

func newAnalyzer(entrypoint string, sourceBytes int, builtins Builtins) *analyzer {
	return &analyzer{
		entrypoint: entrypoint, builtins: builtins, assigned: map[string]bool{}, mentions: map[string]int{},
		afford: min(max(minCompileCost, compileCostOfAByte*sourceBytes), maxCompileCost),
	}
}

func (a *analyzer) chunk(stmts []ast.Stmt) (walked []ast.Stmt, err *script.Error) {
	defer func() {
		if r := recover(); r != nil {
			refused, ok := r.(refusal)
			if !ok {
				panic(r)
			}
			err = refused.err
		}
	}()
	a.enterFunction()
	return a.block(stmts, 1), nil
}

func (a *analyzer) refuse(kind script.Kind, format string, args ...any) {
	err := script.Errorf(kind, "", format, args...)
	err.Line = a.line
	panic(refusal{err})
}

func (a *analyzer) at(n ast.PositionHolder, depth int) {
	if line := n.Line(); line > 0 {
		a.line = line
	}
	if depth > maxTreeDepth {
		a.refuse(script.Limit, "the code is nested more than %d deep", maxTreeDepth)
	}
}

func (a *analyzer) spend(n int) {
	if a.cost += n; a.cost > a.afford {
		a.refuse(script.Limit, "the script is too complex to compile; split large functions, or pass data as JSON")
	}
}

func (a *analyzer) jumps(n int) {
	if a.fn.jumps += n; a.fn.jumps > maxJumps {
		a.refuse(script.Limit, "the function has too many conditions and loops; split it")
	}
}

// constant accounts for a constant of the function. The compiler compares it to
// those it has.
func (a *analyzer) constant(key string) {
	a.fn.constants[key] = struct{}{}
	a.spend(len(a.fn.constants))
}

func (a *analyzer) enterFunction() {
	if a.functions++; a.functions > maxFunctions {
		a.refuse(script.Limit, "the script has more than %d functions", maxFunctions)
	}
	f := &function{outer: a.fn, constants: make(map[string]struct{})}
	if f.outer != nil {
		f.visible = f.outer.visible + f.outer.locals + f.outer.blocks
	}
	a.fn = f
}

func (a *analyzer) leaveFunction() { a.fn = a.fn.outer }

// inChunk reports whether what is looked at belongs to no function but the chunk.
func (a *analyzer) inChunk() bool { return a.fn.outer == nil }

// declare accounts for n more variables in scope.
func (a *analyzer) declare(n int) {
	a.fn.locals += n
	if a.inChunk() {
		a.chunkLocals = max(a.chunkLocals, a.fn.locals)
	}
}

// block walks statements in a scope of their own, and returns what takes their
// place.
func (a *analyzer) block(stmts []ast.Stmt, depth int) []ast.Stmt {
	locals := a.fn.locals
	a.fn.blocks++
	stmts = a.statements(stmts, depth)
	a.fn.blocks--
	a.fn.locals = locals
	return stmts
}

func (a *analyzer) statements(stmts []ast.Stmt, depth int) []ast.Stmt {
	labels := false
	for i, stmt := range stmts {
		a.at(stmt, depth)
		stmts[i] = a.stmt(stmt, depth)
		_, label := stmt.(*ast.LabelStmt)
		labels = labels || label
	}
	if labels {
		return a.spacedLabels(stmts)
	}
	return stmts
}

func (a *analyzer) function(f *ast.FunctionExpr, method bool, depth int) {
	a.enterFunction()
	a.declares(f.ParList.Names...)
	a.fn.locals = len(f.ParList.Names)
	if method {
		a.fn.locals++
	}
	f.Stmts = a.block(f.Stmts, depth+1)
	if a.fn.namesArg && f.ParList.HasVargs && !a.fn.namesRest {
		f.Stmts = append([]ast.Stmt{declareArg(f)}, f.Stmts...)
	}
	a.leaveFunction()
}

// declareArg returns "local arg = {n = select("#", ...), ...}", by a builtin: what
// gopher-lua has for it makes a table of any size for nothing.
func declareArg(f *ast.FunctionExpr) ast.Stmt {
	rest := &ast.Comma3Expr{}
	rest.SetLine(f.Line())
	fn := &ast.StringExpr{Value: Arg}
	fn.SetLine(f.Line())
	call := &ast.FuncCallExpr{Func: fn, Args: []ast.Expr{rest}}
	call.SetLine(f.Line())
	local := &ast.LocalAssignStmt{Names: []string{"arg"}, Exprs: []ast.Expr{call}}
	local.SetLine(f.Line())
	return local
}

func (a *analyzer) ident(name string) {
	a.spend(1 + a.fn.visible + a.fn.locals + a.fn.blocks)
	a.constant("s" + name)
	a.mentions[name]++
	switch name {
	case "config":
		a.usesConfig = true
	case "_G":
		a.usesEnv, a.usesConfig, a.defines = true, true, true
	case "arg":
		for fn := a.fn; fn != nil; fn = fn.outer {
			fn.namesArg = true
		}
	}
}

func (a *analyzer) text(value string) {
	if strings.HasPrefix(value, OperatorPrefix) {
		a.refuse(script.Script, "a string may not begin with %q", OperatorPrefix)
	}
	a.constant("s" + value)
	if value == a.entrypoint {
		a.defines = true
	}
}

// number makes sure that the compiler reads the literal as Lua does.
func (a *analyzer) number(e *ast.NumberExpr) {
	free := vm.Meter{Left: math.MaxInt64}
	v, ok := numeral.Parse(&free, e.Value)
	if !ok {
		a.refuse(script.Script, "malformed number near %s", quoteToken(strings.ToValidUTF8(e.Value, "?")))
	}
	a.constant("n" + e.Value)
	if math.IsInf(v, 0) {
		e.Value = "1e999"
		return
	}
	e.Value = strconv.FormatFloat(v, 'g', -1, 64)
}
