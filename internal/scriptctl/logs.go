package scriptctl

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// logView is a log line in -o json and -o yaml.
type logView struct {
	Time    time.Time    `json:"time"`
	Agent   string       `json:"agent"`
	Script  string       `json:"script"`
	Version uint64       `json:"version"`
	Level   engine.Level `json:"level"`
	Message string       `json:"message"`
	TraceID string       `json:"traceId,omitempty"`
}

// levels in ascending order.
var levels = []string{string(engine.Info), string(engine.Warn), string(engine.Error)}

// logsOptions are the flags of logs.
type logsOptions struct {
	follow  bool
	length  time.Duration
	since   string
	tail    int
	level   string
	nodes   []string
	version uint64
	grep    string

	matches *regexp.Regexp
	recent  bool // with follow: show recent lines first
}

func (a *app) logsCommand() *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use:   "logs TENANT | TENANT/NAME",
		Short: "Show what scripts logged on the fleet recently, or follow it",
		Long: `Logs shows what a script, or all scripts of a tenant, logged recently on any agent, in the order of
time. Agents keep recent lines in memory: a restart of an agent loses them, and lines of busy scripts
are replaced sooner. Standard error names the agents that did not answer.

With -f, logs shows new lines until Ctrl-C; with --for, for that time. With --since or --tail, it
shows recent lines before.

A line is TIME AGENT LEVEL SCRIPT@VERSION [TRACE] MESSAGE; with -o json an object. Logs
reports missing lines on standard error. Lines are missing if scripts exceed their log
limit, or if a connection fails.`,
		Example: `  scriptctl logs acme/route
  scriptctl logs acme --since 15m --level warn --node 'edge-*' -o json
  scriptctl logs acme/route --version 7 --grep 'timeout|refused' --tail 20
  scriptctl logs -f acme/route --since 5m`,
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
			o.recent = cmd.Flags().Changed("since") || cmd.Flags().Changed("tail")
			if cmd.Flags().Changed("for") {
				if o.length <= 0 {
					return usage(script.Errorf(script.Invalid, "--for", "%v is not above 0", o.length))
				}
				o.follow = true
			}
			if o.follow {
				return a.followLogs(cmd.Context(), of, &o)
			}
			return a.showRecentLogs(cmd.Context(), of, &o, cmd.Flags().Changed("tail"))
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "show new lines until Ctrl-C")
	flags.DurationVar(&o.length, "for", 0, "show new lines for this time, such as 10s")
	flags.StringVar(&o.since, "since", "", "only lines since then: how long ago, such as 15m, or a time, such as 2026-01-31T12:00:00Z (default all that agents keep)")
	flags.IntVar(&o.tail, "tail", defaultTail, "at most this many recent lines, the newest")
	flags.StringVar(&o.level, "level", levels[0], "the least level to show: info, warn or error")
	flags.StringArrayVar(&o.nodes, "node", nil, "only the agent of this name, or of this pattern, such as 'edge-*'; may be repeated")
	flags.Uint64Var(&o.version, "version", 0, "only lines of this version (default all)")
	flags.StringVar(&o.grep, "grep", "", "only lines whose message matches this RE2 expression")
	// Older editions have --agent.
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "agent" {
			name = "node"
		}
		return pflag.NormalizedName(name)
	})
	cmd.MarkFlagsMutuallyExclusive("follow", "for")
	must(cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions(levels, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// Bounds of --tail.
const (
	defaultTail = 1000
	maxTail     = 10_000
)

func (o *logsOptions) validate() error {
	if !slices.Contains(levels, o.level) {
		return script.Errorf(script.Invalid, "--level", "%.80q is no level: want %s", o.level, strings.Join(levels, ", "))
	}
	if err := checkNodes(o.nodes); err != nil {
		return err
	}
	if o.tail < 1 || o.tail > maxTail {
		return script.Errorf(script.Invalid, "--tail", "is %d, want 1 to %d", o.tail, maxTail)
	}
	if _, err := parseSince(o.since, time.Now()); err != nil {
		return err
	}
	var err error
	if o.matches, err = wire.CompileGrep(o.grep); err != nil {
		return script.Errorf(script.Invalid, "--grep", "%s", script.AsError(err).Message)
	}
	return nil
}

// checkNodes returns an error if a value of --node is not a valid pattern.
func checkNodes(nodes []string) error {
	for _, node := range nodes {
		if _, err := path.Match(node, ""); err != nil || node == "" {
			return script.Errorf(script.Invalid, "--node", "%.80q is no pattern: want a name, in which * stands for any characters", node)
		}
	}
	return nil
}

// hasAgent reports whether --node selects the agent.
func (o *logsOptions) hasAgent(agent string) bool {
	return len(o.nodes) == 0 || slices.ContainsFunc(o.nodes, func(node string) bool {
		matches, _ := path.Match(node, agent) // validate has checked the pattern
		return matches
	})
}

// shows reports whether the options select a line of the agent.
func (o *logsOptions) shows(agent string, l *registryclient.LogLine) bool {
	return o.hasAgent(agent) && slices.Index(levels, string(l.Level)) >= slices.Index(levels, o.level) &&
		(o.version == 0 || o.version == l.Version) && o.matches.MatchString(l.Message)
}

// followLogs shows new lines until ctx is done, or --for has passed. After the first connection, it retries while the
// registry is unavailable.
func (a *app) followLogs(ctx context.Context, of script.Name, o *logsOptions) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	if o.length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.length)
		defer cancel()
	}
	r := logsReader{app: a, options: o, what: selectionText(of)}
	if o.recent {
		r.before = func() (registryclient.RecentLogs, error) { return a.recentLogs(ctx, client, of, o) }
	}
	for {
		err := r.read(client.WatchLogs(ctx, of))
		if ctx.Err() != nil {
			return nil // Ctrl-C, or the end of --for
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

// selectionText describes the selected scripts.
func selectionText(of script.Name) string {
	if of.Script == "" {
		return "all scripts of " + of.Tenant
	}
	return of.String()
}

// logsReader prints new lines.
type logsReader struct {
	app      *app
	options  *logsOptions
	what     string
	listened bool // the registry has reported a state
	// before, if not nil, returns the recent lines to print before the first new one.
	before func() (registryclient.RecentLogs, error)
	shown  map[shownLine]bool // printed recent lines: they can arrive again as new lines
}

// shownLine identifies a printed line.
type shownLine struct {
	agent, message string
	at             int64
	of             script.Name
}

func shownOf(agent string, l *registryclient.LogLine) shownLine {
	return shownLine{agent: agent, message: l.Message, at: l.Time.UnixNano(), of: l.Script}
}

func (r *logsReader) read(watch iter.Seq2[registryclient.Logs, error]) error {
	for logs, err := range watch {
		if err != nil {
			return err
		}
		if logs.State != "" {
			r.notifyState(logs.State)
			if err := r.showBefore(logs.State); err != nil {
				return err
			}
			continue
		}
		r.warn(&logs)
		for i := range logs.Lines {
			if !r.options.shows(logs.Agent, &logs.Lines[i]) || r.shown[shownOf(logs.Agent, &logs.Lines[i])] {
				continue
			}
			if err := r.app.printLogLine(logs.Agent, &logs.Lines[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// showBefore prints recent lines when the watch of new lines is active, so that none is missing in between.
func (r *logsReader) showBefore(state registryclient.LogsState) error {
	if r.before == nil || state != registryclient.LogsListening {
		return nil
	}
	found, err := r.before()
	if err != nil {
		return err
	}
	r.before, r.shown = nil, make(map[shownLine]bool, len(found.Lines))
	for i := range found.Lines {
		l := &found.Lines[i]
		r.shown[shownOf(l.Agent, &l.LogLine)] = true
	}
	return r.app.printRecentLogs(&found)
}

// notifyState prints a notice about a new state of the watch.
func (r *logsReader) notifyState(state registryclient.LogsState) {
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

// warn prints a notice about lines that were dropped before these.
func (r *logsReader) warn(logs *registryclient.Logs) {
	switch {
	case logs.Dropped == 0:
	case logs.Agent == "":
		r.app.notice("%d lines were left out: there are more than can be read in time", logs.Dropped)
	case r.options.hasAgent(logs.Agent):
		r.app.notice("%d lines of %s were left out: scripts log more than they may", logs.Dropped, plain(logs.Agent))
	}
}

func (a *app) printLogLine(agent string, l *registryclient.LogLine) error {
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
	at, format := l.Time.Local(), "15:04:05.000"
	if at.Format(time.DateOnly) != time.Now().Format(time.DateOnly) {
		format = "2006-01-02 " + format
	}
	_, err := fmt.Fprintf(a.Out, "%s %s %s %s@%d %s%s\n",
		at.Format(format), plain(agent), level, l.Script, l.Version, trace, plain(oneLine.Replace(l.Message)))
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
