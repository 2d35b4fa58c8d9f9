// Command scriptorium-krm is a KRM function: kustomize and kpt run it with a ResourceList whose functionConfig is a
// LuaScript. It is "scriptctl krm".
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
	code := scriptctl.Run(ctx, scriptctl.Standard(), append([]string{"krm"}, os.Args[1:]...))
	stop()
	os.Exit(code)
}
