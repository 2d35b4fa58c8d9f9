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

// Descriptors that a process may have, its connections among them.
const Descriptors = 8192

// Confined is this process, once it is.
type Confined struct {
	data uint64 // bytes of data that were there before and count against the cap of memory
}

// Self confines this process for good: it can gain no rights, is not dumped or
// traced, and makes no system calls but those that the descriptors it has, its own
// memory, threads and time take. It is called once, before anything untrusted is read.
func Self() (*Confined, error) {
	if auditArch == 0 {
		return nil, fmt.Errorf("processes cannot be confined on %s", runtime.GOARCH)
	}
	c := &Confined{data: unusualData()}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("switch dumps off: %w", err)
	}
	if err := errors.Join(setLimit(unix.RLIMIT_CORE, 0), setLimit(unix.RLIMIT_NOFILE, Descriptors), setLimit(unix.RLIMIT_FSIZE, 0)); err != nil {
		return nil, err
	}
	// If the machine runs out of memory, this process goes first. It is no harm where
	// that cannot be said.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0o600)
	runtime.LockOSThread() // it is a thread that gives up; the filter takes the others along
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("give up new privileges: %w", err)
	}
	return c, filterSystemCalls(os.Getpid())
}

// Memory caps what this process may have, in bytes. Unless the cap is kept from
// outside, allocating more ends the process. The garbage collector works harder well
// before that.
func (c *Confined) Memory(bytes int64, fromOutside bool) error {
	debug.SetMemoryLimit(bytes - bytes/8)
	if fromOutside {
		return nil
	}
	return setLimit(unix.RLIMIT_DATA, uint64(bytes)+c.data)
}

// usualData is more than a Go process has as data when it starts.
const usualData = 1 << 30

// unusualData returns what this process has as data if that is so much that it is the
// shadow memory of a race detector.
func unusualData() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 6 {
		return 0
	}
	pages, err := strconv.ParseUint(fields[5], 10, 64)
	if err != nil || pages*uint64(os.Getpagesize()) < usualData {
		return 0
	}
	return pages * uint64(os.Getpagesize())
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
