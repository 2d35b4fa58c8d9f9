//go:build cgroupv2

// These need a kernel whose control groups are theirs: `make test-kernel` gives them one.

package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/agent/worker/confine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// cgroupOf returns the folder of a process's control group.
func cgroupOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join("/sys/fs/cgroup", path)
		}
	}
	t.Fatalf("process %d is in no control group: %q", pid, text)
	return ""
}

// TestTheDelegatedGroup: an agent without a configured control group uses the one that is
// delegated to it. Each process has its tenant's settings as limits, also those that change,
// and its group goes with it.
func TestTheDelegatedGroup(t *testing.T) {
	parent, err := confine.Delegated()
	if err != nil {
		t.Fatalf("%v: run it by `make test-kernel`", err)
	}
	acme := walled("acme")
	acme.Settings.MemoryBytes, acme.Settings.CPU = 128<<20, 500
	w := newWorld(t, func(c *worker.Config) { c.Cgroup = "" }, acme)
	w.publish("lua", "acme/route", `function handle(a) return a end`)
	if got := w.answer("acme/route", `1`); got != "1" {
		t.Fatalf("got %s", got)
	}
	limits := func() string {
		dir, all := cgroupOf(t, w.pid("acme")), []string(nil)
		if filepath.Dir(dir) != parent {
			t.Errorf("its group is %s, and %s is delegated", dir, parent)
		}
		for _, name := range []string{"memory.max", "cpu.max", "cpu.weight", "pids.max"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, strings.TrimSpace(string(text)))
		}
		return strings.Join(all, ", ")
	}
	if got, want := limits(), fmt.Sprintf("%d, 50000 100000, 50, 512", 128<<20); got != want {
		t.Errorf("its limits are %s, want %s", got, want)
	}
	first := cgroupOf(t, w.pid("acme"))
	acme.Settings.MemoryBytes, acme.Settings.CPU = 64<<20, 0
	acme.Revision++
	w.commit([]script.Object{{Tenant: &acme}})
	want := fmt.Sprintf("%d, max 100000, 50, 512", 64<<20)
	if !w.until(func() bool { return w.pid("acme") != 0 && limits() == want }) {
		t.Errorf("after a change its limits are %s, want %s", limits(), want)
	}
	if !w.until(func() bool { _, err := os.Stat(first); return os.IsNotExist(err) }) && cgroupOf(t, w.pid("acme")) != first {
		t.Errorf("%s is left", first)
	}
	if !strings.Contains(w.log.String(), "bounded by control groups") {
		t.Error("the log does not say how processes are bounded")
	}
}
