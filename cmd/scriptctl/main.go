// Command scriptctl publishes scripts to a registry, says what became of them,
// and calls them on an agent. As kubectl-scriptorium it is a plugin of kubectl.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the process at once
	code := scriptctl.RunProgram(ctx, scriptctl.Standard(), os.Args[0], os.Args[1:])
	stop()
	os.Exit(code)
}
