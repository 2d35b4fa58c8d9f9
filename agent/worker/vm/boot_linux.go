package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// notRun is the exit code where there was no test to end with one.
const notRun = 125

// boot is the machine's first process: it makes ready what tests expect of a machine,
// runs them, says how they ended, and switches the machine off.
func boot() {
	fmt.Printf("\n%s\n", up)
	code, err := runTests()
	if err != nil {
		fmt.Println("vm: the first process:", err)
	}
	fmt.Printf("\n%s%d\n", ended, code) // on a line of its own, whatever was said last
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("vm: switch off:", err) // the kernel panics when this process ends, which ends the machine
	}
}

// runTests runs the tests and returns the exit code of the first that failed, or 0.
func runTests() (code int, err error) {
	if err := errors.Join(mounts(), loopback(), descriptors()); err != nil {
		return notRun, err
	}
	group, err := delegate()
	if err != nil {
		return notRun, err
	}
	defer group.Close() //nolint:errcheck // a folder
	text, err := os.ReadFile("/" + listFile)
	if err != nil {
		return notRun, err
	}
	var tests []test
	if err := json.Unmarshal(text, &tests); err != nil {
		return notRun, err
	}
	for _, t := range tests {
		fmt.Println("vm: tests of", t.Dir)
		cmd := exec.CommandContext(context.Background(), "/"+t.binary(), t.Args...)
		cmd.Dir = "/" + t.dir()
		cmd.Env = []string{"HOME=/tmp", "PATH=/"}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
		err := cmd.Run()
		exit, ok := errors.AsType[*exec.ExitError](err)
		switch {
		case ok && code == 0:
			code = exitStatus(exit)
		case err != nil && !ok:
			return notRun, fmt.Errorf("run the tests of %s: %w", t.Dir, err)
		}
	}
	return code, nil
}

// exitStatus is the exit code of tests that failed; of those that a signal ended, what a
// shell would say.
func exitStatus(err *exec.ExitError) int {
	if status, ok := err.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		fmt.Println("vm: the tests were ended by", status.Signal())
		return 128 + int(status.Signal())
	}
	return err.ExitCode()
}

// cgroupRoot is where control groups are.
const cgroupRoot = "/sys/fs/cgroup"

func mounts() error {
	for _, m := range []struct{ kind, dir, options string }{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"devtmpfs", "/dev", ""},
		{"tmpfs", "/tmp", "mode=1777"},
		{"cgroup2", cgroupRoot, ""},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, unix.MS_NOSUID, m.options); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.dir, err)
		}
	}
	return nil
}

// loopback makes 127.0.0.1 reachable.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was sent
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("have the loopback interface up: %w", err)
	}
	return nil
}

// descriptors lets processes have as many open files as systemd would; the kernel's own
// bound is 4,096.
func descriptors() error {
	const most = 524_288
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("allow %d open files: %w", most, err)
	}
	return nil
}

// delegate returns a control group named agent below one that is delegated to it, as
// systemd makes them with Delegate= and DelegateSubgroup=agent.
func delegate() (*os.File, error) {
	unit := filepath.Join(cgroupRoot, "test.service")
	agent := filepath.Join(unit, "agent")
	if err := os.WriteFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), []byte("+memory +cpu +pids"), 0o600); err != nil {
		return nil, fmt.Errorf("the kernel has not all of the controllers memory, cpu and pids: %w", err)
	}
	if err := os.MkdirAll(agent, 0o755); err != nil {
		return nil, fmt.Errorf("make a control group: %w", err)
	}
	return os.Open(agent)
}
