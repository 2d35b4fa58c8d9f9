package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/scriptorium-dev/scriptorium/script"
)

// bounded refuses policies that would cost the compiler more than a small multiple of their size.
func (s sources) bounded() *script.Error {
	for _, m := range s.modules {
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
