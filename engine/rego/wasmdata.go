package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/scriptorium-dev/scriptorium/engine"
)

// dataNeeds are the parts of data that a policy reads, as far as its source says. A module gets a copy of them.
type dataNeeds struct {
	base      ast.Object // nil if the policy does not read it
	config    bool
	keys      []string // of values
	allValues bool     // the policy computes a key, or reads all
}

// needs returns what the policy reads of data.
func (p *policy) needs() (n dataNeeds) {
	for _, m := range p.compiler.Modules {
		ast.WalkRefs(m, func(r ast.Ref) bool {
			if r[0].Equal(ast.DefaultRootDocument) {
				n.add(r, p.data)
			}
			return false
		})
	}
	slices.Sort(n.keys)
	n.keys = slices.Compact(n.keys)
	return n
}

func (n *dataNeeds) add(r ast.Ref, base ast.Object) {
	var root ast.String
	if len(r) > 1 {
		root, _ = r[1].Value.(ast.String)
	}
	switch root {
	case "":
		n.base, n.config, n.allValues = base, true, true
	case configDocument:
		n.config = true
	case valuesDocument:
		if len(r) > 2 {
			if key, ok := r[2].Value.(ast.String); ok {
				n.keys = append(n.keys, string(key))
				return
			}
		}
		n.allValues = true
	default:
		if base.Get(r[1]) != nil {
			n.base = base
		}
	}
}

// document returns data for a call, as JSON; nil if the policy reads none.
func (n *dataNeeds) document(inv *engine.Invocation) ([]byte, error) {
	if n.base == nil && !n.config && !n.allValues && n.keys == nil {
		return nil, nil
	}
	t := transaction{meter: &meter{limit: maxValuesBytes, look: maxValuesBytes}, inv: inv}
	all := ast.NewObject()
	if n.base != nil {
		n.base.Foreach(all.Insert)
	}
	if n.config {
		config, err := t.configValue()
		if err != nil {
			return nil, err
		}
		all.Insert(ast.InternedTerm(configDocument), ast.NewTerm(config))
	}
	if n.allValues || n.keys != nil {
		values, err := n.values(&t)
		if err != nil {
			return nil, err
		}
		all.Insert(ast.InternedTerm(valuesDocument), ast.NewTerm(values))
	}
	e := encoder{nodes: maxValuesBytes, limit: 4 * maxValuesBytes}
	return e.value(nil, all, maxDepth+2)
}

// values returns the values that the policy reads.
func (n *dataNeeds) values(t *transaction) (ast.Value, error) {
	if n.allValues {
		return t.allValues()
	}
	values := ast.NewObject()
	for _, key := range n.keys {
		v, err := t.value(key)
		if err != nil {
			return nil, err
		}
		if v != nil {
			values.Insert(ast.StringTerm(key), ast.NewTerm(v))
		}
	}
	return values, nil
}
