package rego

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The rules that are the entrypoint of a policy that names none, in this order.
var defaultRules = []string{"decision", "allow"}

const (
	// handle is the entrypoint that a manifest has which names none. It is the name of a function of Lua.
	handle = "handle"
	// maxErrors is after how many errors the compiler stops.
	maxErrors = 10
	resultVar = ast.Var("result")
)

// policy is a compiled source.
type policy struct {
	compiler   *ast.Compiler
	data       ast.Object
	main       query
	onResponse *query // nil if the policy has no such rule
}

// query asks for one rule.
type query struct {
	path     string   // such as acme/route/decision
	source   ast.Body // as it was before it was compiled
	body     ast.Body
	compiler ast.QueryCompiler
}

// compile checks the source and compiles it, running nothing of it.
func compile(src engine.Source) (p *policy, err *script.Error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, script.Errorf(script.Script, "", "the compiler cannot handle this source")
			err.Err = fmt.Errorf("panic: %v", r)
		}
	}()
	if most := script.MaxSource(script.EngineRego, src.Code); len(src.Code) > most {
		return nil, script.Errorf(script.Limit, "source", "the source has more than %d bytes", most)
	}
	if invalid := src.Runtime.Validate("", script.EngineRego); invalid != nil {
		return nil, script.AsError(invalid)
	}
	path, err := entrypointPath(src.Entrypoint)
	if err != nil {
		return nil, err
	}
	s, err := read(src)
	if err != nil {
		return nil, err
	}
	if err := s.bounded(); err != nil {
		return nil, err
	}
	c, err := s.compile(src.Runtime.Rego.V0)
	if err != nil {
		return nil, err
	}
	p = &policy{compiler: c, data: s.data}
	rule, err := s.entrypoint(c, path)
	if err != nil {
		return nil, err
	}
	if p.main, err = ask(c, rule); err != nil {
		return nil, err
	}
	sibling := append(rule[:len(rule)-1:len(rule)-1], ast.StringTerm(engine.OnResponse))
	if len(c.GetRulesExact(sibling)) > 0 {
		q, err := ask(c, sibling)
		if err != nil {
			return nil, err
		}
		p.onResponse = &q
	}
	return p, nil
}

// compile compiles the modules.
func (s sources) compile(v0 bool) (*ast.Compiler, *script.Error) {
	version := ast.RegoV1
	if v0 {
		version = ast.RegoV0
	}
	c := newCompiler().WithCapabilities(capabilitiesOf(v0)).WithDefaultRegoVersion(version).WithEnablePrintStatements(true)
	c.SetErrorLimit(maxErrors)
	if c.Compile(s.modules); c.Failed() {
		return nil, compileError(c.Errors)
	}
	return c, nil
}

// entrypointPath returns the parts of an entrypoint, such as acme/route/decision or data.acme.route.decision. None is for
// the default.
func entrypointPath(entrypoint string) ([]string, *script.Error) {
	if entrypoint == "" || entrypoint == handle {
		return nil, nil
	}
	if len(entrypoint) > script.MaxEntrypointBytes {
		return nil, script.Errorf(script.Invalid, "entrypoint", "the path of the rule has more than %d bytes", script.MaxEntrypointBytes)
	}
	parts := strings.FieldsFunc(strings.TrimPrefix(strings.ReplaceAll(entrypoint, ".", "/"), "data/"), func(r rune) bool { return r == '/' })
	for _, part := range parts {
		if !isName(part) {
			return nil, script.Errorf(script.Invalid, "entrypoint", "%q is not the path of a rule: want one such as acme/route/decision", clip(entrypoint))
		}
	}
	if len(parts) == 0 {
		return nil, script.Errorf(script.Invalid, "entrypoint", "%q is not the path of a rule: want one such as acme/route/decision", clip(entrypoint))
	}
	return parts, nil
}

// isName reports whether a part of a path is a name, as packages and rules have.
func isName(part string) bool {
	for i, r := range part {
		letter := r == '_' || r == '-' && i > 0 || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return part != ""
}

// entrypoint returns the reference of the rule that calls ask for.
func (s sources) entrypoint(c *ast.Compiler, path []string) (ast.Ref, *script.Error) {
	var candidates []ast.Ref
	switch {
	case len(path) > 1 || len(path) == 1 && s.main == nil:
		candidates = append(candidates, dataRef(path))
	case s.main == nil:
		return nil, script.Errorf(script.Script, "entrypoint", "a bundle has no default rule: name the path of one, such as acme/route/decision")
	case len(path) == 1:
		candidates = append(candidates, s.main.Package.Path.Append(ast.StringTerm(path[0])))
	default:
		for _, name := range defaultRules {
			candidates = append(candidates, s.main.Package.Path.Append(ast.StringTerm(name)))
		}
	}
	for _, ref := range candidates {
		rules := c.GetRulesExact(ref)
		if len(rules) == 0 {
			continue
		}
		if len(rules[0].Head.Args) > 0 {
			return nil, script.Errorf(script.Script, "entrypoint", "%s is a function: an entrypoint is a rule without arguments", ref)
		}
		return ref, nil
	}
	if len(candidates) > 1 {
		return nil, script.Errorf(script.Script, "entrypoint", "the policy has no rule %s and no rule %s: define one, or name the entrypoint", candidates[0], candidates[1])
	}
	return nil, script.Errorf(script.Script, "entrypoint", "the policy has no rule %s", clip(candidates[0].String()))
}

func dataRef(path []string) ast.Ref {
	ref := ast.Ref{ast.DefaultRootDocument}
	for _, part := range path {
		ref = append(ref, ast.StringTerm(part))
	}
	return ref
}

// ask prepares the query for a rule.
func ask(c *ast.Compiler, rule ast.Ref) (query, *script.Error) {
	qc := c.QueryCompiler()
	source := ast.NewBody(ast.Equality.Expr(ast.NewTerm(rule), ast.NewTerm(resultVar)))
	body, err := qc.Compile(source.Copy())
	if err != nil {
		return query{}, compileError(err)
	}
	parts := make([]string, 0, len(rule)-1)
	for _, t := range rule[1:] {
		parts = append(parts, string(t.Value.(ast.String)))
	}
	return query{path: strings.Join(parts, "/"), source: source, body: body, compiler: qc}, nil
}
