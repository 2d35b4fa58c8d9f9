package scriptctl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Formats of profiles, in addition to those of all commands.
const (
	formatSVG   = "svg"
	formatPprof = "pprof"
)

// Bounds of profiles. The registry has the same ones.
const (
	defaultProfile = 10 * time.Second
	longestProfile = time.Minute
)

// endPatience is how long an interrupted command waits for the profile so far.
const endPatience = 15 * time.Second

// profileOptions are the flags of profile.
type profileOptions struct {
	nodes    []string
	duration time.Duration
	version  uint64
	lines    int
	file     string
}

func (a *app) profileCommand() *cobra.Command {
	var o profileOptions
	cmd := &cobra.Command{
		Use:   "profile TENANT/NAME",
		Short: "Show which lines of a script burn instructions",
		Long: `Profile has agents watch the calls of a script, and shows which of its lines use the most
instructions. SELF are the instructions of a line, with the functions of the engine that it calls; TOTAL
also has those of the script's functions that it calls. All agents that follow the tenant take part, at
most 20: in a larger fleet, choose some with --node.

An agent takes a sample each 1,009 instructions, only of calls of this script, and only until the profile
ends. Ctrl-C ends it early. A script that nobody calls has no profile.

-o svg draws a flame graph, which a browser shows, and -o pprof writes a file for "go tool pprof";
-o json has lines and stacks. Profile needs the role read for the tenant.`,
		Example: `  scriptctl profile acme/route
  scriptctl profile acme/route --node edge-1 --duration 30s --version 9
  scriptctl profile acme/route -o svg -f route.svg
  scriptctl profile acme/route -o pprof -f route.pb.gz && go tool pprof -top route.pb.gz`,
		Annotations:       map[string]string{moreFormats: formatSVG + "," + formatPprof},
		Args:              wantArgs(1, 1, "a script", "tenant/name"),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.parseName(args[0])
			if err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return usage(err)
			}
			if err := a.mayPrintBinary(o.file, a.output == formatPprof); err != nil {
				return usage(err)
			}
			return a.profile(cmd.Context(), name, &o)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.nodes, "node", nil, "only the agent of this name, or of this pattern, such as 'edge-*'; may be repeated (default all that follow the tenant)")
	flags.DurationVar(&o.duration, "duration", defaultProfile, "how long to watch, at most 1m")
	flags.Uint64Var(&o.version, "version", 0, "only calls of this version (default all; it shows the one with the most instructions)")
	flags.IntVar(&o.lines, "lines", 20, "how many lines to show at most")
	flags.StringVarP(&o.file, "file", "f", "", "write to this `file` (default standard output)")
	return cmd
}

func (o *profileOptions) validate() error {
	if err := checkNodes(o.nodes); err != nil {
		return err
	}
	if o.lines < 1 {
		return script.Errorf(script.Invalid, "--lines", "is %d, want 1 or more", o.lines)
	}
	return checkProfileDuration(o.duration)
}

func checkProfileDuration(d time.Duration) error {
	if d <= 0 || d > longestProfile {
		return script.Errorf(script.Invalid, "--duration", "is %v, want more than 0 and at most %v", d, longestProfile)
	}
	return nil
}

// mayPrintBinary returns an error if binary output would go to a terminal.
func (a *app) mayPrintBinary(file string, binary bool) error {
	if binary && file == "" && a.OutTerminal {
		return script.Errorf(script.Invalid, "--file", "is required: the profile is no text for a terminal; name a file with -f")
	}
	return nil
}

// profile profiles a script on the agents, and prints the result.
func (a *app) profile(ctx context.Context, name script.Name, o *profileOptions) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	ctx, end, over := a.untilCollected(ctx)
	defer over()
	found, err := client.ProfileScript(ctx, registryclient.ScriptProfileRequest{
		Of: name, Version: o.version, Agents: o.nodes, Duration: o.duration, End: end,
		Started: func() { a.notice("profiling %s for %v; Ctrl-C ends it early", name, o.duration) },
	})
	if err != nil {
		return err
	}
	if err := a.checkAnswers(&found.Result, name.Tenant, o.nodes); err != nil {
		return err
	}
	if len(found.Agents) == 0 {
		return script.Errorf(script.Unavailable, "", "no agent has profiled %s", name)
	}
	p := newScriptProfile(name, &found)
	if p.Instructions > 0 {
		p.readSource(ctx, a, client)
	}
	return a.printProfile(p, o)
}

// untilCollected returns a context for a profile that ends early when ctx is done. The returned context lasts until the
// profile so far has arrived, at most endPatience longer.
func (a *app) untilCollected(ctx context.Context) (longer context.Context, end <-chan struct{}, over func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		a.notice("ending the profile")
		select {
		case <-time.After(endPatience):
			cancel()
		case <-longer.Done():
		}
	})
	return longer, ctx.Done(), func() {
		stop()
		cancel()
	}
}

// printProfile prints the profile in the format of --output to --file.
func (a *app) printProfile(p *scriptProfile, o *profileOptions) error {
	if p.Calls == 0 {
		p.noticeNotCalled(a, o)
		if a.output == formatSVG || a.output == formatPprof {
			return fmt.Errorf("%s has no calls to show", p.Script)
		}
	}
	p.noticeOthers(a)
	var out bytes.Buffer
	var err error
	switch a.output {
	case formatSVG:
		err = p.graph().SVG(&out)
	case formatPprof:
		err = p.pprof().Write(&out)
	default:
		to := *a
		to.Out = &out
		err = to.print(p, func(w io.Writer) { p.table(w, o.lines) })
	}
	if err != nil {
		return err
	}
	return a.deliver(o.file, out.Bytes())
}

// deliver writes to the file, or to standard output if there is none.
func (a *app) deliver(file string, data []byte) error {
	if file == "" || file == stdio {
		_, err := a.Out.Write(data)
		return err
	}
	if err := writeFile(file, 0o644, true, data); err != nil {
		return err
	}
	a.notice("%s is written", file)
	return nil
}
