// Command loadtest measures Scriptorium beside its yardsticks:
//
//	go run ./loadtest calls
//
// measures calls over an agent's sockets, and the same script in Redis.
//
//	go run ./loadtest gateways
//
// measures what a decision costs at nginx, HAProxy and Caddy, and OPA's beside it.
//
//	go run ./loadtest overhead
//
// measures what decision logs and traces cost calls, also when their collectors fail.
//
//	go run ./loadtest neighbours
//
// measures what tenants that spin do to another one's calls.
//
//	go run ./loadtest/engines
//
// a command of its own, compares the runtimes of scripts.
//
//	go run ./loadtest status --agents 10000
//
// measures what the status of a large fleet costs a registry.
//
//	go run ./loadtest fleet --agents 1000 --scripts 100
//
// measures how long a change takes to every agent of a fleet, and what that costs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "loadtest",
		Short:         "Measure Scriptorium beside its yardsticks",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newCallsCommand(), newNeighboursCommand(), newGatewaysCommand(), newBenchTableCommand(), newAgentCommand(), newStatusCommand(), newFleetCommand(), newFleetWorkerCommand(),
		newOverheadCommand(), newEtcdCommand(), newNATSCommand(), newRegistrydCommand(), newAgentdCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "loadtest:", err)
		os.Exit(1)
	}
}
