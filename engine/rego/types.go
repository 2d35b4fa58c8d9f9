package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// The compiler's type of a value has the types of all its parts. A rule whose value has another rule's value twice has a
// type twice as large, and a chain of such rules one that grows exponentially. OPA does not bound that: checkTypeSizes
// estimates the sizes before they are made.

// boundTypes is the stage of the compiler that comes before types.
var boundTypes = ast.CompilerStageDefinition{Name: "BoundTypes", MetricName: "bound_types", Stage: checkTypeSizes}

func checkTypeSizes(c *ast.Compiler) *ast.Error {
	sorted, ok := c.Graph.Sort()
	if !ok {
		return nil // the compiler refuses recursion
	}
	s := sizes{compiler: c, rules: map[*ast.Rule]int{}}
	for _, node := range sorted {
		rule, ok := node.(*ast.Rule)
		if !ok {
			continue
		}
		if s.rules[rule] = s.rule(rule); s.rules[rule] > maxTypeSize {
			return ast.NewError(ast.CompileErr, rule.Location, "%s", errTypeSize)
		}
	}
	return nil
}

const errTypeSize = "the rule's value has too many parts, counting those of the rules that it refers to: split it"

// sizes estimates how large types are.
type sizes struct {
	compiler *ast.Compiler
	rules    map[*ast.Rule]int
	locals   map[ast.Var]int
}

func (s *sizes) rule(r *ast.Rule) int {
	n := 1
	for ; r != nil; r = r.Else {
		s.locals = map[ast.Var]int{}
		n = add(n, s.body(r.Body))
		for _, t := range []*ast.Term{r.Head.Value, r.Head.Key} {
			if t != nil {
				n = add(n, s.term(t))
			}
		}
		n = add(n, len(r.Head.Reference))
	}
	return n
}

// add returns the sum, as far as it matters.
func add(a, b int) int { return min(a+b, maxTypeSize+1) }

// body notes the sizes of what a body gives names to, and returns the largest.
func (s *sizes) body(b ast.Body) (largest int) {
	for _, e := range b {
		switch terms := e.Terms.(type) {
		case *ast.Term:
			largest = max(largest, s.term(terms))
		case []*ast.Term:
			n := 1
			for _, t := range terms[1:] {
				n = add(n, s.term(t))
			}
			if ref, ok := terms[0].Value.(ast.Ref); ok {
				n = add(n, s.ref(ref))
			}
			for _, t := range terms[1:] { // a variable may get the value of any other operand
				s.name(t, n)
			}
			largest = max(largest, n)
		case *ast.Every:
			n := s.term(terms.Domain)
			s.name(terms.Value, n)
			if terms.Key != nil {
				s.name(terms.Key, n)
			}
			largest = max(largest, n, s.body(terms.Body))
		case *ast.SomeDecl:
		}
		for _, w := range e.With {
			largest = max(largest, s.term(w.Value))
		}
	}
	return largest
}

// name notes that variables in a term may have parts of a value.
func (s *sizes) name(t *ast.Term, n int) {
	ast.WalkVars(t, func(v ast.Var) bool {
		s.locals[v] = max(s.locals[v], n)
		return false
	})
}

func (s *sizes) term(t *ast.Term) int {
	n := 1
	each := func(t *ast.Term) { n = add(n, s.term(t)) }
	switch v := t.Value.(type) {
	case ast.Var:
		return max(1, s.locals[v])
	case ast.Ref:
		return s.ref(v)
	case *ast.Array:
		v.Foreach(each)
	case ast.Set:
		v.Foreach(each)
	case ast.Object:
		v.Foreach(func(k, v *ast.Term) { each(k); each(v) })
	case ast.Call:
		for _, t := range v {
			each(t)
		}
	case *ast.ArrayComprehension:
		n = add(n, s.body(v.Body))
		each(v.Term)
	case *ast.SetComprehension:
		n = add(n, s.body(v.Body))
		each(v.Term)
	case *ast.ObjectComprehension:
		n = add(n, s.body(v.Body))
		each(v.Key)
		each(v.Value)
	}
	return n
}

// ref returns the size of what a reference stands for: a part of a variable's value, or of rules.
func (s *sizes) ref(r ast.Ref) int {
	n := 1
	if v, ok := r[0].Value.(ast.Var); ok {
		n = max(n, s.locals[v])
	}
	if r[0].Equal(ast.DefaultRootDocument) {
		for _, rule := range s.compiler.GetRules(r) {
			n = add(n, s.rules[rule])
		}
	}
	for _, t := range r[1:] {
		n = add(n, s.term(t))
	}
	return n
}
