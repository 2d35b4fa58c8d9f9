package scriptctl

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (a *app) statusCommand() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "status [TENANT | TENANT/NAME]",
		Short: "Show how far scripts have come on the fleet",
		Long: `Status shows the active version of each script. ACTIVE is the number of agents that
run it, of all agents that follow the tenant. SLOWEST is the slowest agent. The
last columns show the time from the commit until the version was active:

  TOOK    on the last agent
  MEDIAN  on half of the agents
  P99     on 99 of 100 agents

An agent that has not reported for 15 seconds is unknown. One that is connected, but has
activated nothing yet, is starting. "scriptctl agents" shows the agents.

If a script has a candidate, STATUS shows how far it has come. On a terminal, STATUS is
cut to the width. "scriptctl rollout status" shows all of it.

With --watch the command runs until Ctrl-C. On a terminal it updates in place, with a
progress bar while a rollout runs. Otherwise it prints a line for each change; with
-o json, each line is an object.`,
		Args:              wantArgs(0, 1, "one tenant or script at most", "[tenant/name]"),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			var selected script.Name
			if len(args) == 1 {
				var err error
				if selected, err = parseSelection(args[0]); err != nil {
					return usage(err)
				}
			}
			if watch {
				return a.watchStatus(cmd.Context(), selected)
			}
			return a.status(cmd.Context(), selected)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on until Ctrl-C")
	return cmd
}

// parseSelection reads "tenant" or "tenant/name".
func parseSelection(arg string) (script.Name, error) {
	if strings.Contains(arg, "/") {
		return script.ParseName(arg)
	}
	return script.Name{Tenant: arg}, script.ValidateLabel("tenant", arg)
}

func (a *app) status(ctx context.Context, selected script.Name) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	fleet, err := client.Status(ctx, selected)
	if err != nil {
		return err
	}
	dropGone(&fleet)
	if selected.Script != "" && len(fleet.Scripts) == 0 {
		return script.Errorf(script.NotFound, "", "there is no script %s", selected)
	}
	return a.print(viewOfFleet(&fleet), func(w io.Writer) {
		if fleet.Freeze != nil {
			fmt.Fprintln(w, frozenText(fleet.Freeze))
		}
		if len(fleet.Scripts) == 0 {
			a.printNoScripts(selected.Tenant)
		} else {
			rows := statusRows(&fleet, false)
			if a.OutTerminal {
				width, _ := a.Size()
				narrow(rows, statusColumn, width)
				fit(rows, statusColumn, width)
			}
			columns(w, rows)
		}
		for i := range fleet.Unreadable {
			a.warn(fleet.Unreadable[i].Error())
		}
	})
}

// dropGone leaves out the scripts that were deleted and that no connected agent
// runs any more.
func dropGone(fleet *registryclient.FleetStatus) {
	fleet.Scripts = slices.DeleteFunc(fleet.Scripts, func(s registryclient.ScriptStatus) bool {
		return s.Release.Deleted && s.Waiting() == 0 && s.Unreadable == nil
	})
}

// watchStatus prints the status until ctx ends. A registry that goes away is
// waited for.
func (a *app) watchStatus(ctx context.Context, selected script.Name) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	show := a.statusShow()
	for fleet, err := range client.FollowStatus(ctx, selected, a.printError) {
		if ctx.Err() != nil {
			return nil // an interrupt is how a watch is meant to end
		}
		if err != nil {
			return err
		}
		dropGone(&fleet)
		if err := show(&fleet); err != nil {
			return err
		}
	}
	return nil
}

// statusShow returns what shows each status in turn.
func (a *app) statusShow() func(*registryclient.FleetStatus) error {
	switch {
	case a.output != formatTable:
		return func(fleet *registryclient.FleetStatus) error { return a.printEach(a.Out, viewOfFleet(fleet)) }
	case a.OutTerminal:
		c := &canvas{out: a.Out, size: a.Size}
		var scripts grid
		return func(fleet *registryclient.FleetStatus) error {
			rows := statusRows(fleet, true)
			width, _ := a.Size()
			fit(rows, statusColumn, width)
			var top []string
			if fleet.Freeze != nil {
				top = append(top, frozenText(fleet.Freeze))
			}
			c.draw(slices.Concat(top, scripts.lines(rows), failureLines(fleet)))
			return nil
		}
	}
	last := make(map[string]string)
	return func(fleet *registryclient.FleetStatus) error { return a.printChanges(fleet, last) }
}

