package scriptctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/krm"
	"github.com/scriptorium-dev/scriptorium/script"
)

const krmLong = `Krm applies a script to Kubernetes resources on this machine: resources in, resources out.
It needs no cluster and no registry.

The script is a manifest or a Lua file at -f. It gets each resource as its argument. A script
without an entrypoint gets it as the global obj, as health checks and actions of Argo CD do.
The script returns

  a resource      it takes the place of the first one
  a list          its resources do
  false           the resource is removed
  nil             the resource stays as it is, with its comments

Resources come from files, or from standard input. If that is a ResourceList, krm is a KRM
function for kustomize and kpt, and a functionConfig of kind Script or LuaScript is the script.

With --health, the script returns a status and a message, as Argo CD's health checks do. Krm
prints a table, and the exit code is 13 if a resource is Degraded. Without any resource to check
it fails.`

type krmOptions struct {
	file   string
	health bool
}

func (a *app) krmCommand() *cobra.Command {
	var o krmOptions
	cmd := &cobra.Command{
		Use: "krm [FILE...]", Short: "Apply a script to Kubernetes resources on this machine", Long: krmLong,
		Example: "  scriptctl krm -f restart.lua deployment.yaml\n  kubectl get deployments -o yaml | scriptctl krm -f health.lua --health",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return manifestExtensions, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.krm(cmd.Context(), args, &o) },
	}
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "the script: a manifest or a Lua file")
	cmd.Flags().BoolVar(&o.health, "health", false, "print what a health check says of each resource")
	must(cmd.MarkFlagFilename("file", append([]string{"lua"}, manifestExtensions...)...))
	return cmd
}

func (a *app) krm(ctx context.Context, files []string, o *krmOptions) error {
	in, err := a.readResources(files)
	if err != nil {
		return usage(err)
	}
	m, err := a.krmScript(in, o)
	if err != nil {
		return usage(err)
	}
	f, err := krm.New(m, func(level engine.Level, message string) { fmt.Fprintf(a.Err, "log %s: %s\n", level, plain(message)) })
	if err != nil {
		return &exitError{code: exitRefused, err: err}
	}
	if o.health {
		if len(in.Resources) == 0 {
			return usage(errors.New("there are no resources to check: did the command before the pipe fail?"))
		}
		return a.krmHealth(ctx, f, in)
	}
	if err := f.Apply(ctx, in); err != nil {
		return &exitError{code: exitCallFailed, err: err}
	}
	return in.Write(a.Out)
}

// readResources reads the files, or standard input.
func (a *app) readResources(files []string) (*krm.Input, error) {
	if len(files) == 0 {
		in, err := krm.Read(a.In)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return in, nil
	}
	all := &krm.Input{}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		in, err := krm.Read(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if in.Function != nil {
			return nil, script.Errorf(script.Invalid, path, "is a ResourceList: give it on standard input")
		}
		all.Resources = append(all.Resources, in.Resources...)
	}
	return all, nil
}

// krmScript returns the script of -f, or that of the functionConfig.
func (a *app) krmScript(in *krm.Input, o *krmOptions) (*manifest.Manifest, error) {
	var manifests []manifest.Manifest
	var err error
	switch {
	case o.file != "":
		manifests, err = a.loadLinted(o.file)
	case in.Function != nil:
		manifests, err = manifest.Parse("functionConfig", in.Function, ".")
	default:
		return nil, script.Errorf(script.Invalid, "--file", "is missing: name the script, or give a ResourceList whose functionConfig is a Script or LuaScript")
	}
	if err != nil {
		return nil, err
	}
	if len(manifests) != 1 {
		return nil, script.Errorf(script.Invalid, "--file", "has %d scripts, want one", len(manifests))
	}
	return &manifests[0], nil
}

func (a *app) krmHealth(ctx context.Context, f *krm.Function, in *krm.Input) error {
	healths, err := f.Healths(ctx, in)
	if err != nil {
		return &exitError{code: exitCallFailed, err: err}
	}
	rows := [][]string{{"RESOURCE", "STATUS", "MESSAGE"}}
	degraded := 0
	for _, h := range healths {
		rows = append(rows, []string{plain(h.Resource), plain(h.Status), plain(h.Message)})
		if h.Status == "Degraded" {
			degraded++
		}
	}
	if err := a.print(healths, func(w io.Writer) { columns(w, rows) }); err != nil {
		return err
	}
	if degraded > 0 {
		return &exitError{code: exitDegraded, err: fmt.Errorf("%s of %d degraded", count(degraded, "resource"), len(healths))}
	}
	return nil
}
