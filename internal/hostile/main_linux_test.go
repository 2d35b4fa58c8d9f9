package hostile

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/process"
)

const (
	// dataLimit keeps an agent without bounds from filling the machine.
	dataLimit = 2 << 30
	// fileLimit is small, so that few connections are too many.
	fileLimit = 1024
)

// This test binary is also the agent, and the process of its tenant.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agentd" {
		beAgent()
	}
	os.Exit(m.Run())
}

// beAgent runs an agent, which gives its free memory back at SIGUSR1.
func beAgent() {
	if err := bound(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	free := make(chan os.Signal, 1)
	signal.Notify(free, unix.SIGUSR1)
	go func() {
		for range free {
			debug.FreeOSMemory()
		}
	}()
	root := &cobra.Command{Use: "hostile"}
	root.AddCommand(agentd.Command())
	process.Main(root)
}

// bound bounds this process, unless it is that of a tenant, which has bounds of its own.
func bound() error {
	if len(os.Args) > 2 && os.Args[2] == "worker" {
		return nil
	}
	if err := unix.Prlimit(0, unix.RLIMIT_DATA, &unix.Rlimit{Cur: dataLimit, Max: dataLimit}, nil); err != nil {
		return err
	}
	return syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: fileLimit, Max: fileLimit})
}
