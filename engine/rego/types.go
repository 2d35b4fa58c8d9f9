package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// The compiler's type of a value has the types of all its parts. A rule whose value has another rule's value twice has a
// type twice as large, and a chain of such rules one that grows exponentially. OPA does not bound that: boundTypes
// estimates the sizes before they are made.
func boundTypes(c *ast.Compiler) *ast.Error {
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
		s.worst = 0
		if s.rules[rule] = s.rule(rule); max(s.rules[rule], s.worst) > maxTypeSize {
			return ast.NewError(ast.CompileErr, rule.Location, "%s", errTypes)
		}
	}
	return nil
}

// sizes estimates how large types are.
type sizes struct {
	compiler *ast.Compiler
	rules    map[*ast.Rule]int
	locals   map[ast.Var]int
	worst    int // of all that the bodies of a rule work on
}

func (s *sizes) rule(r *ast.Rule) int {
	n := 1
	for ; r != nil; r = r.Else {
		s.locals = map[ast.Var]int{}
		s.body(r.Body)
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

// body notes the sizes of what a body gives names to, and the largest.
func (s *sizes) body(b ast.Body) {
	for _, e := range b {
		switch terms := e.Terms.(type) {
		case *ast.Term:
			s.worst = max(s.worst, s.term(terms))
		case []*ast.Term:
			s.call(terms)
		case *ast.Every:
			n := s.term(terms.Domain)
			s.name(terms.Value, n)
			if terms.Key != nil {
				s.name(terms.Key, n)
			}
			s.body(terms.Body)
		case *ast.SomeDecl:
		}
		for _, w := range e.With {
			s.worst = max(s.worst, s.term(w.Value))
		}
	}
}

// call returns the size of what a call works on. What a function of OPA returns has a type of its own, and what a function of
// the policy returns has the type of the function. With = a variable may get the value of the other side.
func (s *sizes) call(terms []*ast.Term) int {
	n := 1
	for _, t := range terms[1:] {
		n = add(n, s.term(t))
	}
	operator, ok := terms[0].Value.(ast.Ref)
	if !ok {
		return n
	}
	result := 1
	switch {
	case operator.Equal(ast.Equality.Ref()):
		result = n
	case operator[0].Equal(ast.DefaultRootDocument):
		result = s.ref(operator)
	}
	for _, t := range terms[1:] {
		s.name(t, result)
	}
	s.worst = max(s.worst, n)
	return result
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
		n = s.call(v)
	case *ast.ArrayComprehension:
		s.body(v.Body)
		each(v.Term)
	case *ast.SetComprehension:
		s.body(v.Body)
		each(v.Term)
	case *ast.ObjectComprehension:
		s.body(v.Body)
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
