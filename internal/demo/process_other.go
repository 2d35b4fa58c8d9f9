//go:build !linux

package demo

import "syscall"

func endWithUs() *syscall.SysProcAttr { return nil }
