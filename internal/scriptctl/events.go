package scriptctl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// eventView is one event in -o json and -o yaml.
type eventView struct {
	ID       string           `json:"id"`
	Revision script.Revision  `json:"revision"`
	Time     *time.Time       `json:"time,omitempty"`
	Since    *time.Time       `json:"since,omitempty"`
	Type     script.EventType `json:"type"`
	Event    string           `json:"event"`
	Tenant   string           `json:"tenant,omitempty"`
	Script   string           `json:"script,omitempty"` // tenant/name
	Key      string           `json:"key,omitempty"`    // of a value
	Version  uint64           `json:"version,omitempty"`
	// The version that is rolling out, or whose rollout failed.
	Candidate uint64   `json:"candidate,omitempty"`
	ChangeSet string   `json:"changeSet,omitempty"`
	Author    string   `json:"author,omitempty"`
	Count     uint64   `json:"count,omitempty"`
	Subjects  []string `json:"subjects,omitempty"`
	Text      string   `json:"text,omitempty"`
}

// eventsOptions are the flags of events.
type eventsOptions struct {
	tenant string
	types  []string
	since  string
	limit  int
	watch  bool
}

func (a *app) eventsCommand() *cobra.Command {
	var o eventsOptions
	var names []string
	for _, t := range script.EventTypes() {
		names = append(names, string(t))
	}
	cmd := &cobra.Command{
		Use:   "events [TENANT | TENANT/NAME]",
		Short: "Show what happened to a script, a tenant or the fleet, newest last",
		Long: `Events shows one timeline: all writes, with the reasons of rollouts, and what happened to
the fleet. That is for example a lost agent, a drift, a changed key or a met quota. The
newest event is the last.

One event can stand for many things of the same kind, such as 4812 lost agents. It then
has their number, and the names of the first ones.

For a tenant you need the role read on it. Without a tenant, events shows the fleet, and
you need the role read on "*". With --watch it runs until Ctrl-C; with --watch -o json
each line is an object.`,
		Example:           "  scriptctl events acme/route\n  scriptctl events --type agent,drift --since 1h\n  scriptctl events --tenant acme --watch -o json",
		Args:              wantArgs(0, 1, "one tenant or script at most", "[tenant/name]"),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := o.filter(args, time.Now())
			if err != nil {
				return usage(err)
			}
			if o.watch {
				return a.watchEvents(cmd.Context(), f)
			}
			return a.events(cmd.Context(), f, o.since == "")
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.tenant, "tenant", "", "only events of this tenant, as the argument TENANT")
	flags.StringSliceVar(&o.types, "type", nil, "only events of these types: "+strings.Join(names, ", "))
	flags.StringVar(&o.since, "since", "", "how long ago, such as 24h, or a time, such as 2026-01-31T12:00:00Z; \"all\" shows all that are kept (default all of a script, else 168h)")
	flags.IntVar(&o.limit, "limit", 100, "show at most this many of the events so far, the newest; 0 means all")
	flags.BoolVarP(&o.watch, "watch", "w", false, "go on with each event as it happens, until Ctrl-C")
	must(cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// filter returns the filter of the arguments and flags.
func (o *eventsOptions) filter(args []string, now time.Time) (f registryclient.EventFilter, err error) {
	if o.limit < 0 {
		return f, script.Errorf(script.Invalid, "--limit", "%d is less than 0", o.limit)
	}
	f.Limit = o.limit
	switch {
	case len(args) == 1 && o.tenant != "":
		return f, script.Errorf(script.Invalid, "--tenant", "contradicts the argument %.80q: leave one out", args[0])
	case len(args) == 1:
		f.Name, err = parseSelection(args[0])
	case o.tenant != "":
		err = script.ValidateLabel("--tenant", o.tenant)
		f.Name.Tenant = o.tenant
	}
	if err != nil {
		return f, err
	}
	for _, t := range o.types {
		if !slices.Contains(script.EventTypes(), script.EventType(t)) {
			return f, script.Errorf(script.Invalid, "--type", "%.80q is no type of events: see scriptctl events --help", t)
		}
		f.Types = append(f.Types, script.EventType(t))
	}
	switch {
	case o.since == allEvents:
	case o.since != "":
		f.Since, err = parseSince(o.since, now)
	case f.Name.Script == "":
		f.Since = now.Add(-recentEvents)
	}
	return f, err
}

const (
	// allEvents is the value of --since for all stored events.
	allEvents = "all"
	// recentEvents bounds how far back the registry searches for the few events of a quiet tenant.
	recentEvents = 7 * 24 * time.Hour
)

// events prints the events. recent is set if f.Since is the default.
func (a *app) events(ctx context.Context, f registryclient.EventFilter, recent bool) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	var events []script.Event
	for e, err := range client.Events(ctx, f) {
		if err != nil {
			return err
		}
		events = append(events, e)
	}
	slices.Reverse(events)
	views := make([]eventView, len(events))
	for i := range events {
		views[i] = viewOfEvent(&events[i])
	}
	return a.print(views, func(w io.Writer) {
		if recent && !f.Since.IsZero() && len(views) != f.Limit {
			defer fmt.Fprintf(a.Err, "these are the events since %s: --since all shows older ones\n", clock(f.Since))
		}
		if len(views) == 0 {
			fmt.Fprintln(a.Err, "no events on record")
			return
		}
		rows := [][]string{{"TIME", "TYPE", "EVENT", "ON", "BY", "WHAT"}}
		for i := range views {
			rows = append(rows, views[i].row())
		}
		columns(w, rows)
		if len(views) == f.Limit {
			fmt.Fprintf(a.Err, "the newest %d are shown: --limit 0 shows all\n", f.Limit)
		}
	})
}

// watchEvents prints events as they happen until ctx is done. If the registry is unavailable, it retries.
func (a *app) watchEvents(ctx context.Context, f registryclient.EventFilter) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	away := false
	interrupted := func(err error) {
		if !away {
			a.printError(err)
			a.notice("waiting for a registry; no event is left out")
		}
		away = true
	}
	for e, err := range client.FollowEvents(ctx, f, interrupted) {
		if err == nil {
			away = false
			err = a.printEvent(&e)
		}
		if err != nil {
			return err
		}
	}
	return nil // Ctrl-C
}

