package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has taken so far, as the kernel counts it.
type usage struct {
	CPU time.Duration // user and system
	// In and Out are the bytes that it read and wrote by system calls: of sockets, and of
	// files, but not what it has mapped into memory.
	In, Out uint64
}

func (u usage) since(before usage) usage {
	return usage{CPU: u.CPU - before.CPU, In: u.In - before.In, Out: u.Out - before.Out}
}

// clockTick is the unit of times in /proc on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

func usageOf(pid int) (u usage, err error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	data, err := os.ReadFile(path)
	if err != nil {
		return u, err
	}
	_, rest, _ := strings.Cut(string(data), ") ") // the name may hold anything
	fields := strings.Fields(rest)
	const user, system = 11, 12
	if len(fields) <= system {
		return u, fmt.Errorf("%s is not understood: %q", path, data)
	}
	for _, field := range fields[user : system+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, fmt.Errorf("%s is not understood: %w", path, err)
		}
		u.CPU += time.Duration(ticks) * clockTick
	}
	if u.In, err = procNumber(pid, "io", "rchar"); err != nil {
		return u, err
	}
	u.Out, err = procNumber(pid, "io", "wchar")
	return u, err
}

// Memory that a process holds, in bytes: now, and at most so far.
func memoryOf(pid int) (now, peak uint64, err error) {
	if now, err = procNumber(pid, "status", "VmRSS"); err != nil {
		return 0, 0, err
	}
	peak, err = procNumber(pid, "status", "VmHWM")
	return now << 10, peak << 10, err
}

// procNumber reads the number behind a name in a file of a process.
func procNumber(pid int, file, name string) (uint64, error) {
	path := fmt.Sprintf("/proc/%d/%s", pid, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) >= 2 && fields[0] == name+":" {
			return strconv.ParseUint(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}
