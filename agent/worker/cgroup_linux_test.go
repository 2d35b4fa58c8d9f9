package worker_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/worker/confine"
)

// delegated reports whether a control group is delegated to this process: `make
// test-kernel` runs these tests with one.
func delegated() bool {
	_, err := confine.Delegated()
	return err == nil
}

// ownCgroup returns a folder for the control groups of one pool, or "" if none is
// delegated to this process. Its groups have to be gone once it is shut down.
func ownCgroup(tb testing.TB, name string) string {
	tb.Helper()
	parent, err := confine.Delegated()
	if err != nil {
		return ""
	}
	if _, err := confine.OpenCgroups(parent); err != nil { // it can be divided further
		tb.Fatal(err)
	}
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			tb.Errorf("control groups are left: %v", err)
		}
	})
	return dir
}
