package rego_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine/rego"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestExamples: all examples run as WebAssembly, and their tests pass.
func TestExamples(t *testing.T) {
	const folder = "../../examples/rego"
	tests, err := filepath.Glob(folder + "/*_test.rego")
	if err != nil || len(tests) < 4 {
		t.Fatal(tests, err)
	}
	for _, file := range tests {
		t.Run(filepath.Base(file), func(t *testing.T) {
			code, err := os.ReadFile(strings.TrimSuffix(file, "_test.rego") + ".rego")
			if err != nil {
				t.Fatal(err)
			}
			test, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if target, reason, err := rego.Target(source(string(code), "")); target != script.RegoTargetWasm {
				t.Errorf("it is %s, because %s: %v", target, reason, err)
			}
			results, err := rego.RunTests(t.Context(), source(string(code), ""), map[string][]byte{filepath.Base(file): test}, script.Limits{Timeout: script.MaxLimits().Timeout})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if !r.Passed {
					t.Errorf("%s: %v %q", r.Name, r.Err, r.Output)
				}
			}
			if len(results) < 4 {
				t.Errorf("%d tests", len(results))
			}
		})
	}
}
