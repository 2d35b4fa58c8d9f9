package rego

import (
	"slices"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

// TestEveryBuiltinIsReviewed: a function that a new release of OPA brings is refused until somebody has looked at it.
func TestEveryBuiltinIsReviewed(t *testing.T) {
	known := map[string]bool{}
	for _, b := range ast.CapabilitiesForThisVersion().Builtins {
		known[b.Name] = true
		allowed := slices.Contains(allowedBuiltins, b.Name)
		if refused := refusedBuiltins[b.Name] != ""; allowed == refused {
			t.Errorf("%s: allowed %t, refused %t: look whether its time and memory are bounded by its operands, and add it to one of the two lists", b.Name, allowed, refused)
		}
		if got := capabilities[1]().ContainsBuiltin(b.Name); got != allowed {
			t.Errorf("%s: policies have it: %t", b.Name, got)
		}
	}
	for _, name := range allowedBuiltins {
		if !known[name] {
			t.Errorf("%s: OPA has no such function any more", name)
		}
	}
	for name := range guards {
		if !slices.Contains(allowedBuiltins, name) {
			t.Errorf("%s has a guard, and is not allowed", name)
		}
	}
}
