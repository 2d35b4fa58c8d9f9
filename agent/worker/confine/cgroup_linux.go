package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Cgroups makes a control group for each process, below one that was delegated to the
// agent (cgroup v2).
type Cgroups struct{ dir string }

// cgroupRoot is where the hierarchy is mounted, and agentGroup the name of the group
// that an agent is in when its parent is delegated to it: systemd makes it so with
// Delegate=yes and DelegateSubgroup=agent.
const (
	cgroupRoot = "/sys/fs/cgroup"
	agentGroup = "agent"
)

// Delegated returns the group that is delegated to this process, or an error that says
// why there is none.
func Delegated() (dir string, err error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err != nil {
		return "", fmt.Errorf("there is no cgroup v2 hierarchy: %w", err)
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("see which cgroup the agent is in: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if ok && filepath.Base(path) == agentGroup {
			return filepath.Join(cgroupRoot, filepath.Dir(path)), nil
		}
	}
	return "", fmt.Errorf("the agent is in no cgroup named %q, below one that is delegated to it", agentGroup)
}

// OpenCgroups returns the control groups below dir, in which no process is itself.
func OpenCgroups(dir string) (*Cgroups, error) {
	if err := write(dir, "cgroup.subtree_control", "+memory +cpu +pids"); err != nil {
		return nil, fmt.Errorf("the cgroup %s cannot be divided: %w", dir, err)
	}
	return &Cgroups{dir: dir}, nil
}

func write(dir, name, text string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
}

// Cgroup is one process's control group.
type Cgroup struct {
	dir  string
	file *os.File
}

// Make makes a group, in place of one that an earlier agent left: that one has counted,
// and is bounded, already. The caller removes it.
func (c *Cgroups) Make(name string) (*Cgroup, error) {
	dir := filepath.Join(c.dir, name)
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the cgroup that an earlier agent left: %w", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	file, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the cgroup %s: %w", name, err)
	}
	return &Cgroup{dir: dir, file: file}, nil
}

// FD is what a process is started in the group with.
func (g *Cgroup) FD() int { return int(g.file.Fd()) }

// Bounds on a group.
const (
	// maxThreads of a process. Without a group it is Go that ends a process with more: the
	// kernel counts threads by user, and all processes may be of one.
	maxThreads = 512
	// weight of a process beside the agent's, which has 100.
	weight    = 50
	cpuPeriod = 100_000 // microseconds
)

// Limit caps the memory in bytes, and the processor time in thousandths of a core; 0
// leaves that to its share.
func (g *Cgroup) Limit(memory int64, cpu int) error {
	most := "max"
	if cpu > 0 {
		most = strconv.Itoa(cpu * cpuPeriod / 1000)
	}
	return errors.Join(
		write(g.dir, "memory.max", strconv.FormatInt(memory, 10)),
		noSwap(g.dir),
		write(g.dir, "memory.oom.group", "1"),
		write(g.dir, "cpu.max", most+" "+strconv.Itoa(cpuPeriod)),
		write(g.dir, "cpu.weight", strconv.Itoa(weight)),
		write(g.dir, "pids.max", strconv.Itoa(maxThreads)),
	)
}

// noSwap keeps the group from swap, where there is any.
func noSwap(dir string) error {
	err := write(dir, "memory.swap.max", "0")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // no swap is accounted
		return nil
	}
	return err
}

// OutOfMemory reports whether the kernel killed the process for its memory.
func (g *Cgroup) OutOfMemory() bool {
	text, err := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			return n != "0"
		}
	}
	return false
}

// Remove removes the group, whose process has ended.
func (g *Cgroup) Remove() error {
	return errors.Join(g.file.Close(), os.Remove(g.dir))
}