// printChanges prints a line for each script that is not what last says.
func (a *app) printChanges(fleet *registryclient.FleetStatus, last map[string]string) error {
	now := make(map[string]string, len(last))
	var order []string
	add := func(key, line string) {
		now[key] = line
		order = append(order, key)
	}
	if fleet.Freeze != nil {
		add("the freeze", frozenText(fleet.Freeze))
	}
	for i := range fleet.Scripts {
		s := &fleet.Scripts[i]
		line := progressLine(s)
		if s.Failed > 0 {
			line += " (" + failureList(s) + ")"
		}
		if s.Unreadable != nil {
			line += " (the registry cannot read its record)"
		}
		add(s.Release.Name.String(), line)
	}
	var lines []string
	for _, key := range order {
		if last[key] != now[key] {
			lines = append(lines, now[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		if _, ok := now[key]; !ok {
			lines = append(lines, plain(key)+" is gone")
		}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(a.Out, line); err != nil {
			return err
		}
	}
	clear(last)
	maps.Copy(last, now)
	return nil
}

// failureLines says for each script why agents could not activate it.
func failureLines(fleet *registryclient.FleetStatus) []string {
	var lines []string
	for i := range fleet.Scripts {
		if s := &fleet.Scripts[i]; s.Failed > 0 {
			lines = append(lines, fmt.Sprintf("%s: %s", s.Release.Name, failureList(s)))
		}
	}
	for i := range fleet.Unreadable {
		lines = append(lines, plain(fleet.Unreadable[i].Error()))
	}
	return lines
}

// statusColumn is the column of statusRows that may hold a reason of any length.
const statusColumn = 4

// statusRows is the table of scripts; with bars for those on their way, it keeps
// room for what the cells may come to hold, and leaves the reasons of failures to
// failureLines.
func statusRows(fleet *registryclient.FleetStatus, bars bool) [][]string {
	rows := [][]string{{"SCRIPT", "VERSION", "DIGEST", "ACTIVE", "STATUS", "SLOWEST", "TOOK"}}
	if bars {
		rows[0][statusColumn] = pad(rows[0][statusColumn], barWidth)
	} else {
		rows[0] = append(rows[0], "MEDIAN", "P99")
	}
	for i := range fleet.Scripts {
		s := &fleet.Scripts[i]
		r := &s.Release
		version := "v" + strconv.FormatUint(r.Active.Number, 10)
		switch {
		case r.Deleted && s.Unreadable != nil:
			version = "-"
		case r.Deleted:
			version = "deleted"
		case r.Pinned:
			version += " " + pinWord(r)
		}
		phase, took := phaseOf(s), "-"
		if bars && phase == rollingOut {
			phase = bar(s)
		}
		words := notes(s, !bars)
		if phase != "" {
			words = append([]string{phase}, words...)
		}
		if s.Took > 0 {
			took = milliseconds(s.Took)
		}
		row := []string{
			r.Name.String(), version, r.Active.Digest.Short(), fmt.Sprintf("%d/%d", s.Active, s.Desired), strings.Join(words, ", "), orDash(s.SlowestAgent), took,
		}
		switch {
		case bars:
		case s.Rollout != nil:
			row = append(row, milliseconds(s.Rollout.Median), milliseconds(s.Rollout.P99))
		default:
			row = append(row, "-", "-")
		}
		rows = append(rows, row)
	}
	return rows
}

// rollingOut is the phase of a release that agents have yet to activate. It is
// as wide as its bar.
const rollingOut = "rolling out"

// phaseOf says in words where a release is; "" when only failures are left.
func phaseOf(s *registryclient.ScriptStatus) string {
	switch {
	case s.Unreadable != nil:
		return "unreadable"
	case s.Release.Candidate != nil:
		return candidateText(&s.Release) + trialsText(s)
	case s.Desired == 0:
		return "no agents"
	case s.Converged:
		return "converged"
	case s.Waiting() == 0:
		return ""
	case s.Active > 0 && (s.Rollout != nil || s.Waiting() <= s.Starting):
		return "active" // it is not its own doing that an agent lacks it
	}
	return rollingOut
}

// lacking says in words how many agents have yet to activate what others run; "" if none.
func lacking(s *registryclient.ScriptStatus) string {
	behind := s.Waiting() - s.Lagging
	switch {
	case behind <= 0 || s.Converged || s.Release.Candidate != nil || phaseOf(s) == rollingOut:
		return ""
	case behind <= s.Starting:
		return fmt.Sprintf("%d starting", behind)
	}
	return fmt.Sprintf("%d behind", behind)
}

// notes says in words what there is to know of a release besides its phase, with
// the reasons of failures if asked for.
func notes(s *registryclient.ScriptStatus, reasons bool) []string {
	var words []string
	if word := lacking(s); word != "" {
		words = append(words, word)
	}
	if s.Lagging > 0 {
		words = append(words, fmt.Sprintf("%d lagging", s.Lagging))
	}
	failed := s.Failed
	if s.Trials != nil { // the phase says what became of the candidate's tests
		failed -= s.Trials.Failed
	}
	if failed > 0 {
		word := fmt.Sprintf("%d failed", failed)
		if reasons {
			word += ": " + failureList(s)
		}
		words = append(words, word)
	}
	if s.Unknown > 0 {
		words = append(words, fmt.Sprintf("%d unknown", s.Unknown))
	}
	if !s.Release.Enabled && !s.Release.Deleted {
		words = append(words, "disabled")
	}
	return words
}

func pad(s string, width int) string { return fmt.Sprintf("%-*s", width, s) }
