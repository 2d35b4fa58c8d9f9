package scriptctl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

const changeSetLong = `A change set is several scripts and values of one tenant that go live together: it is one
candidate, with one rollout plan, one verdict and one rollback. Without tests and a plan
all of it goes live in one transaction.

A change set is drafted in a file, a ChangeSet document, which is reviewed like the
manifests that it names. "scriptctl apply" publishes manifests together without one.

"scriptctl rollout" promotes, aborts, retries and approves the candidate of any of its
scripts, and acts on the whole change set.`

func (a *app) changeSetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "changeset",
		Short: "Publish several scripts and values as one candidate, with one rollback",
		Long:  changeSetLong,
		Example: `  scriptctl changeset create acme/cart-2
  scriptctl changeset add cart-2.yaml route.yaml cart.yaml --value flags=on
  scriptctl changeset publish cart-2.yaml --wait
  scriptctl changeset status acme/cart-2
  scriptctl changeset rollback acme/cart-2 --note "carts were lost"`,
	}
	cmd.AddCommand(a.changeSetCreateCommand(), a.changeSetAddCommand(), a.changeSetPublishCommand(), a.changeSetStatusCommand(),
		a.changeSetListCommand(), a.changeSetRollbackCommand())
	return cmd
}

// changeSetDraft is the file of a new change set.
const changeSetDraft = `apiVersion: ` + manifest.APIVersion + `
kind: ` + manifest.ChangeSetKind + `
metadata:
  name: %[2]s
spec:
  tenantId: %[1]s
  # Files with LuaScripts, in this folder or below it.
  scripts: []
  # Contents of values, by their keys: {text: "on"}, {json: {max: 10}} or {file: prices.json}.
  values: {}
  # How all of it goes live. Without it, the rollout of the scripts counts, which must be the same.
  # rollout:
  #   steps:
  #   - {percent: 10, pause: 10m}
  #   - {percent: 50, pause: 10m}
  #   maxErrorPercent: 5
`

// draftView is the file of a change set after a change.
type draftView struct {
	ChangeSet string   `json:"changeSet"` // tenant/name
	File      string   `json:"file"`
	Scripts   []string `json:"scripts"` // all of them, as tenant/name
	Values    []string `json:"values"`  // the keys of all of them
}

func (a *app) changeSetCreateCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "create TENANT/NAME",
		Short: "Write the file of a new, empty change set",
		Long: `Create writes the file of an empty change set, by default NAME.yaml in this folder. It asks
no registry. Create never replaces a file.`,
		Example:           "  scriptctl changeset create acme/cart-2\n  scriptctl changeset create acme/cart-2 -f changes/cart.yaml",
		Args:              wantArgs(1, 1, "the name of a change set", "tenant/name"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			name, err := a.parseChangeSet(args[0])
			if err != nil {
				return err
			}
			if file == "" {
				file = name.Script + ".yaml"
			}
			if _, err := os.Lstat(file); err == nil {
				return usage(script.Errorf(script.Invalid, "", "%s is there already: name another file with -f, or add to it with scriptctl changeset add %s", file, file))
			}
			if err := writeFile(file, 0o644, false, fmt.Appendf(nil, changeSetDraft, name.Tenant, name.Script)); err != nil {
				return err
			}
			v := draftView{ChangeSet: name.String(), File: file, Scripts: []string{}, Values: []string{}}
			return a.print(v, func(w io.Writer) {
				fmt.Fprintf(w, "%s created: add to it with scriptctl changeset add %s PATH...\n", plain(file), plain(file))
			})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the file to write (default NAME.yaml)")
	must(cmd.MarkFlagFilename("file", manifestExtensions...))
	return cmd
}

