// Command faults breaks a fleet of real processes, by seeded schedules, and checks
// from the outside that it keeps its promises:
//
//	go run ./loadtest/faults --seed 1 --schedules 500
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// errViolated is how a run ends that found something.
var errViolated = errors.New("promises were broken; see above")

func newCommand() *cobra.Command {
	cfg := config{}
	var (
		short  bool
		output string
	)
	cmd := &cobra.Command{
		Use:   "faults",
		Short: "Break a fleet of real processes, and check that it keeps its promises",
		Long: `faults runs three members of etcd, three servers of NATS, registries and agents as
processes, with a proxy in every connection between them. Each schedule follows
from its seed: writers publish, pin, roll back, disable and delete while processes
are killed -9 and paused, links are cut, swallowed, delayed and throttled, messages
dropped, doubled, delayed, reordered and forged, agents' disks filled, their files
torn, and clocks set wrong. Callers call every agent all the time. Then the faults
stop, and faults checks every answer and status against the promises.

Filling disks needs root (and Linux). The exit code is 1 if a promise was broken.`,
		Example: `  go run ./loadtest/faults --seed 1 --schedules 500
  go run ./loadtest/faults --seed 4711 --schedules 1   # one schedule again`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				cfg.shorten()
			}
			if output != "text" && output != "json" {
				return fmt.Errorf("--output: %q is neither text nor json", output)
			}
			if cfg.agents < 1 || cfg.registries < 1 || cfg.schedules < 1 || cfg.rebuild < 1 {
				return errors.New("--agents, --registries, --schedules and --rebuild have to be at least 1")
			}
			cfg.progress = cmd.OutOrStdout()
			if output == "json" {
				cfg.progress = cmd.ErrOrStderr()
			}
			report, err := run(cmd.Context(), cfg)
			if report != nil {
				report.print(cfg.progress)
				if output == "json" {
					err = errors.Join(err, report.printJSON(cmd.OutOrStdout()))
				}
				if report.Totals.Violations > 0 {
					err = errors.Join(errViolated, err)
				}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&cfg.seed, "seed", uint64(time.Now().Unix()), "seed of the first schedule; each that follows has the next")
	flags.IntVar(&cfg.schedules, "schedules", 20, "schedules to run")
	flags.IntVar(&cfg.agents, "agents", 5, "agents in the fleet")
	flags.IntVar(&cfg.registries, "registries", 3, "registries")
	flags.IntVar(&cfg.rebuild, "rebuild", 50, "schedules after which a cluster is replaced by a new one")
	flags.DurationVar(&cfg.bound, "bound", 30*time.Second, "time to converge in after the faults stopped; more is a violation")
	flags.StringSliceVar(&cfg.also, "also", nil, "kinds of faults that each schedule has besides others, as forged-status")
	flags.BoolVar(&cfg.reuse, "reuse-binaries", false, "take the programs as the last run built them")
	flags.BoolVar(&short, "short", false, "a few schedules with two registries, in less than three minutes")
	flags.StringVarP(&output, "output", "o", "text", "text, or json on standard output with progress on standard error")
	return cmd
}

// shorten makes a run that fits into a test.
func (c *config) shorten() { c.schedules, c.registries, c.agents = 12, 2, 5 }
