package lua_test

import (
	"context"
	"os/exec"
	"syscall"
)

var bombContext = context.Background()

// peakMemory returns the most memory in bytes that the process had.
func peakMemory(cmd *exec.Cmd) int64 {
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return usage.Maxrss << 10 // Linux counts in KiB
}
