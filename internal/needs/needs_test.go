package needs_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// asChild has TestMain run as a package that cannot run; see TestSkipAll.
const asChild = "NEEDS_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) != "" {
		os.Exit(needs.SkipAll(m, "needs a miracle"))
	}
	os.Exit(m.Run())
}

// TestMissing needs a command that no machine has. The other tests run it in a child process.
func TestMissing(t *testing.T) {
	if os.Getenv(asChild+"_NO_RACE") != "" {
		needs.NoRace(t)
		return
	}
	if os.Getenv(asChild+"_COMMAND") == "" {
		t.Skipf("needs %s_COMMAND, which TestCommand sets", asChild)
	}
	needs.Command(t, "no-such-command", "some-package")
	t.Error("the test runs without the command")
}

// child runs TestMissing with the variables, and returns its output and whether it passed.
func child(t *testing.T, env ...string) (string, bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=TestMissing", "-test.v")
	cmd.Env = append(os.Environ(), append([]string{needs.RequireAll + "="}, env...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// TestCommand: a test skips with a reason, and fails where everything is required.
func TestCommand(t *testing.T) {
	const reason = "needs the command no-such-command: install it (Debian: some-package)"
	out, passed := child(t, asChild+"_COMMAND=yes")
	if !passed || !strings.Contains(out, "--- SKIP: TestMissing") || !strings.Contains(out, reason) {
		t.Errorf("passed: %v\n%s", passed, out)
	}
	out, passed = child(t, asChild+"_COMMAND=yes", needs.RequireAll+"=1")
	if passed || !strings.Contains(out, "--- FAIL: TestMissing") || !strings.Contains(out, reason) {
		t.Errorf("passed: %v\n%s", passed, out)
	}
}

// TestNoRace: a test that `make test` would run nowhere fails under the race detector.
func TestNoRace(t *testing.T) {
	out, passed := child(t, asChild+"_NO_RACE=yes")
	if passed == needs.Race || needs.Race && !strings.Contains(out, "HEAVY_TESTS of the Makefile does not match TestMissing") {
		t.Errorf("passed: %v\n%s", passed, out)
	}
}

// TestSkipAll: a package runs no test and says why, and fails where everything is required.
func TestSkipAll(t *testing.T) {
	out, passed := child(t, asChild+"=yes")
	if !passed || strings.Contains(out, "TestMissing") || !strings.Contains(out, "needs a miracle") || !strings.Contains(out, "no tests to run") {
		t.Errorf("passed: %v\n%s", passed, out)
	}
	out, passed = child(t, asChild+"=yes", needs.RequireAll+"=1")
	if passed || !strings.Contains(out, "needs a miracle") {
		t.Errorf("passed: %v\n%s", passed, out)
	}
}
