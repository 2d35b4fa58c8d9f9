package demo

import "syscall"

// endWithUs ends a child when this process does, even if that is killed.
func endWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
