package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// apart keeps a terminal's Ctrl-C from the child, and ends it when this process
// ends, even if that is killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// mountSmall mounts a file system of so many bytes on dir, in memory. It needs
// root.
func mountSmall(dir string, bytes int) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("mount %s: only root can", dir)
	}
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes))
}

// Sweep unmounts what runs that were killed have left mounted: what is under a
// folder of NewDir whose process is gone.
func Sweep() error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "tmpfs" {
			continue
		}
		if pid, ok := ownerOf(fields[1]); ok && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			errs = append(errs, unmount(fields[1]))
		}
	}
	return errors.Join(errs...)
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
