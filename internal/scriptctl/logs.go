package scriptctl

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// logView is a line in -o json and -o yaml: see the views.
type logView struct {
	Time    time.Time    `json:"time"`
	Agent   string       `json:"agent"`
	Script  string       `json:"script"`
	Version uint64       `json:"version"`
	Level   engine.Level `json:"level"`
	Message string       `json:"message"`
	TraceID string       `json:"traceId,omitempty"`
}

// levels, the least first.
var levels = []string{string(engine.Info), string(engine.Warn), string(engine.Error)}

// logsOptions are the flags of logs.
type logsOptions struct {
	follow bool
	length time.Duration
	level  string
	agent  string
}

func (a *app) logsCommand() *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use:   "logs TENANT | TENANT/NAME",
		Short: "Read along with what scripts log on the fleet",
		Long: `Logs streams what a script, or all scripts of a tenant, log on any agent. Nothing is
stored, so it shows only lines from now on. With -f it continues until Ctrl-C; without,
for the time of --for.

A line is TIME AGENT LEVEL SCRIPT@VERSION [TRACE] MESSAGE; with -o json an object. Logs
reports missing lines on standard error. Lines are missing if scripts exceed their log
limit, or if a connection fails.`,
		Example:           "  scriptctl logs -f acme/route\n  scriptctl logs -f acme --level warn --agent 'edge-*' -o json",
		Args:              wantArgs(1, 1, "a tenant or a script", "tenant/name"),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := parseSelection(args[0])
			if err != nil {
				return usage(err)
			}
			if err := o.validate(); err != nil {
				return usage(err)
			}
			if !o.follow && !cmd.Flags().Changed("for") {
				a.notice("logs are not stored: this shows what comes in the next %v; -f goes on until Ctrl-C", o.length)
			}
			return a.logs(cmd.Context(), of, &o)
		},
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on until Ctrl-C")
	cmd.Flags().DurationVar(&o.length, "for", 10*time.Second, "how long to read along")
	cmd.Flags().StringVar(&o.level, "level", levels[0], "the least level to show: info, warn or error")
	cmd.Flags().StringVar(&o.agent, "agent", "*", "only agents whose names match, such as 'edge-*'")
	cmd.MarkFlagsMutuallyExclusive("follow", "for")
	must(cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions(levels, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

func (o *logsOptions) validate() error {
	if !slices.Contains(levels, o.level) {
		return script.Errorf(script.Invalid, "--level", "%.80q is no level: want %s", o.level, strings.Join(levels, ", "))
	}
	if _, err := path.Match(o.agent, ""); err != nil {
		return script.Errorf(script.Invalid, "--agent", "%.80q is no pattern: want a name, in which * stands for any characters", o.agent)
	}
	if o.length <= 0 {
		return script.Errorf(script.Invalid, "--for", "%v is not above 0", o.length)
	}
	return nil
}

// shows reports whether a line of the agent is asked for.
func (o *logsOptions) shows(agent string, l *registryclient.LogLine) bool {
	matches, _ := path.Match(o.agent, agent) // validate has seen the pattern
	return matches && slices.Index(levels, string(l.Level)) >= slices.Index(levels, o.level)
}

// logs reads along until ctx ends, or the time is up. A registry that goes away is
// waited for.
func (a *app) logs(ctx context.Context, of script.Name, o *logsOptions) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	if !o.follow {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.length)
		defer cancel()
	}
	what := of.String()
	if of.Script == "" {
		what = "all scripts of " + of.Tenant
	}
	r := logsReader{app: a, options: o, what: what}
	for {
		err := r.read(client.WatchLogs(ctx, of))
		if ctx.Err() != nil {
			return nil // interrupted or out of time, as it is meant to end
		}
		// If no registry has answered yet, the command ends with the error.
		if !r.listened || script.KindOf(err) != script.Unavailable {
			return err
		}
		a.printError(err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// logsReader prints what comes.
type logsReader struct {
	app      *app
	options  *logsOptions
	what     string
	listened bool // ever
}

func (r *logsReader) read(watch iter.Seq2[registryclient.Logs, error]) error {
	for logs, err := range watch {
		if err != nil {
			return err
		}
		if logs.State != "" {
			r.tell(logs.State)
			continue
		}
		r.warn(&logs)
		for i := range logs.Lines {
			if !r.options.shows(logs.Agent, &logs.Lines[i]) {
				continue
			}
			if err := r.print(logs.Agent, &logs.Lines[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *logsReader) tell(state registryclient.LogsState) {
	switch {
	case state == registryclient.LogsInterrupted:
		r.app.notice("the registry has no connection to NATS: lines are missing until it is back")
	case r.listened:
		r.app.notice("listening again")
	default:
		r.app.notice("listening to %s", r.what)
	}
	r.listened = true
}

// warn says which lines are missing before those that come.
func (r *logsReader) warn(logs *registryclient.Logs) {
	matches, _ := path.Match(r.options.agent, logs.Agent)
	switch {
	case logs.Dropped == 0:
	case logs.Agent == "":
		r.app.notice("%d lines were left out: there are more than can be read in time", logs.Dropped)
	case matches:
		r.app.notice("%d lines of %s were left out: scripts log more than they may", logs.Dropped, plain(logs.Agent))
	}
}

func (r *logsReader) print(agent string, l *registryclient.LogLine) error {
	a := r.app
	if a.output != formatTable {
		return a.printEach(a.Out, logView{
			Time: l.Time, Agent: agent, Script: l.Script.String(), Version: l.Version, Level: l.Level, Message: l.Message, TraceID: l.TraceID,
		})
	}
	level := fmt.Sprintf("%-5s", strings.ToUpper(plain(string(l.Level))))
	if colour := levelColour(l.Level); colour != "" && a.OutTerminal && os.Getenv("NO_COLOR") == "" {
		level = colour + level + "\x1b[0m"
	}
	trace := ""
	if l.TraceID != "" {
		trace = "[" + plain(l.TraceID) + "] "
	}
	_, err := fmt.Fprintf(a.Out, "%s %s %s %s@%d %s%s\n",
		l.Time.Local().Format("15:04:05.000"), plain(agent), level, l.Script, l.Version, trace, plain(oneLine.Replace(l.Message)))
	return err
}

// oneLine keeps a message on its line.
var oneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`)

func levelColour(level engine.Level) string {
	switch level {
	case engine.Warn:
		return "\x1b[33m"
	case engine.Error:
		return "\x1b[31m"
	}
	return ""
}
