// Command engines compares the runtimes of scripts, and their yardsticks, in one run:
//
//	go run ./loadtest/engines
//
// Two tasks, a routing decision and a transform of 1 KiB of JSON, are written in each language. The
// contestants take turns within a round, so that what else the machine does hits all alike. Processor
// time is what the kernel counts (getrusage), the garbage collector included.
//
// The yardsticks are OPA as a library and wazero alone, which only their engines' packages import: so
// these are benchmarks of engine/rego and engine/wasm, whose test binaries the command builds and runs
// in the same rounds. Redis takes part if it is installed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/sdkbuild"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	duration   time.Duration
	rounds     int
	compiles   int
	languages  []string
	yardsticks bool
	redis      string
	neighbours bool
}

func newCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:          "engines",
		Short:        "Compare the runtimes of scripts beside OPA, wazero and Redis",
		Args:         cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.rounds < 1 || o.compiles < 1 || o.duration <= 0 {
				return errors.New("--rounds, --compiles and --duration must be positive")
			}
			for _, language := range o.languages {
				if !slices.Contains(sdkbuild.Languages(), language) {
					return fmt.Errorf("--languages has %q: want some of %s", language, strings.Join(sdkbuild.Languages(), ", "))
				}
			}
			return run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.duration, "duration", 500*time.Millisecond, "of each measurement")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each measurement is made")
	flags.IntVar(&o.compiles, "compiles", 5, "how often each program is compiled")
	flags.StringSliceVar(&o.languages, "languages", sdkbuild.Languages(), "languages of the WebAssembly modules")
	flags.BoolVar(&o.yardsticks, "yardsticks", true, "measure OPA and wazero, too, which needs the Go toolchain")
	flags.StringVar(&o.redis, "redis", "auto", "the redis-server to measure: auto, off, or its path")
	flags.BoolVar(&o.neighbours, "neighbours", true, "measure a Lua script beside hostile modules")
	return cmd
}

// run measures all, and prints the tables.
func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "engines")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	contestants, err := programs(ctx, o, dir, progress)
	if err != nil {
		return err
	}
	if o.redis != "off" {
		r, stop, err := newRedis(ctx, o.redis, dir)
		switch {
		case errors.Is(err, errNoRedis):
			fmt.Fprintln(progress, "engines:", err)
		case err != nil:
			return err
		default:
			defer stop()
			contestants = append(contestants, r...)
		}
	}
	var yardsticks []*yardstick
	if o.yardsticks {
		if yardsticks, err = buildYardsticks(ctx, dir); err != nil {
			return err
		}
	}
	for round := range o.rounds {
		fmt.Fprintf(progress, "engines: round %d of %d\n", round+1, o.rounds)
		for _, c := range contestants {
			if err := c.measure(ctx, o.duration); err != nil {
				return fmt.Errorf("%s, %s: %w", c.task, c.name, err)
			}
		}
		for _, y := range yardsticks {
			if err := y.measure(ctx, o.duration); err != nil {
				return err
			}
		}
	}
	for _, y := range yardsticks {
		contestants = append(contestants, y.contestants...)
	}
	if err := writeCalls(out, o, contestants); err != nil || !o.neighbours {
		return err
	}
	return neighbours(ctx, o, dir, out, progress)
}
