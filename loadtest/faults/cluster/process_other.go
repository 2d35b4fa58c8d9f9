//go:build !linux

package cluster

import (
	"errors"
	"syscall"
)

// apart keeps a terminal's Ctrl-C from the child.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func mountSmall(string, int) error {
	return errors.New("a small file system can be mounted on Linux alone")
}

// Sweep has nothing to do where nothing is mounted.
func Sweep() error { return nil }

func unmount(string) error { return nil }
