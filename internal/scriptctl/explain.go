package scriptctl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/script"
)

const explainLong = `Explain shows each decision about a version on its way to being live: what was decided,
by whom, and why, in order. The last line says what the rollout waits for now.

Without VERSION it explains the candidate, or else the last version that was one. The
history of the script has what it shows.`

func (a *app) rolloutExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "explain TENANT/NAME [VERSION]", Short: "Show why each step of a rollout was taken", Long: explainLong,
		Example: "  scriptctl rollout explain acme/route\n  scriptctl rollout explain acme/route 7",
		Args:    wantArgs(1, 2, "a script, and optionally a version", "tenant/name [7]"), ValidArgsFunction: a.completeNameThenVersions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, version, err := a.nameAndVersion(args)
			if err != nil {
				return err
			}
			return a.explain(cmd.Context(), name, version)
		},
	}
}

// explanationView is what was decided about a version.
type explanationView struct {
	Script    string         `json:"script"`
	Version   uint64         `json:"version"`
	Decisions []decisionView `json:"decisions"`       // in order
	Waits     string         `json:"waits,omitempty"` // what it waits for now
}

type decisionView struct {
	Revision script.Revision `json:"revision"`
	Time     *time.Time      `json:"time,omitempty"`
	Change   script.Change   `json:"change"`
	Active   uint64          `json:"activeVersion"` // then
	Author   string          `json:"author"`
	Why      string          `json:"why,omitempty"`
}

func (a *app) explain(ctx context.Context, name script.Name, version uint64) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	entries, err := client.History(ctx, name)
	if err != nil {
		return about(name.String(), err)
	}
	if version == 0 {
		if version = lastCandidate(entries); version == 0 {
			return script.Errorf(script.NotFound, "candidate", "%s has had no candidate, as far as its history goes back", name)
		}
	}
	v := explanationView{Script: name.String(), Version: version, Decisions: decisions(entries, version)}
	if len(v.Decisions) == 0 {
		return script.Errorf(script.NotFound, "version", "version %d of %s has been no candidate, as far as the history goes back", version, name)
	}
	fleet, err := client.Status(ctx, name)
	if err != nil {
		return about(name.String(), err)
	}
	if len(fleet.Scripts) > 0 {
		s := &fleet.Scripts[0]
		if c := s.Release.Candidate; c != nil && c.Version.Number == version && s.Trials != nil {
			v.Waits = s.Trials.Why
		}
	}
	return a.print(v, func(w io.Writer) {
		rows := [][]string{{"REVISION", "TIME", "CHANGE", "ACTIVE", "AUTHOR", "WHY"}}
		for i := range v.Decisions {
			d := &v.Decisions[i]
			rows = append(rows, []string{
				strconv.FormatInt(int64(d.Revision), 10), clock(orZero(d.Time)), plain(string(d.Change)), fmt.Sprintf("v%d", d.Active), orDash(d.Author), plain(d.Why),
			})
		}
		columns(w, rows)
		if v.Waits != "" {
			fmt.Fprintf(w, "v%d waits: %s\n", version, plain(v.Waits))
		}
	})
}

// lastCandidate returns the version that was a candidate last, by the history, newest first; 0 if
// none was.
func lastCandidate(entries []script.HistoryEntry) uint64 {
	i := slices.IndexFunc(entries, func(e script.HistoryEntry) bool { return e.Candidate != 0 })
	if i < 0 {
		return 0
	}
	return entries[i].Candidate
}

// decisions returns what the history, newest first, says of the version as a candidate, in order.
func decisions(entries []script.HistoryEntry, version uint64) (views []decisionView) {
	for i := range entries {
		e := &entries[i]
		// The line that ends a candidate's way has none any more.
		ends := e.Candidate == 0 && i+1 < len(entries) && entries[i+1].Candidate == version
		if e.Candidate != version && !ends {
			continue
		}
		views = append(views, decisionView{
			Revision: e.Revision, Time: timeView(e.Time), Change: e.Change, Active: e.Version, Author: e.Author, Why: e.Note,
		})
	}
	slices.Reverse(views)
	return views
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
