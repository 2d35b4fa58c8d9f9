package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/scriptorium-dev/scriptorium/script"
)

// bounded refuses policies that would cost the compiler more than a small multiple of their size.
func (s sources) bounded() *script.Error {
	rules := 0
	for _, m := range s.modules {
		for _, r := range m.Rules {
			elses := 0
			for e := r; e != nil; e = e.Else {
				elses++
			}
			if rules += elses; elses > maxElses {
				return at(script.Errorf(script.Limit, "", "the rule has more than %d branches of else: split it", maxElses), r.Location)
			}
		}
		if rules > maxRules {
			return script.Errorf(script.Limit, "source", "the policy has more than %d rules", maxRules)
		}
		path := m.Package.Path
		if len(path) < 2 {
			continue
		}
		if name, _ := path[1].Value.(ast.String); name == valuesDocument || name == configDocument {
			return at(script.Errorf(script.Script, "", "the name of a package cannot begin with %s: data.%[1]s is a document of the engine", string(name)), m.Package.Location)
		}
	}
	return nil
}
