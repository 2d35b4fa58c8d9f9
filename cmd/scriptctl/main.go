// Command scriptctl publishes scripts to a registry, says what became of them,
// and calls them on an agent.
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
	code := scriptctl.Run(ctx, scriptctl.Standard(), os.Args[1:])
	stop()
	os.Exit(code)
}
