package scriptctl

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/scaffold"
	"github.com/scriptorium-dev/scriptorium/script"
)

const initLong = `Init makes a folder of scripts: a manifest with its Lua file and tests, .scriptorium.yaml,
settings for editors, and a GitHub workflow that runs lint and test. With --runtime rego it
has a policy in Rego and its tests, with --runtime wasm a crate in Rust.

It never overwrites a file: what is there already is kept. The folder needs no registry.`

// initView is one file of the folder.
type initView struct {
	File    string `json:"file"`
	Outcome string `json:"outcome"` // created or kept
}

func (a *app) initCommand() *cobra.Command {
	var template, runtime, tenant, project string
	cmd := &cobra.Command{
		Use: "init [DIR]", Short: "Make a folder with a script, its tests and settings for editors", Long: initLong,
		Example: "  scriptctl init shop --tenant acme\n  scriptctl init --template transform\n  scriptctl init policies --runtime rego",
		Args:    wantArgs(0, 1, "one folder at most", "[DIR]"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if !slices.Contains(scaffold.Runtimes, runtime) {
				return usage(script.Errorf(script.Invalid, "--runtime", "%.80q is not a runtime: want %s", runtime, strings.Join(scaffold.Runtimes, ", ")))
			}
			if runtime != scaffold.Lua {
				if template != scaffold.Templates[0] {
					return usage(script.Errorf(script.Invalid, "--template", "is for the runtime %s: leave it out", scaffold.Lua))
				}
				return a.writeFolder(dir, runtime, tenant, project)
			}
			return a.makeFolder(dir, template, tenant, project)
		},
	}
	cmd.Flags().StringVar(&template, "template", scaffold.Templates[0], "what the script does: "+strings.Join(scaffold.Templates, " or "))
	must(cmd.RegisterFlagCompletionFunc("template", cobra.FixedCompletions(scaffold.Templates, cobra.ShellCompDirectiveNoFileComp)))
	cmd.Flags().StringVar(&runtime, "runtime", scaffold.Runtimes[0], "what runs the script: "+strings.Join(scaffold.Runtimes, ", "))
	must(cmd.RegisterFlagCompletionFunc("runtime", cobra.FixedCompletions(scaffold.Runtimes, cobra.ShellCompDirectiveNoFileComp)))
	cmd.Flags().StringVar(&tenant, "tenant", "", "the tenant of the script (default: that of the context, else acme)")
	cmd.Flags().StringVar(&project, "project", "", "the project, for apply --prune (default: the folder's name)")
	return cmd
}

func (a *app) makeFolder(dir, template, tenant, project string) error {
	if !slices.Contains(scaffold.Templates, template) {
		return usage(script.Errorf(script.Invalid, "--template", "%.80q is not a template: want %s", template, strings.Join(scaffold.Templates, " or ")))
	}
	return a.writeFolder(dir, template, tenant, project)
}

func (a *app) writeFolder(dir, template, tenant, project string) error {
	if tenant == "" {
		if s, err := a.settings(); err == nil {
			tenant = s.tenant
		}
	}
	tenant = cmp.Or(tenant, "acme")
	if err := script.ValidateLabel("--tenant", tenant); err != nil {
		return usage(err)
	}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if project == "" {
		if project = strings.ToLower(filepath.Base(whole)); script.ValidateLabel("--project", project) != nil {
			project = "scripts"
		}
	}
	if err := script.ValidateLabel("--project", project); err != nil {
		return usage(err)
	}
	files, err := scaffold.Files(template, project, tenant)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as git and editors make folders
		return usage(script.Errorf(script.Invalid, dir, "cannot be made: %w", err))
	}
	views, err := writeNew(dir, files)
	return errors.Join(a.print(views, func(w io.Writer) {
		for _, v := range views {
			fmt.Fprintf(w, "%s %s\n", v.Outcome, plain(filepath.Join(dir, v.File)))
		}
	}), err)
}

// writeNew writes the files that are not there. No link leads it out of the folder.
func writeNew(dir string, files []scaffold.File) ([]initView, error) {
	views := []initView{}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return views, err
	}
	defer func() { _ = root.Close() }() // a folder
	for _, file := range files {
		if err := root.MkdirAll(path.Dir(file.Path), 0o755); err != nil {
			return views, err
		}
		f, err := root.OpenFile(file.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			views = append(views, initView{File: file.Path, Outcome: "kept"})
			continue
		}
		if err != nil {
			return views, err
		}
		_, err = f.Write(file.Content)
		if err := errors.Join(err, f.Close()); err != nil {
			return views, errors.Join(err, root.Remove(file.Path)) // half a file would be kept the next time
		}
		views = append(views, initView{File: file.Path, Outcome: "created"})
	}
	return views, nil
}
