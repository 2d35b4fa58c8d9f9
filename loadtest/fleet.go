package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// fleetOptions are the flags of `loadtest fleet`.
type fleetOptions struct {
	agents, scripts []int
	registries      int
	changes         int
	pause, idle     time.Duration
	sourceBytes     int
	perProcess      int
	joinAtOnce      int
	within          time.Duration
	verify, warm    bool
	output          string
	profile         string
}

func newFleetCommand() *cobra.Command {
	var o fleetOptions
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Measure how long a change takes to every agent of a fleet, and what that costs",
		Long: `Fleet starts etcd, NATS and registries, each a process of its own, and agents, about
a thousand in a process. Each agent is the follower of a real one, with its own
connections to NATS and to a registry, its own name and status reports, and a disk
in memory. Fleet then measures:

  - how long all agents take to join at once, with a snapshot of all scripts
  - how long each change takes from its commit until it is active on an agent, and
    on the last agent
  - the same number of bare connections that get messages of the same size from the
    same NATS server, half of them before the agents join and half after they left
  - the processor time, the memory and the bytes of each process

The agents of a process share what is equal on their disks, and compile each source
once. They do not verify signatures, unless --verify asks for it: on nodes each agent
has a processor for that.

--agents and --scripts take several numbers; each combination is run on its own.
Fleet needs Linux, and file descriptors for all agents in one process (ulimit -n).`,
		Example: `  go run ./loadtest fleet --agents 1000 --scripts 100
  go run ./loadtest fleet --agents 100,1000,10000 --scripts 100,10000 -o markdown   # the table of docs/performance.md`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&o.agents, "agents", []int{1000}, "numbers of agents")
	flags.IntSliceVar(&o.scripts, "scripts", []int{100}, "numbers of scripts that each agent has")
	flags.IntVar(&o.registries, "registries", 2, "replicas of the registry")
	flags.IntVar(&o.changes, "changes", 50, "changes, one after the other; each waits until the one before is active on all agents")
	flags.DurationVar(&o.pause, "pause", 300*time.Millisecond, "time between the end of a change and the next change")
	flags.DurationVar(&o.idle, "idle", 10*time.Second, "length of the phase without changes")
	flags.IntVar(&o.sourceBytes, "source-bytes", 2048, "size of each source")
	flags.IntVar(&o.perProcess, "agents-per-process", 1000, "agents in one process, at most")
	flags.IntVar(&o.joinAtOnce, "join-at-once", 0, "agents that join at a time; 0: as many as fit into memory, which is all of them if they have few scripts")
	flags.DurationVar(&o.within, "within", 15*time.Minute, "time after which a combination is given up; the others go on")
	flags.BoolVar(&o.warm, "warm", false, "start agents with all scripts on their disks, as after a restart; one in each process joins without")
	flags.BoolVar(&o.verify, "verify", false, "have each agent verify signatures, on the processors of this machine")
	flags.StringVarP(&o.output, "output", "o", "table", "how to print: table, markdown or json")
	flags.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of the first registry to this file, and of the first agents' process to this file with .agents behind it")
	return cmd
}

// Bounds of what makes sense.
const (
	maxFleetSource = 60 << 10 // larger sources do not travel with the event
	minFleetSource = 100
	changePatience = time.Minute // for a change to be active on all agents
	// joiningScripts are those that agents which join at a time have together: while it
	// joins, an agent holds some kilobytes for each.
	joiningScripts = 500_000
	spareFiles     = 200 // descriptors that a server needs besides its agents'
)

func (o *fleetOptions) validate() error {
	for name, numbers := range map[string][]int{
		"--agents": o.agents, "--scripts": o.scripts, "--registries": {o.registries}, "--changes": {o.changes}, "--agents-per-process": {o.perProcess},
	} {
		if len(numbers) == 0 || slices.Min(numbers) < 1 {
			return fmt.Errorf("%s is %v: give numbers from 1 on", name, numbers)
		}
	}
	if o.pause < 0 || o.idle < 0 || o.joinAtOnce < 0 || o.within <= 0 {
		return errors.New("--pause, --idle and --join-at-once cannot be negative, and --within has to be positive")
	}
	if o.sourceBytes < minFleetSource || o.sourceBytes > maxFleetSource {
		return fmt.Errorf("--source-bytes is %d: give %d to %d, as larger sources do not travel with the event", o.sourceBytes, minFleetSource, maxFleetSource)
	}
	if !slices.Contains([]string{"table", "markdown", "json"}, o.output) {
		return fmt.Errorf("--output is %q: give table, markdown or json", o.output)
	}
	if o.profile != "" && len(o.agents)*len(o.scripts) > 1 {
		return errors.New("--cpuprofile is for one run: give one number of agents and one of scripts")
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("read the limit of file descriptors: %w", err)
	}
	// NATS has a connection of each agent; a process of agents has two of each of its own.
	most := slices.Max(o.agents)
	if need := uint64(max(most, 2*min(most, o.perProcess)) + spareFiles); files.Max < need {
		return fmt.Errorf("--agents %d needs %d file descriptors in one process, and the limit is %d: raise it with `ulimit -Hn` as root, or take fewer agents", most, need, files.Max)
	}
	return nil
}

// run measures each combination, and prints what was measured also if some fail.
func (o *fleetOptions) run(ctx context.Context, out, progress io.Writer) error {
	var results []*fleetResult
	var errs []error
	for _, scripts := range o.scripts {
		for _, agents := range o.agents {
			r := newFleetRun(o, agents, scripts, progress)
			if err := r.runWithin(ctx); err != nil {
				r.result.Error = err.Error()
				errs = append(errs, fmt.Errorf("%d agents, %d scripts: %w", agents, scripts, err))
				fmt.Fprintf(progress, "failed: %v\n", errs[len(errs)-1])
			}
			results = append(results, r.result)
			if ctx.Err() != nil { // somebody stops it
				return errors.Join(append(errs, printFleet(out, o, results))...)
			}
		}
	}
	return errors.Join(append(errs, printFleet(out, o, results))...)
}
