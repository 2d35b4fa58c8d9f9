package scriptctl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (a *app) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "list [TENANT]",
		Aliases:           []string{"ls"},
		Short:             "List the scripts of a tenant, or of all",
		Args:              wantArgs(0, 1, "one tenant at most", "[tenant]"),
		ValidArgsFunction: a.completeTenants,
		RunE: func(cmd *cobra.Command, args []string) error {
			tenant := ""
			if len(args) == 1 {
				tenant = args[0]
				if err := script.ValidateLabel("tenant", tenant); err != nil {
					return usage(err)
				}
			}
			return a.list(cmd.Context(), tenant)
		},
	}
}

func (a *app) list(ctx context.Context, tenant string) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	views := []scriptView{}
	rows := [][]string{{"SCRIPT", "VERSION", "DIGEST", "STATE", "EVENT", "PRIORITY", "CHANGED"}}
	var left unread
	for r, err := range client.List(ctx, tenant) {
		if err != nil {
			u, err := left.take(err)
			if err != nil {
				return err
			}
			v := scriptView{Name: nameIn(u.Key), Revision: u.Revision, Versions: []versionView{}, Unreadable: viewOfUnreadable(u)}
			views, rows = append(views, v), append(rows, []string{plain(v.Name), "-", "-", "unreadable", "-", "-", "-"})
			continue
		}
		v := viewOfRelease(&r)
		views = append(views, v)
		words := state(&r)
		if text := candidateState(&r); text != "" {
			words += ", " + text
		}
		rows = append(rows, []string{
			v.Name, "v" + strconv.FormatUint(v.Version, 10), v.Digest.Short(), words, orDash(v.Event), priorityText(v.Trigger), clock(r.ChangedAt),
		})
	}
	err = a.print(views, func(w io.Writer) {
		if len(views) == 0 {
			a.printNoScripts(tenant)
			return
		}
		columns(w, rows)
	})
	return cmp.Or(err, left.err())
}

// printNoScripts says why a table is empty.
func (a *app) printNoScripts(tenant string) {
	if tenant != "" {
		fmt.Fprintf(a.Err, "tenant %s has no scripts\n", tenant)
		return
	}
	fmt.Fprintln(a.Err, "no scripts yet: publish one with scriptctl publish FILE")
}

func (a *app) getCommand() *cobra.Command {
	var source bool
	cmd := &cobra.Command{
		Use:               "get TENANT/NAME[@VERSION]",
		Short:             "Show a script, or one version of it",
		Example:           "  scriptctl get acme/route\n  scriptctl get acme/route@3 --source > route.lua",
		Args:              wantScript(),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := script.ParseRef(a.withTenant(args[0]))
			if err != nil {
				return usage(err)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			if source || ref.Version != 0 {
				return a.getVersion(cmd.Context(), client, ref, source)
			}
			return a.getScript(cmd.Context(), client, ref.Name)
		},
	}
	cmd.Flags().BoolVar(&source, "source", false, "print the source alone, as it was published")
	return cmd
}

// sourceView is one version with its source.
type sourceView struct {
	Script string `json:"script"`
	versionView
	specView
	Source string `json:"source,omitempty"` // if it is text
	Binary []byte `json:"sourceBase64,omitempty"`
}

func (a *app) getVersion(ctx context.Context, client *registryclient.Client, ref script.Ref, source bool) error {
	e, err := client.Source(ctx, ref)
	if err != nil {
		return about(ref.String(), err)
	}
	v := sourceView{Script: ref.Name.String(), versionView: viewOfVersion(&e.Version), specView: viewOfSpec(e.Spec)}
	if isText(&e) {
		v.Source = string(e.Source)
	} else {
		v.Binary = e.Source
	}
	if source {
		if err := a.forTerminal(&e); err != nil {
			return err
		}
	}
	return a.print(v, func(w io.Writer) {
		if source {
			_, _ = w.Write(e.Source) // as it is, for a file
			return
		}
		columns(w, slices.Concat([][]string{{"script:", v.Script}}, versionRows(&e.Version), v.rows()))
	})
}

// rows say what a version runs with.
func (v *specView) rows() [][]string {
	config := "{}"
	if len(v.Config) > 0 {
		config = strings.TrimSpace(string(v.Config))
	}
	rows := [][]string{{"event:", orDash(v.Event)}}
	if v.Trigger != nil {
		rows = append(rows, []string{"trigger:", v.Trigger.String()})
	}
	if v.OnError != nil {
		rows = append(rows, []string{"on error:", onErrorText(v.OnError)})
	}
	if v.Log != nil {
		rows = append(rows, []string{"decision log:", plain(v.Log.Decisions.String())})
	}
	if v.Artifact != "" {
		rows = append(rows, []string{"artifact:", plain(v.Artifact)})
	}
	if v.Library {
		rows = append(rows, []string{"library:", "yes"})
	}
	if len(v.Libraries) > 0 {
		rows = append(rows, []string{"libraries:", strings.TrimPrefix(withLibraries(v.Libraries), " with ")})
	}
	if v.Personal != nil {
		rows = append(rows, []string{"personal:", v.Personal.String()})
	}
	return append(rows, [][]string{
		{"limits:", limitsText(&v.Limits)},
		{"config:", plain(config)},
		{"tests:", testNames(v.Tests)},
	}...)
}

