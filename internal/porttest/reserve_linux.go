package porttest

import (
	"net"
	"os"
	"syscall"
)

// reserve binds the port and does not listen: where both say SO_REUSEADDR, as each
// listener of package net does, Linux lets another bind to this port and listen if it asks
// for the port by number, and never chooses the port itself.
func reserve() (*net.TCPAddr, func(), error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socket", err)
	}
	release := func() { _ = syscall.Close(fd) }
	address, err := bind(fd)
	if err != nil {
		release()
		return nil, nil, err
	}
	return address, release, nil
}

func bind(fd int) (*net.TCPAddr, error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	loopback := [4]byte{127, 0, 0, 1}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: loopback}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	return &net.TCPAddr{IP: loopback[:], Port: bound.(*syscall.SockaddrInet4).Port}, nil
}
