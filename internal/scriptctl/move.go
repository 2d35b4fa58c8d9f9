package scriptctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/archive"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// stdio is the file that stands for standard input and output.
const stdio = "-"

// exportedView says what is in an archive.
type exportedView struct {
	File       string          `json:"file"`
	Fleet      string          `json:"fleet"`
	Revision   script.Revision `json:"headRevision"`
	ExportedAt time.Time       `json:"exportedAt"`
	Tenant     string          `json:"tenant,omitempty"`
	Scripts    int             `json:"scripts"`
	Sources    int             `json:"sources"`
	Values     int             `json:"values"`
	Tenants    int             `json:"tenants"` // whose settings there are
	// What the archive lacks, since the registry cannot read it.
	Unreadable []*unreadableView `json:"unreadable,omitempty"`
}

func viewOfArchive(file string, s archive.Summary) exportedView {
	return exportedView{
		File: file, Fleet: s.Fleet, Revision: s.Head, ExportedAt: s.ExportedAt, Tenant: s.Tenant,
		Scripts: s.Scripts, Sources: s.Sources, Values: s.Values, Tenants: s.Tenants,
	}
}

func (a *app) exportCommand() *cobra.Command {
	var tenant, file string
	cmd := &cobra.Command{
		Use:   "export -f FILE",
		Short: "Write all scripts of a registry, or of a tenant, to an archive",
		Long: `Export writes a backup of the registry at one revision: an archive that "scriptctl import"
reads. It contains all scripts with every retained version, pin and history, and the kv
data and settings of the tenants. It also contains the highest version numbers of deleted
scripts, so that no number is used again. Export requires the role admin.

Export leaves out what the registry cannot read, names it, and ends with exit code 8.

The archive is a tar file. Export replaces an existing file only when the archive is
complete. With - it writes to standard output.`,
		Example: "  scriptctl export -f registry.tar\n  scriptctl export --tenant acme -f - | gzip > acme.tar.gz",
		Args:    wantArgs(0, 0, "no arguments", "-f FILE"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if tenant != "" {
				if err := script.ValidateLabel("tenant", tenant); err != nil {
					return usage(err)
				}
			}
			return a.export(cmd.Context(), tenant, file)
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "what is of this tenant alone")
	must(cmd.RegisterFlagCompletionFunc("tenant", a.completeTenants))
	addArchive(cmd, &file, "where the archive goes, or - for standard output")
	return cmd
}

func addArchive(cmd *cobra.Command, file *string, usage string) {
	cmd.Flags().StringVarP(file, "file", "f", "", usage)
	must(cmd.MarkFlagRequired("file"))
	must(cmd.MarkFlagFilename("file", "tar"))
}

func (a *app) export(ctx context.Context, tenant, file string) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	var left unread
	items := a.shown("exported", left.without(client.Export(ctx, tenant)))
	if file == stdio {
		if a.OutTerminal {
			return usage(script.Errorf(script.Invalid, "--file", "standard output is a terminal, which an archive does not belong on"))
		}
		s, err := writeArchive(a.Out, items)
		if err != nil {
			return err
		}
		a.notice("%s", exportedLine(s, "standard output"))
		return left.err()
	}
	f, err := newFile(file, privateMode)
	if err != nil {
		return err
	}
	s, err := writeArchive(f, items)
	if err != nil {
		f.discard()
		return err
	}
	if err := f.keep(true); err != nil {
		return err
	}
	v := viewOfArchive(file, s)
	for _, u := range left.list {
		v.Unreadable = append(v.Unreadable, viewOfUnreadable(u))
	}
	err = a.print(v, func(w io.Writer) { fmt.Fprintln(w, exportedLine(s, file)) })
	return cmp.Or(err, left.err())
}

