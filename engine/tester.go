package engine

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Tester is an Engine of a language in which people write tests, beside the calls that manifests and test files have.
type Tester interface {
	// TestFile returns the name of the file with tests of a source, by the name of the source's file; "" if it has none.
	TestFile(source string) string
	// RunTests runs the tests in files, by name, against a source, in the order of names and lines, each within the limits. An
	// error is one of the source or of a file: then its message begins with the file's name.
	RunTests(ctx context.Context, src Source, files map[string][]byte, limits script.Limits) ([]TestResult, error)
}

// TestResult says how a test ended.
type TestResult struct {
	Package string // such as acme.route_test
	Name    string // such as test_guests_are_denied
	File    string
	Line    int
	Column  int
	Passed  bool
	Skipped bool     // OPA skips tests of such a name
	Err     error    // why the test could not end; nil for one that is false or undefined
	Cases   []string // those that failed, of a test with cases
	Output  []string // what it printed
	Took    time.Duration
}
