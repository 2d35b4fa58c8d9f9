// Package editions tests that programs of this edition and of the one before work together during an
// upgrade, in each order. `make soak-editions` builds both and runs the tests: the programs of the
// edition before need its commit, which a shallow clone does not have. A test of a feature needs an edition before that
// has it: for TestEngines, one without WebAssembly and Rego.
package editions