func (a *app) printEvent(e *script.Event) error {
	v := viewOfEvent(e)
	if a.output != formatTable {
		return a.printEach(a.Out, v)
	}
	row := v.row()
	_, err := fmt.Fprintf(a.Out, "%s  %-8s %-10s %-24s %-16s %s\n", row[0], row[1], row[2], row[3], row[4], row[5])
	return err
}

func viewOfEvent(e *script.Event) eventView {
	v := eventView{
		ID: e.ID, Revision: e.Revision, Time: timeView(e.Time), Since: timeView(e.Since), Type: e.Type, Event: e.What, Tenant: e.Tenant, Key: e.Key,
		Version: e.Version, Candidate: e.Candidate, ChangeSet: e.ChangeSet, Author: e.Author, Count: e.Count, Subjects: e.Subjects, Text: e.Text,
	}
	if e.Script != "" {
		v.Script = script.Name{Tenant: e.Tenant, Script: e.Script}.String()
	}
	return v
}

func (v *eventView) row() []string {
	at, on := "-", v.Tenant
	if v.Time != nil {
		at = clock(*v.Time)
	}
	switch {
	case v.Script != "":
		on = v.Script
	case v.Key != "":
		on = v.Tenant + "/" + v.Key
	case on == "":
		on = "the fleet"
	}
	return []string{at, plain(string(v.Type)), plain(v.Event), plain(on), orDash(v.Author), plain(v.what())}
}

// what returns the column WHAT: details that no other column has.
func (v *eventView) what() string {
	var parts []string
	if v.Version != 0 {
		version := "v" + strconv.FormatUint(v.Version, 10)
		if v.Candidate != 0 {
			version += fmt.Sprintf(", candidate v%d", v.Candidate)
		}
		parts = append(parts, version)
	}
	if v.Count > uint64(len(v.Subjects)) && v.Count > 1 && v.Since != nil && v.Time != nil {
		what := "times"
		if v.Type == script.EventAgent && len(v.Subjects) == script.MaxEventSubjects {
			what = "agents"
		}
		parts = append(parts, fmt.Sprintf("%d %s in %v", v.Count, what, max(time.Second, v.Time.Sub(*v.Since).Round(time.Second))))
	}
	if len(v.Subjects) > 0 && v.Type != script.EventKey { // the text of those events has the subjects
		subjects := strings.Join(v.Subjects, ", ")
		if v.Count > uint64(len(v.Subjects)) && len(v.Subjects) == script.MaxEventSubjects {
			subjects += ", …"
		}
		parts = append(parts, subjects)
	}
	if v.Text != "" {
		parts = append(parts, oneLine.Replace(v.Text))
	}
	return strings.Join(parts, ": ")
}
