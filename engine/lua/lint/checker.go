package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
)

// variable is a local variable.
type variable struct {
	name   string
	line   int
	kind   string // what messages call it: "local variable", "local function", "parameter" or "loop variable"
	reads  int
	assign int // line of an assignment after the declaration; 0 if there is none
}

// scope is the variables of a block.
type scope struct {
	outer     *scope
	variables []*variable
}

// global is a global variable that the script assigns to.
type global struct {
	line    int
	atChunk bool // the chunk assigns to it, and not only a function
}

// use is a global variable, or a member of one, that the script reads.
type use struct {
	line   int
	name   string
	member string // "" if the script reads the variable itself
}

// checker walks a tree.
type checker struct {
	entrypoint string
	config     map[string]json.RawMessage // nil if it is not known
	places     map[string][]compile.Token // of names, by their texts; those of members begin with "."
	first      map[int]compile.Token      // of each line
	taken      map[string]int             // places that findings have, by line and text

	scope     *scope
	functions int // around the node
	globals   map[string]*global
	uses      []use
	tested    map[string]bool // globals, and members of them, whose absence the script expects
	dynamic   bool            // globals may be defined by other means
	sorted    map[string]bool
	methods   map[string]bool // members of tables that may be functions of the script
	requires  bool            // so values may have methods of libraries

	findings []Finding
}

func newChecker(src Source, syntax compile.Syntax) *checker {
	c := &checker{entrypoint: src.Entrypoint, places: map[string][]compile.Token{}, first: map[int]compile.Token{}, taken: map[string]int{}, globals: map[string]*global{}, tested: map[string]bool{}, scope: &scope{}}
	for i, t := range syntax.Tokens {
		name := nameAt(syntax.Tokens, i)
		c.places[name] = append(c.places[name], t)
		if _, known := c.first[t.Line]; !known {
			c.first[t.Line] = t
		}
	}
	if src.Config != nil {
		_ = json.Unmarshal(src.Config, &c.config) // what is no object has no members to check
	}
	return c
}

// run checks the whole source.
func (c *checker) run(syntax compile.Syntax) {
	c.sorted, c.methods = sortedNames(syntax.Tokens), ownMethods(syntax.Tokens)
	c.requires = len(c.places["require"]) > 0
	c.block(syntax.Chunk)
	c.checkUses()
	c.checkGlobals()
}

// nameAt returns the token as a key of places: a member is t.name, t:name, t["name"] or {name = 1}.
func nameAt(tokens []compile.Token, i int) string {
	text, before, after := tokens[i].Text, "", ""
	if i > 0 {
		before = tokens[i-1].Text
	}
	if i+1 < len(tokens) {
		after = tokens[i+1].Text
	}
	switch {
	case before == "[" && after == "]" && len(text) > 2 && (text[0] == '"' || text[0] == '\''):
		return "." + text[1:len(text)-1]
	case before == "." || before == ":" || before == "{" && after == "=":
		return "." + text
	}
	return text
}

// find adds a finding about the name, which stands in the line or in one after it; a member begins with ".". "" is the
// first token of the line.
func (c *checker) find(r *Rule, line int, text, format string, args ...any) {
	f := Finding{Rule: r, Line: line, Message: fmt.Sprintf(format, args...)}
	key := fmt.Sprint(r.Code, line, text)
	places := c.places[text]
	byLine := func(t compile.Token, line int) int { return cmp.Compare(t.Line, line) }
	at, _ := slices.BinarySearchFunc(places, line, byLine)
	after, _ := slices.BinarySearchFunc(places, line+1, byLine)
	if at = min(at+c.taken[key], after); at < len(places) {
		f.Line, f.Column = places[at].Line, places[at].Column
	}
	c.taken[key]++
	if text == "" {
		f.Column = c.first[line].Column
	}
	c.findings = append(c.findings, f)
}

// enter opens a block, and leave closes it.
func (c *checker) enter() { c.scope = &scope{outer: c.scope} }

func (c *checker) leave() {
	for _, v := range c.scope.variables {
		c.checkUnused(v)
	}
	c.scope = c.scope.outer
}

// declare puts a variable into scope.
func (c *checker) declare(kind, name string, line int) *variable {
	v := &variable{name: name, line: line, kind: kind}
	c.checkShadowing(v)
	c.scope.variables = append(c.scope.variables, v)
	return v
}

// lookup returns the local variable with the name; nil if there is none.
func (c *checker) lookup(name string) *variable {
	for s := c.scope; s != nil; s = s.outer {
		for i := len(s.variables) - 1; i >= 0; i-- {
			if s.variables[i].name == name {
				return s.variables[i]
			}
		}
	}
	return nil
}

// isGlobal reports whether the expression is the global variable of the engine with the name.
func (c *checker) isGlobal(e ast.Expr, name string) bool {
	id, ok := e.(*ast.IdentExpr)
	return ok && id.Value == name && c.lookup(name) == nil && c.globals[name] == nil
}

// memberOf returns the names of a member of a global variable; ok is false for anything else.
func (c *checker) memberOf(e ast.Expr) (object, member string, line int, ok bool) {
	get, isGet := e.(*ast.AttrGetExpr)
	if !isGet {
		return "", "", 0, false
	}
	id, isName := get.Object.(*ast.IdentExpr)
	key, isText := get.Key.(*ast.StringExpr)
	if !isName || !isText || c.lookup(id.Value) != nil {
		return "", "", 0, false
	}
	return id.Value, key.Value, id.Line(), true
}

