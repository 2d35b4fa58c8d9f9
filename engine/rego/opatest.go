package rego

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The prefixes of the rules that are tests, as for opa test.
const (
	testPrefix = "test_"
	skipPrefix = "todo_test_" // OPA reserves it for tests that it skips
)

// testSuffix ends the name of a file with tests.
const testSuffix = "_test.rego"

// TestResult is engine.TestResult.
type TestResult = engine.TestResult

// TestFile is engine.Tester's. A bundle has none.
func (*Engine) TestFile(source string) string {
	name, ok := strings.CutSuffix(source, ".rego")
	if !ok {
		return ""
	}
	return name + testSuffix
}

// RunTests is engine.Tester's.
func (*Engine) RunTests(ctx context.Context, src engine.Source, files map[string][]byte, limits script.Limits) ([]engine.TestResult, error) {
	return RunTests(ctx, src, files, limits)
}

// RunTests runs the tests of files, which opa test runs, too, against a source: all rules whose names begin with test_, in the
// order of files and lines. It interprets them, each within the limits. An error is one of the source or of a file.
func RunTests(ctx context.Context, src engine.Source, files map[string][]byte, limits script.Limits) ([]TestResult, error) {
	s, err := read(src)
	if err != nil {
		return nil, err
	}
	for name, code := range files {
		m, err := parse(name, code, src.Runtime.Rego.V0)
		if err != nil {
			return nil, err
		}
		if s.modules[name] != nil {
			return nil, script.Errorf(script.Invalid, "", "there are two files %s", clip(name))
		}
		s.modules[name] = m
	}
	if err := s.bounded(); err != nil {
		return nil, err
	}
	c, err := s.compile(src.Runtime.Rego.V0)
	if err != nil {
		return nil, err
	}
	guardCalls(c.Modules)
	p := &program{policy: &policy{compiler: c}, store: &store{base: s.data}, guards: guarded()}
	var results []TestResult
	for _, file := range slices.Sorted(maps.Keys(files)) {
		for _, r := range testsOf(c.Modules[file]) {
			result := TestResult{
				Package: strings.TrimPrefix(r.Module.Package.Path.String(), "data."), Name: string(r.Head.Name), File: file,
				Line: r.Location.Row, Column: r.Location.Col,
			}
			if len(r.Head.Reference) > 0 && result.Name == "" {
				result.Name = r.Head.Reference[0].Value.String()
			}
			if strings.HasPrefix(result.Name, skipPrefix) {
				result.Skipped = true
			} else {
				p.test(ctx, r, limits, &result)
			}
			results = append(results, result)
		}
	}
	return results, nil
}

// testsOf returns a rule of each test.
func testsOf(m *ast.Module) []*ast.Rule {
	var tests []*ast.Rule
	known := map[string]bool{}
	for _, r := range m.Rules {
		name := r.Head.Reference[0].Value.String()
		if len(r.Head.Args) == 0 && !known[name] && (strings.HasPrefix(name, testPrefix) || strings.HasPrefix(name, skipPrefix)) {
			known[name] = true
			tests = append(tests, r)
		}
	}
	return tests
}

// test runs one test.
func (p *program) test(ctx context.Context, r *ast.Rule, limits script.Limits, result *TestResult) {
	begin := time.Now()
	defer func() {
		if f := recover(); f != nil {
			result.Passed, result.Err = false, &script.Error{Kind: script.Internal, Message: "the test met a fault of the engine", Err: fmt.Errorf("panic: %v", f)}
		}
		result.Took = time.Since(begin)
	}()
	q, err := ask(p.policy.compiler, r.Module.Package.Path.Append(ast.StringTerm(r.Head.Reference[0].Value.String())))
	if err != nil {
		result.Err = err
		return
	}
	c := call{inv: &engine.Invocation{Host: output{result}}}
	c.meter.begin(ctx, c.inv, limits.OrDefaults())
	v, evalErr := p.eval(&c, &q, nil)
	result.Err = evalErr
	switch v := v.(type) {
	case ast.Boolean:
		result.Passed = bool(v)
	case ast.Object: // a test with cases
		v.Foreach(func(name, passed *ast.Term) {
			if !ast.Boolean(true).Equal(passed.Value) {
				result.Cases = append(result.Cases, clip(name.String()))
			}
		})
		slices.Sort(result.Cases)
		result.Passed = len(result.Cases) == 0
	}
}

// output is the host of a test: it keeps what the test prints, and has no values.
type output struct{ result *TestResult }

const maxOutput = 1000

// Log is engine.Host's.
func (o output) Log(_ *engine.Invocation, _ engine.Level, message string) {
	if len(o.result.Output) < maxOutput {
		o.result.Output = append(o.result.Output, message)
	}
}

// Value is engine.Host's.
func (output) Value(string, string) ([]byte, bool, error) { return nil, false, nil }

// Keys is engine.Host's.
func (output) Keys(string, string, string, int) []string { return nil }

// Count is engine.Host's.
func (output) Count(string, string, float64) (float64, error) { return 0, nil }

// Take is engine.Host's.
func (output) Take(string, string, float64, float64, float64) (bool, time.Duration) { return true, 0 }
