// Package needs skips tests that need something the machine does not have, and says how
// to get it. Where RequireAll is set, such tests fail: .ci/run sets it, so that no test
// is skipped there.
package needs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/toolcache"
)

// RequireAll is the environment variable that turns skips into failures, unless it is
// empty.
const RequireAll = "SCRIPTORIUM_REQUIRE_ALL"

// Command skips the test unless the command is in the PATH. Debian's package with that
// name has it.
func Command(tb testing.TB, name, debianPackage string) {
	tb.Helper()
	if _, err := exec.LookPath(name); err != nil {
		Skip(tb, fmt.Sprintf("needs the command %s: install it (Debian: %s)", name, debianPackage))
	}
}

// File skips the test unless the file is there, which Debian's package has.
func File(tb testing.TB, path, debianPackage string) {
	tb.Helper()
	if _, err := os.Stat(path); err != nil {
		Skip(tb, fmt.Sprintf("needs %s: install it (Debian: %s)", path, debianPackage))
	}
}

// Time skips the test in a short run, and says why it takes long.
func Time(tb testing.TB, why string) {
	tb.Helper()
	if testing.Short() {
		Skip(tb, why+": run without -short, as CI does")
	}
}

// Root skips the test unless root runs it, also where everything is required: .ci/run
// runs such tests by themselves, as root.
func Root(tb testing.TB, why string) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root, because it " + why)
	}
}

// Program is Path for a test, which it skips if the program is not built.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	path, err := Path(tb.Context(), name)
	if errors.Is(err, toolcache.ErrNotBuilt) {
		Skip(tb, "needs a program: "+err.Error())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Path returns the path of a program of package toolcache, and toolcache.ErrNotBuilt if
// it is not built. Where everything is required, it builds the program.
func Path(ctx context.Context, name string) (string, error) {
	if required() {
		return toolcache.Get(ctx, os.Stderr, name)
	}
	return toolcache.Find(ctx, name)
}

// SkipAll is for a TestMain whose package cannot run: it runs no test and returns what
// os.Exit wants. The package's result then says that no tests were run.
func SkipAll(m *testing.M, reason string) int {
	if required() {
		fmt.Fprintf(os.Stderr, "%s; %s is set, so this is a failure\n", reason, RequireAll)
		return 1
	}
	fmt.Println("skipped: the package", reason)
	flag.Parse()
	for _, which := range []string{"test.run", "test.bench", "test.fuzz"} {
		if flag.Lookup(which).Value.String() != "" || which == "test.run" {
			if err := flag.Set(which, "^$"); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
	return m.Run()
}

func required() bool { return os.Getenv(RequireAll) != "" }

// Skip skips the test, or fails it where everything is required.
func Skip(tb testing.TB, reason string) {
	tb.Helper()
	if required() {
		tb.Fatalf("%s; %s is set, so this is a failure", reason, RequireAll)
	}
	tb.Skip(reason)
}
