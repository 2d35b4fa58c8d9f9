package scriptctl

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/script"
)

// valueLineView is a line of a key's history in -o json and -o yaml: see the views.
type valueLineView struct {
	Revision script.Revision `json:"revision"`
	Change   script.Change   `json:"change"`
	Version  uint64          `json:"version"` // 0 after a delete
	Digest   script.Digest   `json:"digest"`
	Size     int             `json:"size"` // bytes
	Author   string          `json:"author"`
	Note     string          `json:"note,omitempty"`
	Time     *time.Time      `json:"time,omitempty"`
}

// valueVersionText returns "v3"; "-" for 0.
func valueVersionText(version uint64) string {
	if version == 0 {
		return "-"
	}
	return "v" + strconv.FormatUint(version, 10)
}

func (a *app) kvHistoryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "history TENANT/KEY",
		Short: "Show who changed a key, when and why, newest first",
		Long: `History shows the last 10 changes of a key, also of a deleted one, as long as the registry
keeps what is left of it: one day. The registry keeps the contents of the versions that it
shows: "kv get TENANT/KEY@VERSION" prints one, and "kv rollback" returns to it.

A tenant that stores much has shorter histories: all together may take as much as its
values may.`,
		Example:           "  scriptctl kv history acme/routes.json",
		Args:              wantArgs(1, 1, "a key", "tenant/key"),
		ValidArgsFunction: a.completeKeys(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := a.parseKey(args[0])
			if err != nil {
				return err
			}
			return a.kvHistory(cmd.Context(), key)
		},
	}
}

func (a *app) kvHistory(ctx context.Context, key script.ValueKey) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	history, err := client.ValueHistory(ctx, key)
	if err != nil {
		return about(key.String(), err)
	}
	views := []valueLineView{}
	rows := [][]string{{"REVISION", "TIME", "CHANGE", "VERSION", "DIGEST", "SIZE", "AUTHOR", "NOTE"}}
	for _, l := range history.Lines {
		views = append(views, valueLineView{
			Revision: l.Revision, Change: l.Change, Version: l.Version, Digest: l.Digest, Size: l.Size, Author: l.Author, Note: l.Note, Time: timeView(l.Time),
		})
		size := "-"
		if l.Version != 0 {
			size = byteSize(int64(l.Size))
		}
		rows = append(rows, []string{
			strconv.FormatInt(int64(l.Revision), 10), clock(l.Time), plain(string(l.Change)), valueVersionText(l.Version),
			orDash(l.Digest.Short()), size, orDash(l.Author), plain(l.Note),
		})
	}
	return a.print(views, func(w io.Writer) { columns(w, rows) })
}

const kvRollbackLong = `Rollback makes the content of an older version the value again, at once on all agents, and
gives the key that version's number again. The next put makes a new number.

Without VERSION it selects the version before the present one. Of a deleted key it selects the
one that was deleted. "kv history" shows the versions that the registry keeps.`

func (a *app) kvRollbackCommand() *cobra.Command {
	var f valueFlags
	cmd := &cobra.Command{
		Use:               "rollback TENANT/KEY [VERSION]",
		Short:             "Return to an older version of a key, by default the one before",
		Long:              kvRollbackLong,
		Example:           "  scriptctl kv rollback acme/routes.json --note \"carts were lost\"\n  scriptctl kv rollback acme/routes.json 7",
		Args:              wantArgs(1, 2, "a key, and a version if it is not the one before", "tenant/key [7]"),
		ValidArgsFunction: a.completeKeys(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := a.parseKey(args[0])
			if err != nil {
				return err
			}
			version := uint64(0)
			if len(args) == 2 {
				if version, err = parseVersion(args[1]); err != nil {
					return err
				}
			}
			return a.kvRollback(cmd.Context(), key, version, &f)
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) kvRollback(ctx context.Context, key script.ValueKey, version uint64, f *valueFlags) error {
	write, err := a.valueWrite(f)
	if err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	value, changed, err := client.RollbackValue(ctx, key, version, write)
	if err != nil {
		return about(key.String(), err)
	}
	return a.printPut(&value, changed)
}