// without yields the items, and remembers what is left out of them.
func (u *unread) without(items iter.Seq2[archive.Item, error]) iter.Seq2[archive.Item, error] {
	return func(yield func(archive.Item, error) bool) {
		for item, err := range items {
			if err != nil {
				if _, err = u.take(err); err == nil {
					continue
				}
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

func exportedLine(s archive.Summary, to string) string {
	what := fmt.Sprintf("%s with %s", count(s.Scripts, "script"), count(s.Sources, "source"))
	if s.Values > 0 || s.Tenants > 0 {
		what += fmt.Sprintf(", %s and the settings of %s", count(s.Values, "value"), count(s.Tenants, "tenant"))
	}
	return fmt.Sprintf("%s exported to %s, as of revision %d", what, to, s.Head)
}

func writeArchive(out io.Writer, items iter.Seq2[archive.Item, error]) (archive.Summary, error) {
	w := archive.NewWriter(out)
	for item, err := range items {
		if err != nil {
			return archive.Summary{}, err
		}
		if err := w.Add(item); err != nil {
			return archive.Summary{}, err
		}
	}
	return w.Summary(), w.Close()
}

// shown counts the scripts that pass, on a terminal.
func (a *app) shown(verb string, items iter.Seq2[archive.Item, error]) iter.Seq2[archive.Item, error] {
	if !a.ErrTerminal {
		return items
	}
	return func(yield func(archive.Item, error) bool) {
		c := &canvas{out: a.Err, size: a.Size}
		defer c.clear()
		scripts, drawn := 0, time.Time{}
		for item, err := range items {
			if item.Script != nil {
				scripts++
			}
			if now := time.Now(); now.Sub(drawn) > 100*time.Millisecond {
				drawn = now
				c.draw([]string{count(scripts, "script") + " " + verb + " …"})
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// importedView says what became of the scripts of an archive.
type importedView struct {
	exportedView
	DryRun    bool `json:"dryRun"`
	Created   int  `json:"created"`
	Unchanged int  `json:"unchanged"`
	Replaced  int  `json:"replaced"`
	// What was stored besides, and was not so already.
	StoredValues  int `json:"storedValues"`
	StoredTenants int `json:"storedTenants"`
}

type importOptions struct {
	file      string
	note      string
	overwrite bool
	dryRun    bool
}

func (a *app) importCommand() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import -f FILE",
		Short: "Store the scripts of an archive in a registry",
		Long: `Import restores an archive that "scriptctl export" wrote: the scripts with their version
numbers, pins and histories, and the kv data and settings of the tenants. It requires
the role admin.

Import checks the whole archive first, and stores nothing from a truncated or altered
one. Then it stores each script separately. It skips a script that is already there and
equal. A script that differs ends the import; with --overwrite, import replaces it and
its history. Scripts that import stored before an error stay: run it again to continue.`,
		Example: "  scriptctl import -f registry.tar --dry-run\n  gunzip < acme.tar.gz | scriptctl import -f - --registry registry-2.internal:7070",
		Args:    wantArgs(0, 0, "no arguments", "-f FILE"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.importArchive(cmd.Context(), &o)
		},
	}
	addArchive(cmd, &o.file, "the archive, or - for standard input")
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "replace scripts that differ, and allow version numbers of deleted scripts again")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "let the registry check everything and store nothing")
	cmd.Flags().StringVar(&o.note, "note", "", "why, for the scripts' histories")
	cmd.AddCommand(a.importArgoCDCommand(), a.importKruiseCommand(), a.importKarmadaCommand(), a.importRedisCommand())
	return cmd
}

func (a *app) importArchive(ctx context.Context, o *importOptions) error {
	write, err := a.write(o.note)
	if err != nil {
		return err
	}
	f, err := a.openArchive(o.file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was read alone
	summary, err := archive.Verify(f)
	if err != nil {
		return usage(fmt.Errorf("%s: %w; nothing was imported", o.file, err))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	imported, err := client.Import(ctx, registryclient.ImportOptions{
		Author: write.Author, Note: write.Note, Overwrite: o.overwrite, DryRun: o.dryRun,
	}, a.shown("imported", archive.Read(f)))
	if err != nil {
		return importError(err, o)
	}
	v := importedView{
		exportedView: viewOfArchive(o.file, summary), DryRun: o.dryRun,
		Created: imported.Created, Unchanged: imported.Unchanged, Replaced: imported.Replaced,
		StoredValues: imported.Values, StoredTenants: imported.Tenants,
	}
	return a.print(v, func(w io.Writer) { fmt.Fprintln(w, v) })
}

// openArchive returns the file. Of standard input it makes one, since it is read
// twice.
func (a *app) openArchive(file string) (*os.File, error) {
	if file != stdio {
		f, err := os.Open(file)
		if err != nil {
			return nil, usage(err)
		}
		return f, nil
	}
	f, err := os.CreateTemp("", "scriptctl-import-*.tar")
	if err != nil {
		return nil, fmt.Errorf("standard input has to be kept in a file until it is checked: %w", err)
	}
	err = os.Remove(f.Name()) // it goes when it is closed
	if err == nil {
		_, err = io.Copy(f, a.In)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("standard input: %w", err), f.Close())
	}
	return f, nil
}

// importError says what to do about err, of which the registry knows why alone.
func importError(err error, o *importOptions) error {
	switch {
	case script.KindOf(err) == script.Conflict && !o.overwrite:
		return fmt.Errorf("%w; scripts before it stay imported", err)
	case exitCode(err) == exitUnreachable:
		return fmt.Errorf("%w; import again: what was stored is left alone", err)
	}
	return err
}

func (v importedView) String() string {
	file := v.File
	if file == stdio {
		file = "standard input"
	}
	head := "imported from " + file
	if v.DryRun {
		head = "nothing was stored; of " + file + " would be"
	}
	line := fmt.Sprintf("%s: %s created, %d unchanged, %d replaced", head, count(v.Created, "script"), v.Unchanged, v.Replaced)
	if v.Values > 0 || v.Tenants > 0 {
		line += fmt.Sprintf("; %s and the settings of %s stored", count(v.StoredValues, "value"), count(v.StoredTenants, "tenant"))
	}
	return line
}

// count says how many: "1 script", "2 scripts".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
