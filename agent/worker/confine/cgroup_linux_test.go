//go:build cgroupv2

// These need a kernel whose control groups are theirs: `make test-kernel` gives them one.

package confine_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/worker/confine"
)

// kernelGroups returns control groups of the kernel's own, and the folder that they are
// in, which is delegated to this process.
func kernelGroups(t *testing.T) (groups *confine.Cgroups, dir string) {
	t.Helper()
	const advice = "run it by `make test-kernel`"
	dir, err := confine.Delegated()
	if err != nil {
		t.Fatalf("%v: %s", err, advice)
	}
	if groups, err = confine.OpenCgroups(dir); err != nil {
		t.Fatalf("%v: %s", err, advice)
	}
	return groups, dir
}

// kernelGroup returns a group with limits, and the folder in which it says what they do.
// It has to be possible to remove it as soon as its process has ended.
func kernelGroup(t *testing.T, memory int64, cpu int) (g *confine.Cgroup, dir string) {
	t.Helper()
	groups, parent := kernelGroups(t)
	g, err := groups.Make("worker-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err := g.Limit(memory, cpu); err != nil {
		t.Fatal(err)
	}
	return g, filepath.Join(parent, "worker-1")
}

// startIn starts this binary confined in a group, until the test ends. What it says comes
// line by line.
func startIn(t *testing.T, g *confine.Cgroup, what string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	s, err := confine.NewStarter(false)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), confine.Executable, "confined", what)
	cmd.SysProcAttr = confine.Attributes(65534, g)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // which stays open
		t.Fatal(err)
	}
	s.Do(func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close() // which ends it
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

// said returns what is in a file of a control group.
func said(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// counted returns a number that the kernel counts in a file of a control group.
func counted(t *testing.T, dir, name, field string) int {
	t.Helper()
	for line := range strings.Lines(said(t, dir, name)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), field+" "); ok {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no %s", name, field)
	return 0
}

// TestTheKernelTakesTheLimits: what TestCgroups writes to a folder, the kernel takes.
func TestTheKernelTakesTheLimits(t *testing.T) {
	g, dir := kernelGroup(t, 64<<20, 500)
	for name, want := range map[string]string{
		"memory.max": "67108864", "memory.oom.group": "1", "cpu.max": "50000 100000", "cpu.weight": "50", "pids.max": "512",
	} {
		if got := said(t, dir, name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	if err := g.Limit(32<<20, 0); err != nil {
		t.Fatal(err)
	}
	if got := said(t, dir, "memory.max") + ", " + said(t, dir, "cpu.max"); got != "33554432, max 100000" {
		t.Errorf("other limits: %s", got)
	}
	if g.OutOfMemory() {
		t.Error("out of memory before it ran")
	}
}

// TestTheKernelKeepsTheMemory: a process in a control group has no more memory than the
// group, and the agent sees that this is why it ended.
func TestTheKernelKeepsTheMemory(t *testing.T) {
	g, _ := kernelGroup(t, 64<<20, 500)
	cmd, lines := startIn(t, g, "memory")
	held := 0
	for lines.Scan() {
		if text, ok := strings.CutSuffix(lines.Text(), " MiB"); ok {
			held, _ = strconv.Atoi(text)
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") || !g.OutOfMemory() {
		t.Errorf("it ended with %v, for its memory: %v", err, g.OutOfMemory())
	}
	if held < 32 || held > 64 {
		t.Errorf("it held %d MiB", held)
	}
	t.Logf("it held %d MiB under a cap of 64 MiB", held)
}

// TestTheKernelKeepsTheProcessor: a process in a control group has the processor for its
// share of the time, although it wants all of it.
func TestTheKernelKeepsTheProcessor(t *testing.T) {
	const share = 200 // thousandths
	g, dir := kernelGroup(t, 256<<20, share)
	_, lines := startIn(t, g, "spin")
	if !lines.Scan() { // it spins from here on
		t.Fatal("it does not start")
	}
	had, begin := counted(t, dir, "cpu.stat", "usage_usec"), time.Now()
	before := counted(t, dir, "cpu.stat", "nr_throttled")
	waitUntil(t, func() bool { return counted(t, dir, "cpu.stat", "nr_throttled") >= before+10 })
	had, took := counted(t, dir, "cpu.stat", "usage_usec")-had, time.Since(begin)
	// It may have had all of a period's share just before, or have it still.
	if most := (took.Microseconds() + 200_000) * share / 1000; int64(had) > most {
		t.Errorf("in %v it had the processor for %d µs, of %d at most", took, had, most)
	}
	t.Logf("in %v it had the processor for %d µs", took, had)
}

// TestTheKernelKeepsTheThreads: a process in a control group has no more threads than it
// may.
func TestTheKernelKeepsTheThreads(t *testing.T) {
	g, dir := kernelGroup(t, 256<<20, 0)
	if most := said(t, dir, "pids.max"); most != "512" {
		t.Errorf("the group may have %s threads, want 512", most)
	}
	// Fewer than its user may have: otherwise that bound is met first.
	if err := os.WriteFile(filepath.Join(dir, "pids.max"), []byte("100"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, lines := startIn(t, g, "threads")
	for lines.Scan() {
		t.Error(lines.Text()) // it had them all
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended well")
	}
	if counted(t, dir, "pids.events", "max") == 0 {
		t.Error("the kernel refused none")
	}
	if left := said(t, dir, "pids.current"); left != "0" {
		t.Errorf("%s threads are left", left)
	}
}

// TestWhatAnEarlierAgentLeft: a group that has counted is replaced, and one that still has
// a process is not.
func TestWhatAnEarlierAgentLeft(t *testing.T) {
	groups, parent := kernelGroups(t)
	const name = "worker-1"
	left, err := groups.Make(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Limit(256<<20, 0); err != nil {
		t.Fatal(err)
	}
	cmd, lines := startIn(t, left, "limits")
	if !lines.Scan() {
		t.Fatal("it does not start")
	}
	if _, err := groups.Make(name); err == nil {
		t.Error("a group that is in use is replaced")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	dir := filepath.Join(parent, name)
	if left.OutOfMemory() {
		t.Error("it was killed, but not for its memory")
	}
	if counted(t, dir, "cpu.stat", "usage_usec") == 0 {
		t.Error("it has counted nothing")
	}
	g, err := groups.Make(name)
	if err != nil {
		t.Fatal(err)
	}
	if n := counted(t, dir, "cpu.stat", "usage_usec"); n != 0 || said(t, dir, "pids.max") != "max" {
		t.Errorf("it is used again: it has had the processor for %d µs", n)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if err := left.Remove(); err == nil {
		t.Error("what is gone is removed")
	}
}

// waitUntil waits for something to be so.
func waitUntil(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it is not so within a minute")
		}
	}
}
