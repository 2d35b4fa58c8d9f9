package rego

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The bounds of a partial evaluation. A policy that meets one runs as it was written. None is a time: all agents count the
// same instructions for a call.
const (
	maxPartialInstructions = 500_000
	maxPartialRules        = 5_000
	maxPartialBytes        = 1 << 20 // of the rules that it makes, about as text
)

// partialPackage is where the rules are that a partial evaluation makes, in packages for each query that it evaluates.
const partialPackage = "scriptorium_partial"

const (
	mainQuery       = "decision"
	onResponseQuery = "on_response"
)

// writtenNames replaces the names of rules by those in the source.
var writtenNames = strings.NewReplacer("data."+partialPackage+"_"+mainQuery+".", "data.", "data."+partialPackage+"_"+onResponseQuery+".", "data.")

// unknown is what differs between calls.
var unknown = []*ast.Term{
	ast.NewTerm(ast.InputRootRef),
	ast.NewTerm(ast.DefaultRootRef.Append(ast.StringTerm(valuesDocument))),
	ast.NewTerm(ast.DefaultRootRef.Append(ast.StringTerm(configDocument))),
}

var errUnknown = errors.New("this document differs between calls")

// specialize evaluates the parts of a policy that are the same in each call, which leaves rules about input alone. The
// evaluator finds those that matter by an index: a search in the documents of a bundle becomes a lookup. It returns p
// if the policy has no documents, or if that does not pay, and how many bytes of text the new rules have.
func (p *policy) specialize() (made *policy, bytes int) {
	if p.data.Len() == 0 || p.prints() {
		return p, 0
	}
	defer func() {
		if recover() != nil { // what was written runs
			made, bytes = p, 0
		}
	}()
	modules := map[string]*ast.Module{}
	for name, q := range p.queries() {
		n, ok := p.partial(q, name, modules)
		if !ok {
			return p, 0
		}
		bytes += n
	}
	maps.Copy(modules, p.compiler.Modules)
	c := newCompiler()
	if c.Compile(modules); c.Failed() {
		return p, 0
	}
	s := &policy{compiler: c, data: p.data, main: p.main}
	if p.onResponse != nil {
		s.onResponse = new(*p.onResponse)
	}
	for name, q := range s.queries() {
		asked, err := ask(c, dataRef([]string{partialPackage, name}))
		if err != nil {
			return p, 0
		}
		asked.path = q.path // as errors name it
		*q = asked
	}
	return s, bytes
}

// queries returns the queries of a policy by the names that their rules have in partialPackage.
func (p *policy) queries() map[string]*query {
	all := map[string]*query{mainQuery: &p.main}
	if p.onResponse != nil {
		all[onResponseQuery] = p.onResponse
	}
	return all
}

// prints reports whether the policy prints. What it prints while it is evaluated in part would be in no call's log.
func (p *policy) prints() bool {
	found := false
	for _, m := range p.compiler.Modules {
		ast.WalkExprs(m, func(e *ast.Expr) bool {
			found = found || e.IsCall() && e.Operator().Equal(ast.InternalPrint.Ref())
			return found
		})
	}
	return found
}

// partial evaluates the query and adds the modules that ask for the same: the rule with the name is its result. It returns
// about how many bytes of text they have; ok is false if it met a bound. Rules that depend on input stay rules of their own:
// in the place of a reference, the bodies of a rule would not conflict.
func (p *policy) partial(q *query, name string, modules map[string]*ast.Module) (bytes int, ok bool) {
	var m meter
	inv := engine.Invocation{}
	m.begin(context.Background(), &inv, script.Limits{Instructions: maxPartialInstructions, Timeout: math.MaxInt64})
	bodies, made, err := topdown.NewQuery(q.body.Copy()).WithQueryCompiler(q.compiler).WithCompiler(p.compiler).
		WithStore(&store{base: p.data}).WithTransaction(&transaction{meter: &m, inv: &inv, partial: true}).WithCancel(&m).
		WithBuiltins(guarded()).WithUnknowns(unknown).WithShallowInlining(true).WithPartialNamespace(partialPackage + "_" + name).PartialRun(m.ctx)
	if err != nil || m.stopped != nil || len(bodies) == 0 {
		return 0, false
	}
	main, err := ast.ParseModule(name, "package "+partialPackage)
	if err != nil {
		return 0, false
	}
	for _, body := range bodies {
		head := ast.RefHead(ast.Ref{ast.VarTerm(name)}, ast.NewTerm(resultVar))
		main.Rules = append(main.Rules, &ast.Rule{Head: head, Body: body, Module: main})
	}
	rules := 0
	for i, m := range append(made, main) {
		rules += len(m.Rules)
		if bytes += textBytes(m, maxPartialBytes-bytes); rules > maxPartialRules || bytes > maxPartialBytes {
			return 0, false
		}
		modules[fmt.Sprintf("%s %d", name, i)] = m
	}
	return bytes, true
}

// textBytes estimates how much text a module is. It stops at more than most: rules may have the same large value a thousand
// times, which as text is a thousand values.
func textBytes(m *ast.Module, most int) (bytes int) {
	const punctuation = 4 // spaces, brackets, operators
	ast.WalkTerms(m, func(t *ast.Term) bool {
		bytes += punctuation
		switch v := t.Value.(type) {
		case ast.String:
			bytes += len(v)
		case ast.Var:
			bytes += len(v)
		case ast.Number:
			bytes += len(v)
		}
		return bytes > most
	})
	return bytes
}
