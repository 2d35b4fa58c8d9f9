//go:build !race

package admission_test

// rounds of TestSimulation.
const rounds = 20
