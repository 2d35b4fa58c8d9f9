//go:build unix

package filesink

import (
	"os"

	"golang.org/x/sys/unix"
)

// ownStdout returns standard output under another descriptor. A write to a closed pipe then returns an error, and does
// not end the process with SIGPIPE.
func ownStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "stdout"), nil
}

// lock prevents other agents from writing the file.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
