package scriptctl

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/imports"
	"github.com/scriptorium-dev/scriptorium/script"
)

type importOthersOptions struct {
	tenant, out string
	overwrite   bool
}

// importOthersCommand returns the command that imports scripts of another project from a folder or a file, which what
// names.
func (a *app) importOthersCommand(project, what, short, long string, read func(path, tenant string) (*imports.Bundle, error)) *cobra.Command {
	var o importOthersOptions
	argument := map[bool]string{true: "FILE", false: "DIR"}[strings.Contains(what, ".")]
	cmd := &cobra.Command{
		Use: project + " " + argument, Short: short, Long: long + `

It writes a manifest, a Lua file and a test file for each script into the folder of --out.
It runs each test first, and names what it does not carry over: scripts that do not compile
and tests that fail here. It needs no registry.`,
		Example: "  scriptctl import " + project + " " + what + " --tenant acme --out scripts\n  scriptctl test scripts",
		Args:    wantArgs(1, 1, "a folder or a file", argument),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := script.ValidateLabel("--tenant", o.tenant); err != nil {
				return usage(err)
			}
			bundle, err := read(args[0], o.tenant)
			if err != nil {
				return usage(err)
			}
			return a.importOthers(cmd.Context(), bundle, &o)
		},
	}
	cmd.Flags().StringVar(&o.tenant, "tenant", "", "the tenant of the scripts")
	cmd.Flags().StringVar(&o.out, "out", "", "the folder for the manifests and tests")
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "replace files that are there already")
	must(cmd.MarkFlagRequired("tenant"))
	must(cmd.MarkFlagRequired("out"))
	must(cmd.MarkFlagDirname("out"))
	return cmd
}

func (a *app) importArgoCDCommand() *cobra.Command {
	return a.importOthersCommand("argocd", "resource_customizations", "Import health checks and actions of Argo CD", `Argocd reads a folder of Argo CD's resource customizations: health checks, and actions with
their discovery, with the tests in health_test.yaml and action_test.yaml.`, imports.ArgoCD)
}

func (a *app) importKruiseCommand() *cobra.Command {
	return a.importOthersCommand("kruise", "lua_configuration", "Import traffic routing scripts of OpenKruise Rollouts", `Kruise reads a folder of OpenKruise Rollouts' lua_configuration: traffic routing scripts with
their test cases, a test for each step of a rollout.`, imports.Kruise)
}

func (a *app) importKarmadaCommand() *cobra.Command {
	return a.importOthersCommand("karmada", "resourcecustomizations", "Import resource interpreters of Karmada", `Karmada reads a folder with ResourceInterpreterCustomizations of Karmada. Each customization
becomes a script. Tests are documents with an operation and an output, as Karmada has them.`, imports.Karmada)
}

func (a *app) importRedisCommand() *cobra.Command {
	return a.importOthersCommand("redis", "library.lua", "Import functions and scripts of Redis", `Redis reads a library of FUNCTION LOAD, or a script of EVAL. Each function becomes a script
that takes two lists, keys and args. redis.call reads values of the tenant with GET, MGET
and EXISTS. Other commands fail: the output names their lines.`, imports.Redis)
}

// portedView is what became of the scripts of another project.
type portedView struct {
	Scripts []portedScriptView `json:"scripts"`
	Files   []string           `json:"files"`
	Left    []imports.Left     `json:"left"` // not carried over
}

type portedScriptView struct {
	Script string `json:"script"`
	From   string `json:"from"`
	Tests  int    `json:"tests"`
}

func (a *app) importOthers(ctx context.Context, bundle *imports.Bundle, o *importOthersOptions) error {
	if err := bundle.Check(ctx); err != nil {
		return err
	}
	files, err := bundle.Write(o.out, o.overwrite)
	if err != nil {
		return err
	}
	view := portedView{Scripts: []portedScriptView{}, Files: files, Left: bundle.Left}
	rows := [][]string{{"SCRIPT", "TESTS", "FROM"}}
	for _, s := range bundle.Scripts {
		v := portedScriptView{Script: s.Name.String(), From: s.File, Tests: len(s.Cases)}
		view.Scripts = append(view.Scripts, v)
		rows = append(rows, []string{v.Script, fmt.Sprint(v.Tests), v.From})
	}
	if view.Left == nil {
		view.Left = []imports.Left{}
	}
	return a.print(&view, func(w io.Writer) {
		columns(w, rows)
		for _, l := range view.Left {
			fmt.Fprintln(w, "not carried over: "+plain(l.String()))
		}
	})
}