func (a *app) changeSetAddCommand() *cobra.Command {
	var values []string
	cmd := &cobra.Command{
		Use:   "add FILE PATH...",
		Short: "Add scripts and values to the file of a change set",
		Long: `Add names manifests and values in the file of a change set. Then it checks the file:
all scripts have the same tenant, nothing is there twice, and the sizes are within bounds.

Add contacts no registry. It keeps the comments and the layout of the file.

A path is a manifest or a folder of them, in the folder of the change set or below it.
A value is a text, or with @ a file.`,
		Example: `  scriptctl changeset add cart-2.yaml route.yaml scripts/cart.yaml
  scriptctl changeset add cart-2.yaml --value flags=on --value prices/cart=@prices.json`,
		Args: wantArgs(1, anyNumber, "the file of a change set, and what to add", "cart-2.yaml route.yaml"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return manifestExtensions, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && len(values) == 0 {
				return usage(errors.New("changeset add wants something to add: scriptctl changeset add FILE PATH, or --value KEY=TEXT"))
			}
			return a.changeSetAdd(args[0], args[1:], values)
		},
	}
	cmd.Flags().StringArrayVar(&values, "value", nil, "a value, as `KEY=TEXT`, or KEY=@FILE for the content of a file; may be repeated")
	return cmd
}

func (a *app) changeSetAdd(file string, paths, values []string) error {
	unlock, err := lockFolder(file)
	if err != nil {
		return usage(script.Errorf(script.Invalid, "", "%s cannot be changed: %w", file, err))
	}
	defer unlock()
	data, err := manifest.ReadFile(file)
	if err != nil {
		return usage(err)
	}
	added, err := pathsBeside(file, paths)
	if err != nil {
		return usage(err)
	}
	contents := make([]manifest.NewValue, len(values))
	for i, flag := range values {
		if contents[i], err = newValue(file, flag); err != nil {
			return usage(err)
		}
	}
	text, set, err := manifest.AddToChangeSet(file, data, filepath.Dir(file), added, contents)
	if err != nil {
		return usage(err)
	}
	if err := rewrite(file, text); err != nil {
		return err
	}
	v := draftView{ChangeSet: set.Tenant + "/" + set.Name, File: file, Scripts: []string{}, Values: []string{}}
	for i := range set.Scripts {
		v.Scripts = append(v.Scripts, set.Scripts[i].Name.String())
	}
	for _, value := range set.Values {
		v.Values = append(v.Values, value.Key)
	}
	return a.print(v, func(w io.Writer) {
		fmt.Fprintf(w, "%s has %s and %s: publish it with scriptctl changeset publish %s\n",
			plain(file), count(len(v.Scripts), "script"), count(len(v.Values), "value"), plain(file))
	})
}

// pathsBeside returns the paths, and those of the manifests in folders, as the file of a change set
// names them.
func pathsBeside(file string, paths []string) ([]string, error) {
	var all []string
	for _, path := range paths {
		if path == stdio {
			return nil, script.Errorf(script.Invalid, "", "a change set names files: write standard input to one")
		}
		files, err := manifestFiles([]string{path})
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			beside, err := pathBeside(file, f)
			if err != nil {
				return nil, err
			}
			if f == path || beside != filepath.Base(file) { // the folder holds the change set, too
				all = append(all, beside)
			}
		}
	}
	return all, nil
}

// pathBeside returns the path relative to the folder of the file.
func pathBeside(file, path string) (string, error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return "", err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	relative, err := filepath.Rel(dir, absolute)
	if err != nil || !filepath.IsLocal(relative) {
		return "", script.Errorf(script.Invalid, "", "%s is neither in the folder of %s nor below it: move one of the two", path, file)
	}
	return filepath.ToSlash(relative), nil
}

// newValue reads a --value of the change set in the file.
func newValue(file, flag string) (v manifest.NewValue, err error) {
	key, text, ok := strings.Cut(flag, "=")
	if !ok || key == "" {
		return v, script.Errorf(script.Invalid, "--value", "%.80q is no value: want KEY=TEXT, or KEY=@FILE", flag)
	}
	v.Key = key
	if path, ok := strings.CutPrefix(text, "@"); ok {
		v.File, err = pathBeside(file, path)
		return v, err
	}
	v.Text = text
	return v, nil
}
