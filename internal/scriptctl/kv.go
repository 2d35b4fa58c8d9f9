package scriptctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// valueView is a value in -o json and -o yaml: see the views.
type valueView struct {
	Tenant    string          `json:"tenant"`
	Key       string          `json:"key"`
	Version   uint64          `json:"version,omitempty"` // absent of a deleted key, and from a registry that keeps none
	Revision  script.Revision `json:"revision"`
	Digest    script.Digest   `json:"digest"`
	Size      int             `json:"size"` // bytes
	Deleted   bool            `json:"deleted"`
	Author    string          `json:"author,omitempty"`
	ChangedAt *time.Time      `json:"changedAt,omitempty"`
}

// contentView is a value with its content: as text if it is such, else as base64.
type contentView struct {
	valueView
	Text   *string `json:"text,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
}

// putView is a value after a change.
type putView struct {
	valueView
	Changed bool `json:"changed"`
}

// valuesView is a list of values, and how much all of the tenant's have together.
type valuesView struct {
	Values     []valueView `json:"values"`
	UsedBytes  int64       `json:"usedBytes"`
	QuotaBytes int64       `json:"quotaBytes"`
}

func viewOfValue(v *script.Value) valueView {
	view := valueView{
		Tenant: v.Key.Tenant, Key: v.Key.Key, Version: v.Version, Revision: v.Revision, Digest: v.Digest, Size: v.Size,
		Deleted: v.Deleted, Author: v.Author, ChangedAt: timeView(v.ChangedAt),
	}
	if v.Deleted {
		view.Version = 0 // which is that of no content
	}
	return view
}

func (a *app) kvCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kv",
		Short: "Keep the data that a tenant's scripts read",
		Long: `A tenant has key-value data of its own, which is pushed to the agents as scripts are.
Its scripts read it with kv.get(key), without leaving the node. A key may have
slashes; a value has at most 1 MiB, and all of a tenant's together 16 MiB unless its
settings say otherwise.

Each put makes a version. The registry keeps the last 10 changes of a key, and the
contents of the versions among them: see "kv history" and "kv rollback".`,
	}
	cmd.AddCommand(a.kvGetCommand(), a.kvPutCommand(), a.kvListCommand(), a.kvDeleteCommand(), a.kvHistoryCommand(), a.kvRollbackCommand())
	return cmd
}

func (a *app) kvGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get TENANT/KEY[@VERSION]",
		Short: "Print the content of a key, or of one version of it, as it is",
		Long: `Get prints the content of a key as it is, without a newline of its own. With -o json
or yaml it comes with what is known of it: as "text", or as "base64" if it is no text.`,
		Example:           "  scriptctl kv get acme/routes.json > routes.json\n  scriptctl kv get acme/routes.json@3",
		Args:              wantArgs(1, 1, "a key", "tenant/key"),
		ValidArgsFunction: a.completeKeys(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, version, err := script.ParseValueRef(args[0])
			if err != nil {
				return usage(err)
			}
			return a.kvGet(cmd.Context(), key, version)
		},
	}
}

func (a *app) kvGet(ctx context.Context, key script.ValueKey, version uint64) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	value, content, err := client.ValueVersion(ctx, key, version)
	if err != nil {
		return about(key.String(), err)
	}
	if a.output == formatTable {
		_, err := a.Out.Write(content)
		return err
	}
	view := contentView{valueView: viewOfValue(&value)}
	if utf8.Valid(content) {
		text := string(content)
		view.Text = &text
	} else {
		view.Base64 = content
	}
	return a.print(view, nil)
}

// putOptions are the flags of kv put.
type putOptions struct {
	file  string
	isNew bool
	valueFlags
}

// valueFlags are the flags of all changes of keys.
type valueFlags struct {
	revision int64
	note     string
}

func (f *valueFlags) add(cmd *cobra.Command) {
	addRevision(cmd, &f.revision)
	cmd.Flags().StringVar(&f.note, "note", "", "why, for the key's history")
}

func (a *app) kvPutCommand() *cobra.Command {
	var o putOptions
	cmd := &cobra.Command{
		Use:   "put TENANT/KEY [VALUE]",
		Short: "Store a key",
		Long: `Put stores the content under the key: VALUE, the content of --file, or with - in the
place of either, standard input. It is stored as it is, byte by byte. If the key
has that content already, nothing changes.

With --revision it is stored only if the key still has that revision, as "kv list"
shows it: so nobody undoes what another one did meanwhile. With --new it is stored only if
there is no such key.`,
		Example: `  scriptctl kv put acme/beta-users '["ann","bo"]'
  scriptctl kv put acme/routes.json --file routes.json
  date | scriptctl kv put acme/built -`,
		Args:              wantArgs(1, 2, "a key, and a value or --file", "tenant/key VALUE"),
		ValidArgsFunction: a.completeKeys(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := a.parseKey(args[0])
			if err != nil {
				return err
			}
			content, err := a.content(cmd, args[1:], o.file)
			if err != nil {
				return err
			}
			return a.kvPut(cmd.Context(), key, content, &o)
		},
	}
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "the file that holds the content; - for standard input")
	cmd.Flags().BoolVar(&o.isNew, "new", false, "store it only if there is no such key")
	o.add(cmd)
	cmd.MarkFlagsMutuallyExclusive("new", "revision")
	must(cmd.MarkFlagFilename("file"))
	return cmd
}

func addRevision(cmd *cobra.Command, revision *int64) {
	cmd.Flags().Int64Var(revision, "revision", 0, "change it only if it still has this revision")
}

// content returns the content to store.
func (a *app) content(cmd *cobra.Command, value []string, file string) ([]byte, error) {
	named := cmd.Flags().Changed("file")
	switch {
	case named == (len(value) == 1):
		return nil, usage(script.Errorf(script.Invalid, "", "%s wants either a value or --file", cmd.Name()))
	case len(value) == 1 && value[0] != "-":
		return []byte(value[0]), nil
	case len(value) == 1 || file == "-":
		return readContent(a.In, "standard input")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, usage(script.Errorf(script.Invalid, "--file", "%w", err))
	}
	content, err := readContent(f, file)
	return content, errors.Join(err, f.Close())
}

func readContent(r io.Reader, from string) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, script.MaxValueBytes+1))
	if err != nil {
		return nil, usage(fmt.Errorf("%s: %w", from, err))
	}
	if len(content) > script.MaxValueBytes {
		return nil, usage(script.Errorf(script.Invalid, "", "%s is larger than a value may be, %s", from, byteSize(script.MaxValueBytes)))
	}
	return content, nil
}

func (a *app) kvPut(ctx context.Context, key script.ValueKey, content []byte, o *putOptions) error {
	write, err := a.valueWrite(&o.valueFlags)
	if err != nil {
		return err
	}
	if o.isNew {
		write.ExpectedRevision = script.Absent
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	value, changed, err := client.PutValue(ctx, key, content, write)
	if err != nil {
		return about(key.String(), err)
	}
	return a.printPut(&value, changed)
}

// printPut prints the value after a put or a rollback.
func (a *app) printPut(value *script.Value, changed bool) error {
	return a.print(putView{viewOfValue(value), changed}, func(w io.Writer) {
		line := value.Key.String()
		if value.Version != 0 {
			line += fmt.Sprintf(" v%d", value.Version)
		}
		line += fmt.Sprintf(" %s %s revision %d", byteSize(int64(value.Size)), value.Digest.Short(), value.Revision)
		if !changed {
			line += " (unchanged)"
		}
		fmt.Fprintln(w, line)
	})
}

// valueWrite returns what a change of a key says of itself.
func (a *app) valueWrite(f *valueFlags) (registryclient.DataWrite, error) {
	write, err := a.dataWrite(f.revision)
	write.Note = f.note
	return write, err
}

// dataWrite returns what a change of data or of settings says of itself.
func (a *app) dataWrite(expected int64) (registryclient.DataWrite, error) {
	if expected < 0 {
		return registryclient.DataWrite{}, usage(script.Errorf(script.Invalid, "--revision", "%d is negative", expected))
	}
	write, err := a.write("")
	return registryclient.DataWrite{Author: write.Author, ExpectedRevision: script.Revision(expected)}, err
}

func (a *app) kvListCommand() *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:               "list TENANT",
		Aliases:           []string{"ls"},
		Short:             "List a tenant's keys, and how much they use",
		Example:           "  scriptctl kv list acme --prefix routes/",
		Args:              wantArgs(1, 1, "a tenant", "tenant"),
		ValidArgsFunction: a.completeTenants,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := script.ValidateLabel("tenant", args[0]); err != nil {
				return usage(err)
			}
			return a.kvList(cmd.Context(), args[0], prefix)
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only keys that begin so")
	return cmd
}

func (a *app) kvList(ctx context.Context, tenant, prefix string) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	view := valuesView{Values: []valueView{}}
	rows := [][]string{{"KEY", "VERSION", "SIZE", "REVISION", "CHANGED", "AUTHOR"}}
	var left unread
	for v, err := range client.Values(ctx, tenant, prefix) {
		if err != nil {
			if _, err := left.take(err); err != nil {
				return err
			}
			continue
		}
		view.Values = append(view.Values, viewOfValue(&v))
		rows = append(rows, []string{
			v.Key.Key, valueVersionText(v.Version), byteSize(int64(v.Size)), strconv.FormatInt(int64(v.Revision), 10), clock(v.ChangedAt), orDash(v.Author),
		})
	}
	if view.UsedBytes, view.QuotaBytes, err = client.ValueUsage(ctx, tenant); err != nil {
		return err
	}
	err = a.print(view, func(w io.Writer) {
		if len(view.Values) > 0 {
			columns(w, rows)
		} else {
			fmt.Fprintf(a.Err, "tenant %s has no such keys\n", tenant)
		}
		fmt.Fprintf(w, "%s used of %s\n", byteSize(view.UsedBytes), byteSize(view.QuotaBytes))
	})
	return cmp.Or(err, left.err())
}

func (a *app) kvDeleteCommand() *cobra.Command {
	var f valueFlags
	cmd := &cobra.Command{
		Use:               "delete TENANT/KEY...",
		Aliases:           []string{"rm"},
		Short:             "Remove keys",
		Args:              wantArgs(1, anyNumber, "a key", "tenant/key"),
		ValidArgsFunction: a.completeKeys(anyNumber),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.revision != 0 && len(args) > 1 {
				return usage(script.Errorf(script.Invalid, "--revision", "is of one key: delete the others by themselves"))
			}
			keys := make([]script.ValueKey, len(args))
			for i, arg := range args {
				var err error
				if keys[i], err = a.parseKey(arg); err != nil {
					return err
				}
			}
			return a.kvDelete(cmd.Context(), keys, &f)
		},
	}
	f.add(cmd)
	return cmd
}

// kvDelete goes on after a key that is not there, and stops at any other error.
func (a *app) kvDelete(ctx context.Context, keys []script.ValueKey, f *valueFlags) error {
	write, err := a.valueWrite(f)
	if err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	views := []putView{}
	var faults []error
	for _, key := range keys {
		value, err := client.DeleteValue(ctx, key, write)
		if err != nil {
			faults = append(faults, about(key.String(), err))
			if script.KindOf(err) == script.NotFound {
				continue
			}
			break
		}
		views = append(views, putView{viewOfValue(&value), true})
		if a.output == formatTable {
			fmt.Fprintf(a.Out, "%s deleted\n", key)
		}
	}
	if len(faults) > 0 {
		err = &exitError{code: exitCode(faults[len(faults)-1]), err: errors.Join(faults...)}
	}
	return errors.Join(a.print(views, func(io.Writer) {}), err)
}

func (a *app) parseKey(arg string) (script.ValueKey, error) {
	key, err := script.ParseValueKey(a.withTenant(arg))
	if err != nil {
		return key, usage(err)
	}
	return key, nil
}

// completeKeys completes up to so many keys; anyNumber: as many as there are.
func (a *app) completeKeys(most int) completion {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most != anyNumber && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeOfTenant(cmd, toComplete, func(ctx context.Context, client *registryclient.Client, tenant, prefix string) (keys []cobra.Completion) {
			for v, err := range client.Values(ctx, tenant, prefix) {
				if err != nil {
					break
				}
				keys = append(keys, cobra.CompletionWithDesc(v.Key.String(), byteSize(int64(v.Size))))
			}
			return keys
		})
	}
}
