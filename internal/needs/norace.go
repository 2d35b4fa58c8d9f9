package needs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// NoRace skips a test that is of no use under the race detector: it has a single goroutine, or
// measures what the detector would add to. The test fails if `make test` does not run it without
// the detector either.
func NoRace(tb testing.TB) {
	tb.Helper()
	if !Race {
		return
	}
	heavy, err := heavyTests()
	if err != nil {
		tb.Fatal(err)
	}
	if !heavy.MatchString(tb.Name()) {
		tb.Fatalf("HEAVY_TESTS of the Makefile does not match %s", tb.Name())
	}
	tb.Skip("is of no use under the race detector: `make test` runs it without that")
}

// heavyTests returns which tests `make test` runs without the race detector, too.
func heavyTests() (*regexp.Regexp, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("there is no go.mod above %s", dir)
		}
		dir = filepath.Dir(dir)
	}
	makefile, err := os.ReadFile(filepath.Join(dir, "Makefile"))
	if err != nil {
		return nil, err
	}
	found := regexp.MustCompile(`(?m)^HEAVY_TESTS := (.+)$`).FindSubmatch(makefile)
	if found == nil {
		return nil, fmt.Errorf("%s has no HEAVY_TESTS", filepath.Join(dir, "Makefile"))
	}
	return regexp.Compile(string(found[1]))
}
