// Command build builds what tests with a Kubernetes API need, and says where it is. Tests
// build it themselves if it is not there; this is for doing it beforehand, when
// nobody's time is running.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/scriptorium-dev/scriptorium/operator/testenv/binaries"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	built, err := binaries.Build(ctx, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
	fmt.Println(built.APIServer)
	fmt.Println(built.Kubectl)
	fmt.Println(built.Etcd)
}
