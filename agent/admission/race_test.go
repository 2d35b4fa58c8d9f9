//go:build race

package admission_test

// rounds of TestSimulation. Go's race detector has crashed, once in thousands of
// bubbles of synctest; what it is to find, TestStampede looks for.
const rounds = 2
