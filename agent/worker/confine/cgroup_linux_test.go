package confine_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/worker/confine"
)

// kernelGroup returns a control group of the kernel's own for a test, below which others
// can be made.
func kernelGroup(t *testing.T) string {
	t.Helper()
	const root = "/sys/fs/cgroup"
	const needs = "it needs root, and cgroup v2 at " + root + " with the controllers memory, cpu and pids"
	text, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	if err != nil {
		t.Skipf("%s: %v", needs, err)
	}
	for _, controller := range []string{"memory", "cpu", "pids"} {
		if !strings.Contains(" "+strings.TrimSpace(string(text))+" ", " "+controller+" ") {
			t.Skipf("%s, which has %q", needs, strings.TrimSpace(string(text)))
		}
	}
	dir := filepath.Join(root, fmt.Sprintf("scriptorium-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("%s: %v", needs, err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestTheKernelKeepsTheCaps: a process in a control group has no more memory than the
// group, and the agent sees that this is why it ended.
func TestTheKernelKeepsTheCaps(t *testing.T) {
	dir := kernelGroup(t)
	groups, err := confine.OpenCgroups(dir)
	if err != nil {
		t.Fatal(err)
	}
	g, err := groups.Make("worker-1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	}()
	if err := g.Limit(64<<20, 500); err != nil {
		t.Fatal(err)
	}
	s, err := confine.NewStarter(false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cmd := exec.CommandContext(t.Context(), confine.Executable, "confined", "memory")
	cmd.SysProcAttr = confine.Attributes(65534, 65534, g)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.Do(func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text, ok := strings.CutSuffix(lines.Text(), " MiB"); ok {
			held, _ = strconv.Atoi(text)
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") || !g.OutOfMemory() {
		t.Errorf("it ended with %v, for its memory: %v", err, g.OutOfMemory())
	}
	if held == 0 || held > 64 {
		t.Errorf("it held %d MiB", held)
	}
}