func (c *checker) checkUnused(v *variable) {
	if v.reads > 0 || strings.HasPrefix(v.name, "_") || v.name == "self" || v.name == "arg" {
		return
	}
	rule, does := unusedLocal, "is never read"
	switch {
	case v.kind == kindParameter:
		rule = unusedParameter
	case v.assign > 0:
		does = "is assigned to and never read"
	}
	c.find(rule, v.line, v.name, "%s %s %s", v.kind, v.name, does)
}

func (c *checker) checkShadowing(v *variable) {
	if strings.HasPrefix(v.name, "_") || v.name == "self" {
		return
	}
	if other := c.lookup(v.name); other != nil {
		c.find(shadowing, v.line, v.name, "%s %s shadows the %s %s", v.kind, v.name, other.kind, above(v.line-other.line))
		return
	}
	if isLib, _ := lua.HasMember(v.name, ""); isLib {
		c.find(shadowing, v.line, v.name, "%s %s shadows the library %s", v.kind, v.name, v.name)
	}
	if v.name == "require" { // see lua.Engine.Requires
		c.find(shadowing, v.line, v.name, "%s require shadows the function require: this source finds no libraries of the tenant", v.kind)
	}
}

// above says how far above a line is. It is no number of a line, which the source and its manifest count differently.
func above(lines int) string {
	switch lines {
	case 0:
		return "of the same line"
	case 1:
		return "of the line above"
	}
	return fmt.Sprintf("%d lines above", lines)
}

// checkUses checks the global variables that the script reads.
func (c *checker) checkUses() {
	said := map[string]bool{}
	own := map[string]string{} // by their names in small letters
	for name := range c.globals {
		if small := strings.ToLower(name); own[small] == "" || name < own[small] {
			own[small] = name
		}
	}
	for _, u := range c.uses {
		whole := u.name
		if u.member != "" {
			whole += "." + u.member
		}
		if rule, message := c.judge(u, whole, own); rule != nil && !said[whole] {
			said[whole] = true
			place := u.name
			if rule == unknownConfig {
				place = "." + u.member
			}
			c.find(rule, u.line, place, "%s", message)
		}
	}
}

// judge returns what is wrong with a use; nil if nothing is.
func (c *checker) judge(u use, whole string, own map[string]string) (*Rule, string) {
	if c.globals[u.name] != nil {
		return nil, ""
	}
	if u.member != "" {
		if c.tested[whole] {
			return nil, ""
		}
		if u.name == "config" {
			return c.judgeConfig(u.member)
		}
		if instead, ok := deprecated[whole]; ok {
			return deprecatedMember, whole + " is deprecated: " + instead
		}
		if isLib, has := lua.HasMember(u.name, u.member); isLib && !has {
			return unknownMember, "scripts have no " + whole + didYouMean(u.name+".", lua.NearestMember(u.name, u.member))
		}
		return nil, ""
	}
	if lua.HasGlobal(u.name) || u.name == "_G" || u.name == "config" || u.name == "arg" {
		return nil, ""
	}
	if instead, ok := elsewhere[u.name]; ok {
		if c.tested[whole] {
			return nil, ""
		}
		if instead != "" {
			instead = ": " + instead
		}
		return notAvailable, "scripts have no " + u.name + instead
	}
	if c.entrypoint == "" || c.dynamic { // the members of the argument are globals, too
		return nil, ""
	}
	return undefinedGlobal, u.name + " is defined nowhere, and so nil" + didYouMean("", cmp.Or(own[strings.ToLower(u.name)], lua.NearestGlobal(u.name)))
}

func didYouMean(before, name string) string {
	if name == "" {
		return ""
	}
	return ": did you mean " + before + name + "?"
}

// checkGlobals checks the global variables that the script assigns to.
func (c *checker) checkGlobals() {
	if c.entrypoint == "" || c.dynamic {
		return
	}
	read := map[string]bool{}
	for _, u := range c.uses {
		read[u.name] = true
	}
	for name, g := range c.globals {
		switch {
		case name == c.entrypoint, name == engine.OnResponse, lua.HasGlobal(name), strings.HasPrefix(name, "_"):
		case !read[name]:
			c.find(unusedGlobal, g.line, name, "global %s is never read", name)
		case !g.atChunk:
			c.find(globalInFunction, g.line, name, "global %s is assigned to in a function alone, and lost after the call: add local", name)
		}
	}
}

// elsewhere are global variables of Lua 5.1 to 5.4, OpenResty and Redis that scripts do not have, and what to use in
// their place, if there is something.
var elsewhere = map[string]string{
	"print": "use log.info", "warn": "use log.warn",
	"io": "", "debug": "", "package": "", "collectgarbage": "", "module": "", "newproxy": "",
	"dofile": "code cannot be loaded", "load": "code cannot be loaded", "loadfile": "code cannot be loaded", "loadstring": "code cannot be loaded",
	"getfenv": "", "setfenv": "", "gcinfo": "", "bit": "", "bit32": "", "utf8": "", "ffi": "", "jit": "",
	"ngx": "the argument is the request, and the result the decision", "redis": "kv reads values of the tenant", "cjson": "use json",
}

// deprecated are members of libraries that Lua 5.1 replaced.
var deprecated = map[string]string{
	"table.getn": "use the operator #",
	"math.mod":   "use math.fmod, or the operator %",
}
