package lua

import (
	"os"
	"regexp"
	"testing"
)

// SingleGoroutine skips a test under the race detector, which finds nothing in a single
// goroutine and adds its own work to what the test measures. It fails if `make test` does not
// run the test without the race detector.
func SingleGoroutine(tb testing.TB) {
	tb.Helper()
	if !raceEnabled {
		return
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		tb.Fatal(err)
	}
	heavy := regexp.MustCompile(`(?m)^HEAVY_TESTS := (.+)$`).FindSubmatch(makefile)
	if heavy == nil || !regexp.MustCompile(string(heavy[1])).MatchString(tb.Name()) {
		tb.Fatalf("HEAVY_TESTS of the Makefile does not match %s", tb.Name())
	}
	tb.Skip("has a single goroutine: `make test` runs it without the race detector")
}
