package scriptctl

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// auditView is one write on record.
type auditView struct {
	Revision script.Revision `json:"revision"`
	Time     *time.Time      `json:"time,omitempty"`
	Tenant   string          `json:"tenant"`
	Script   string          `json:"script"`        // tenant/name; "" where none was written
	Key      string          `json:"key,omitempty"` // of a value, where one was written
	Change   script.Change   `json:"change"`
	Version  uint64          `json:"version"`
	Digest   script.Digest   `json:"digest"`
	// The version on its way to being active, or given up on the way.
	Candidate       uint64        `json:"candidate,omitempty"`
	CandidateDigest script.Digest `json:"candidateDigest,omitzero"`
	ChangeSet       string        `json:"changeSet,omitempty"`

	Author   string `json:"author"`
	Identity string `json:"identity"`
	Peer     string `json:"peer"`
	Owner    string `json:"owner,omitempty"`
	Forced   bool   `json:"forced"`
	Note     string `json:"note,omitempty"`
}

func (a *app) auditCommand() *cobra.Command {
	var since string
	var limit int
	cmd := &cobra.Command{
		Use:   "audit [TENANT | TENANT/NAME]",
		Short: "Show who wrote what to the registry, newest first",
		Long: `Audit shows the writes that the registry has on record, of deleted scripts too, newest
first. SCRIPT is the key where kv data was written (put, remove), and the tenant where
its settings were (settenant). AUTHOR is who the writer said to be, IDENTITY who the registry found it to be
by its certificate, token or user, and FROM where it came from. It also has who ran a script
that is not published on an agent (try), and took a profile of an agent (profile). It needs the
role admin.`,
		Example:           "  scriptctl audit --since 24h\n  scriptctl audit acme/route --since 2026-01-31T12:00:00Z -o json",
		Args:              wantArgs(0, 1, "one tenant or script at most", "[tenant/name]"),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			f := registryclient.AuditFilter{Limit: limit}
			if limit < 0 {
				return usage(script.Errorf(script.Invalid, "--limit", "%d is less than 0", limit))
			}
			var err error
			if len(args) == 1 {
				if f.Name, err = parseSelection(args[0]); err != nil {
					return usage(err)
				}
			}
			if f.Since, err = parseSince(since, time.Now()); err != nil {
				return usage(err)
			}
			return a.audit(cmd.Context(), f)
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "how long ago, such as 24h, or a time, such as 2026-01-31T12:00:00Z (default all that are kept)")
	cmd.Flags().IntVar(&limit, "limit", 100, "show at most this many; 0 means all")
	return cmd
}

// parseSince reads the flag --since; the zero time is of no flag.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return parseMoment("--since", text, now)
}

// parseMoment reads the flag's moment, or how long before now it was.
func parseMoment(flag, text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, script.Errorf(script.Invalid, flag, "%.80q is neither how long ago, such as 24h, nor a time, such as 2026-01-31T12:00:00Z", text)
	}
	return at, nil
}

func (a *app) audit(ctx context.Context, f registryclient.AuditFilter) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	views := []auditView{}
	for e, err := range client.Audit(ctx, f) {
		if err != nil {
			return err
		}
		view := auditView{
			Revision: e.Revision, Time: timeView(e.Time), Tenant: e.Name.Tenant, Key: e.Key, Change: e.Change, Version: e.Version, Digest: e.Digest,
			Candidate: e.Candidate, CandidateDigest: e.CandidateDigest, ChangeSet: e.ChangeSet, Author: e.Author, Identity: e.Identity, Peer: e.Peer, Owner: e.Owner, Forced: e.Forced, Note: e.Note,
		}
		if e.Name.Script != "" {
			view.Script = e.Name.String()
		}
		views = append(views, view)
	}
	return a.print(views, func(w io.Writer) {
		if len(views) == 0 {
			fmt.Fprintln(a.Err, "no writes on record")
			return
		}
		rows := [][]string{{"REVISION", "TIME", "SCRIPT", "CHANGE", "VERSION", "AUTHOR", "IDENTITY", "FROM", "NOTE"}}
		for i := range views {
			rows = append(rows, views[i].row())
		}
		columns(w, rows)
		if len(views) == f.Limit {
			fmt.Fprintf(a.Err, "the newest %d are shown: --limit 0 shows all\n", f.Limit)
		}
	})
}

func (v *auditView) row() []string {
	version, change := "-", plain(string(v.Change))
	if v.Version != 0 {
		version = "v" + strconv.FormatUint(v.Version, 10)
	}
	if v.Candidate != 0 {
		version += fmt.Sprintf(", candidate v%d", v.Candidate)
	}
	if v.Forced {
		change += " (forced)"
	}
	at := "-"
	if v.Time != nil {
		at = clock(*v.Time)
	}
	what := v.Script
	switch {
	case v.Key != "":
		what = v.Tenant + "/" + v.Key
	case what == "": // the tenant's settings
		what = v.Tenant
	}
	return []string{
		strconv.FormatInt(int64(v.Revision), 10), at, plain(what), change, version,
		orDash(v.Author), orDash(v.Identity), orDash(v.Peer), plain(v.Note),
	}
}
