package needs_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// short has the child run as in a short run.
const short = "NEEDS_TEST_SHORT=yes"

// asChild has TestMain run as a package that cannot run; see TestSkipAll.
const asChild = "NEEDS_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) != "" {
		os.Exit(needs.SkipAll(m, "needs a miracle"))
	}
	os.Exit(m.Run())
}

// TestMissing needs a command that a machine with Go has. Other tests run it in a child process, where it
// needs one that no machine has.
func TestMissing(t *testing.T) {
	if os.Getenv(asChild+"_NO_RACE") != "" {
		needs.NoRace(t)
		return
	}
	if os.Getenv(asChild+"_TIME") != "" {
		needs.Time(t, "takes long")
		return
	}
	if os.Getenv(asChild+"_COMMAND") == "" {
		needs.Command(t, "go", "golang-go")
		return
	}
	needs.Command(t, "no-such-command", "some-package")
	t.Error("the test runs without the command")
}

// child runs TestMissing with the variables, and returns its output and whether it passed.
func child(t *testing.T, env ...string) (string, bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=TestMissing", "-test.v", fmt.Sprintf("-test.short=%v", slices.Contains(env, short)))
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

// TestTime: a test that takes long skips in a short run, and fails there where everything is required.
func TestTime(t *testing.T) {
	const reason = "takes long: run without -short, as CI does"
	if out, passed := child(t, asChild+"_TIME=yes"); !passed || strings.Contains(out, reason) {
		t.Errorf("a long run: %v\n%s", passed, out)
	}
	if out, passed := child(t, asChild+"_TIME=yes", short); !passed || !strings.Contains(out, "--- SKIP: TestMissing") || !strings.Contains(out, reason) {
		t.Errorf("a short run: %v\n%s", passed, out)
	}
	if out, passed := child(t, asChild+"_TIME=yes", short, needs.RequireAll+"=1"); passed || !strings.Contains(out, reason) {
		t.Errorf("a short run where everything is required: %v\n%s", passed, out)
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
