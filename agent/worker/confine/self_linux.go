package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Descriptors that a process may have at most, its connections among them.
const Descriptors = 8192

// Confined is this process, once it is.
type Confined struct {
	// NotFirst is why this process is not the first to go if the machine runs out of
	// memory; nil if it is. Nothing of a tenant depends on it.
	NotFirst error
	// Descriptors that it may have.
	Descriptors uint64

	statm *os.File // how much memory this process has
}

// Self confines this process for good: it can gain no rights, is not dumped or
// traced, and makes no system calls but those that the descriptors it has, its own
// memory, threads and time take. Descriptors come over receiver alone, which is open and
// stays so. It is called once, before anything untrusted is read.
func Self(receiver int) (*Confined, error) {
	if auditArch == 0 {
		return nil, fmt.Errorf("processes cannot be confined on %s", runtime.GOARCH)
	}
	statm, err := os.Open("/proc/self/statm")
	if err != nil {
		return nil, fmt.Errorf("see how much memory there is: %w", err)
	}
	c := &Confined{NotFirst: goFirst(), statm: statm} // before what is about this process is root's
	debug.SetMaxThreads(maxThreads)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("switch dumps off: %w", err)
	}
	if hasOwnUser() { // otherwise the agent's threads count, too
		if err := setLimit(unix.RLIMIT_NPROC, maxThreads); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(
		setLimit(unix.RLIMIT_CORE, 0), setLimit(unix.RLIMIT_NOFILE, Descriptors), setLimit(unix.RLIMIT_FSIZE, 0),
		setLimit(unix.RLIMIT_STACK, firstStack), // it grows, and counts as no data
	); err != nil {
		return nil, err
	}
	var files unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &files); err != nil {
		return nil, fmt.Errorf("see how many descriptors there may be: %w", err)
	}
	c.Descriptors = files.Cur
	runtime.LockOSThread() // it is a thread that gives up; the filter takes the others along
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("give up new privileges: %w", err)
	}
	return c, filterSystemCalls(os.Getpid(), receiver)
}

// hasOwnUser reports whether this process has another user than the agent, who started it:
// then nobody else has that user.
func hasOwnUser() bool {
	var agent unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d", os.Getppid()), &agent)
	return err == nil && int(agent.Uid) != os.Getuid()
}

// firstStack is how large the first thread's stack may be, in bytes.
const firstStack = 8 << 20

// Of the scores by which the kernel chooses who goes when there is no memory.
const (
	scoreStep = 500
	scoreMost = 1000
)

// goFirst makes this process go before the agent, whose score it has so far.
func goFirst() error {
	const file = "/proc/self/oom_score_adj"
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("see what is killed first when there is no memory: %w", err)
	}
	now, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("see what is killed first when there is no memory: %w", err)
	}
	if now == scoreMost {
		return nil
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(min(now+scoreStep, scoreMost))), 0o600); err != nil {
		return fmt.Errorf("be killed first when there is no memory: %w", err)
	}
	return nil
}

// Memory caps what this process may have, in bytes, what it has already not counted.
// Unless the cap is kept from outside, allocating more ends the process. That limit counts
// addresses: what the garbage collector has freed counts until it is used again. So it
// works harder well before that.
func (c *Confined) Memory(bytes int64, fromOutside bool) error {
	defer func() { _ = c.statm.Close() }()
	debug.SetMemoryLimit(bytes - bytes/4) // a busy collector gets half the processors at most, and the heap grows on
	debug.SetMaxStack(int(min(bytes/4, maxStack)))
	if fromOutside {
		return nil
	}
	has, err := c.data()
	if err != nil {
		return err
	}
	return setLimit(unix.RLIMIT_DATA, uint64(bytes)+has)
}

// maxStack is how deep one goroutine may be, in bytes.
const maxStack = 64 << 20

// data returns how much memory this process has that counts against the limit.
func (c *Confined) data() (uint64, error) {
	text := make([]byte, 256)
	n, err := c.statm.Read(text)
	if err != nil {
		return 0, fmt.Errorf("see how much memory there is: %w", err)
	}
	const field = 5 // data, and the stack
	fields := strings.Fields(string(text[:n]))
	if len(fields) <= field {
		return 0, fmt.Errorf("%q does not say how much memory there is", text[:n])
	}
	pages, err := strconv.ParseUint(fields[field], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q does not say how much memory there is: %w", text[:n], err)
	}
	return pages * uint64(os.Getpagesize()), nil
}

// threadStack is what a thread gets in a program that is linked with C.
const threadStack = 512 << 10

// SmallStacks makes threads small, if C makes them: by default they take so much that
// a cap of memory is soon met. It executes this program anew for that, so it is the
// first thing to be called.
func SmallStacks() error {
	if !linkedWithC {
		return nil
	}
	var now unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_STACK, nil, &now); err != nil {
		return fmt.Errorf("read the limit of stacks: %w", err)
	}
	if now.Cur <= threadStack {
		return nil
	}
	if err := setLimit(unix.RLIMIT_STACK, threadStack); err != nil {
		return err
	}
	// The thread that executes becomes the main thread, and only the main thread has the signal that Attributes asks for.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the agent: %w", err)
	}
	return fmt.Errorf("execute this program anew: %w", unix.Exec(Executable, os.Args, os.Environ()))
}

// setLimit lowers a limit of this process for good, and leaves one that is lower.
func setLimit(resource int, value uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(0, resource, nil, &now); err != nil {
		return fmt.Errorf("read the limit %d: %w", resource, err)
	}
	value = min(value, now.Max)
	if err := unix.Prlimit(0, resource, &unix.Rlimit{Cur: value, Max: value}, nil); err != nil {
		return fmt.Errorf("set the limit %d to %d: %w", resource, value, err)
	}
	return nil
}
