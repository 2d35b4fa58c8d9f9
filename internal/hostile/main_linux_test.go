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
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
)

const (
	// dataLimit keeps an agent without bounds from filling the machine.
	dataLimit = 2 << 30
	// fileLimit is small, so that few connections are too many.
	fileLimit = 1024
	// registryFiles let a registry have as many clients that it does not know as an attack needs.
	registryFiles = 16 << 10
)

// This test binary is also the agent, the process of its tenant, and the registry.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "agentd":
			be(agentd.Command(), fileLimit)
		case "registryd":
			be(registryd.Command(), registryFiles)
		}
	}
	os.Exit(m.Run())
}

// be runs the command, whose process gives its free memory back at SIGUSR1, and answers with
// SIGUSR1.
func be(cmd *cobra.Command, files uint64) {
	if err := bound(files); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	free := make(chan os.Signal, 1)
	signal.Notify(free, unix.SIGUSR1)
	go func() {
		for range free {
			debug.FreeOSMemory()
			_ = unix.Kill(os.Getppid(), unix.SIGUSR1)
		}
	}()
	root := &cobra.Command{Use: "hostile"}
	root.AddCommand(cmd)
	process.Main(root)
}

// bound bounds this process, unless it is that of a tenant, which has bounds of its own.
func bound(files uint64) error {
	if len(os.Args) > 2 && os.Args[2] == "worker" {
		return nil
	}
	if err := unix.Prlimit(0, unix.RLIMIT_DATA, &unix.Rlimit{Cur: dataLimit, Max: dataLimit}, nil); err != nil {
		return err
	}
	return syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: files})
}
