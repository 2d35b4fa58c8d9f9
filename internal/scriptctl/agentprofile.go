package scriptctl

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Types of profiles of an agent's process: those that are of a span of time, and the others.
var (
	timedProfiles   = []string{"cpu", "mutex", "block"}
	instantProfiles = []string{"heap", "allocs", "goroutine"}
)

func (a *app) agentProfileCommand() *cobra.Command {
	var (
		kind, file string
		duration   time.Duration
	)
	cmd := &cobra.Command{
		Use:   "profile NODE",
		Short: "Take a profile of an agent's process, for go tool pprof",
		Long: `Profile has an agent profile its own process, and writes the profile for "go tool pprof". The
agent sends it through the registry; nothing listens on the network for this. The types cpu, mutex and
block take the time of --duration, and Ctrl-C ends them early; heap, allocs and goroutine take none.

An agent takes one profile at a time. The processes of tenants with isolation are not part of it: see
"scriptctl profile" for scripts. Profile needs the role admin for all tenants, and stands in the audit
trail.`,
		Example: `  scriptctl agents profile edge-1 -f cpu.pb.gz && go tool pprof -top cpu.pb.gz
  scriptctl agents profile edge-1 --type heap -f heap.pb.gz
  scriptctl agents profile edge-1 --type mutex --duration 30s > mutex.pb.gz`,
		Args: wantArgs(1, 1, "an agent", "edge-1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			types := slices.Concat(timedProfiles, instantProfiles)
			if !slices.Contains(types, kind) {
				return usage(script.Errorf(script.Invalid, "--type", "%.80q is no type of profile: want %s", kind, strings.Join(types, ", ")))
			}
			if slices.Contains(instantProfiles, kind) && cmd.Flags().Changed("duration") {
				return usage(script.Errorf(script.Invalid, "--duration", "is for %s: a profile of the type %s takes no time", strings.Join(timedProfiles, ", "), kind))
			}
			if err := checkProfileDuration(duration); err != nil {
				return usage(err)
			}
			if err := a.mayPrintBinary(file, true); err != nil {
				return usage(err)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			started := func() {
				if slices.Contains(timedProfiles, kind) {
					a.notice("profiling %s for %v; Ctrl-C ends it early", plain(args[0]), duration)
				}
			}
			ctx, end, over := a.untilCollected(cmd.Context())
			defer over()
			data, err := client.ProfileAgent(ctx, registryclient.AgentProfileRequest{Agent: args[0], Type: kind, Duration: duration, Started: started, End: end})
			if err != nil {
				return err
			}
			return a.deliver(file, data)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kind, "type", timedProfiles[0], "what to profile: cpu, heap, allocs, goroutine, mutex or block")
	flags.DurationVar(&duration, "duration", defaultProfile, "how long to profile, at most 1m; for cpu, mutex and block")
	flags.StringVarP(&file, "file", "f", "", "write to this `file` (default standard output)")
	must(cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(slices.Concat(timedProfiles, instantProfiles), cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}