func versionRows(v *script.Version) [][]string {
	entrypoint := v.Entrypoint
	if entrypoint == "" {
		entrypoint = "the chunk itself"
	}
	rows := [][]string{
		{"version:", "v" + strconv.FormatUint(v.Number, 10)},
		{"digest:", v.Digest.String()},
		{"settings:", orDash(v.Spec.String())},
		{"whole:", orDash(v.Whole().String())},
		{"engine:", plain(v.Engine)},
		{"entrypoint:", plain(entrypoint)},
		{"size:", fmt.Sprintf("%d bytes", v.Size)},
		{"author:", orDash(v.Author)},
		{"note:", orDash(v.Note)},
		{"created:", clock(v.CreatedAt)},
	}
	if by := publisher.SignedBy(v.Signature); len(by) > 0 {
		rows = append(rows, []string{"signed by:", plain(strings.Join(by, ", "))})
	}
	return rows
}

func (a *app) getScript(ctx context.Context, client *registryclient.Client, name script.Name) error {
	r, err := client.Get(ctx, name)
	if err != nil {
		return about(name.String(), err)
	}
	v := viewOfRelease(&r)
	return a.print(v, func(w io.Writer) {
		fmt.Fprintln(w, summary(&r))
		columns(w, slices.Concat([][]string{
			{"revision:", strconv.FormatInt(int64(v.Revision), 10)},
			{"changed:", clock(r.ChangedAt)},
			{"owner:", orDash(v.Owner)},
		}, v.rows(), [][]string{{"rollout:", orDash(stepsText(r.Settings.Rollout))}}, changeSetRows(&r)))
		fmt.Fprintln(w)
		rows := [][]string{{"VERSION", "DIGEST", "SETTINGS", "SIZE", "ENTRYPOINT", "CREATED", ""}}
		for i := len(r.Retained) - 1; i >= 0; i-- {
			version, mark := r.Retained[i], ""
			switch {
			case r.Candidate != nil && version.Number == r.Candidate.Version.Number:
				mark = "candidate"
			case version.Number == r.Active.Number:
				mark = "active"
			}
			rows = append(rows, []string{
				"v" + strconv.FormatUint(version.Number, 10), version.Digest.Short(), orDash(version.Spec.Short()), strconv.Itoa(version.Size),
				orDash(version.Entrypoint), clock(version.CreatedAt), mark,
			})
		}
		columns(w, rows)
	})
}

// changeSetRows say which change set the candidate is part of, and by which plan it comes.
func changeSetRows(r *script.Release) [][]string {
	if r.Candidate == nil || r.Candidate.Set == nil {
		return nil
	}
	return append(viewOfMembership(r).rows(), []string{"its rollout:", orDash(stepsText(*r.Plan()))})
}

func testNames(tests []testView) string {
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = t.Name
	}
	return orDash(strings.Join(names, ", "))
}

func onErrorText(e *onErrorView) string {
	text := e.Policy
	if e.Status != 0 {
		text += fmt.Sprintf(", status %d", e.Status)
	}
	if e.Body != "" {
		text += fmt.Sprintf(", body %.80q", e.Body)
	}
	return text
}

func limitsText(l *limitsView) string {
	text := fmt.Sprintf("%d instructions, %gs, source %d, string %d, result %d bytes, log %d bytes/s",
		l.Instructions, l.TimeoutSeconds, l.SourceBytes, l.StringBytes, l.ResultBytes, l.LogBytes)
	if l.Concurrency > 0 {
		text += fmt.Sprintf(", %d at once", l.Concurrency)
	}
	if l.Coroutines {
		text += ", coroutines"
	}
	return text
}

func (a *app) historyCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "history TENANT/NAME",
		Short:             "Show who changed a script, when and why, newest first",
		Example:           "  scriptctl history acme/route",
		Args:              wantScript(),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.parseName(args[0])
			if err != nil {
				return err
			}
			return a.history(cmd.Context(), name)
		},
	}
}

func (a *app) history(ctx context.Context, name script.Name) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	entries, err := client.History(ctx, name)
	if err != nil {
		return about(name.String(), err)
	}
	if len(entries) == 0 {
		return script.Errorf(script.NotFound, "", "%s has no history: there never was such a script", name)
	}
	views := []historyView{}
	rows := [][]string{{"REVISION", "TIME", "CHANGE", "VERSION", "DIGEST", "SETTINGS", "AUTHOR", "NOTE"}}
	for _, e := range entries {
		views = append(views, historyView{
			Revision: e.Revision, Change: e.Change, Version: e.Version, Digest: e.Digest, Settings: e.Spec,
			Pinned: e.Pinned, Held: e.Held, Candidate: e.Candidate, Author: e.Author, Note: e.Note, Time: timeView(e.Time),
		})
		version := "-"
		if e.Version != 0 {
			version = "v" + strconv.FormatUint(e.Version, 10)
		}
		switch {
		case e.Held:
			version += " held"
		case e.Pinned:
			version += " pinned"
		}
		if e.Candidate != 0 {
			version += fmt.Sprintf(", candidate v%d", e.Candidate)
		}
		rows = append(rows, []string{
			strconv.FormatInt(int64(e.Revision), 10), clock(e.Time), plain(string(e.Change)), version,
			orDash(e.Digest.Short()), orDash(e.Spec.Short()), orDash(e.Author), plain(e.Note),
		})
	}
	return a.print(views, func(w io.Writer) { columns(w, rows) })
}
