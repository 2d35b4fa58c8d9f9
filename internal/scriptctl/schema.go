package scriptctl

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/schema"
	"github.com/scriptorium-dev/scriptorium/script"
)

const schemaLong = `Schema prints the JSON Schema of a kind of file, which editors use to complete and check it:

  manifest   manifests: Script, LuaScript, ScriptTenant and ChangeSet
  test       test files, such as route_test.yaml
  project    .scriptorium.yaml

The schemas are those of this scriptctl. It needs no registry.`

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema manifest|test|project", Short: "Print the JSON Schema of manifests, test files or settings", Long: schemaLong,
		Example: "  scriptctl schema manifest > .schemas/manifest.json\n  scriptctl schema test > .schemas/test.json",
		Args:    wantArgs(1, 1, "the kind of file", strings.Join(schema.Names(), "|")),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return schema.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			text, ok := schema.Of(args[0])
			if !ok {
				return usage(script.Errorf(script.Invalid, "FILE", "%q is no kind of file: want %s", args[0], strings.Join(schema.Names(), ", ")))
			}
			_, err := a.Out.Write(text)
			return err
		},
	}
}
