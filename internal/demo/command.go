package demo

import (
	"os"

	"github.com/spf13/cobra"
)

// Command returns the demo command of a program that has an agentd command too.
func Command() *cobra.Command {
	var agents int
	var modules string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole path of a change, unattended",
		Long: `demo starts etcd, NATS, a registry and agents, takes a script through everything
that can happen to one, and prints what was seen. It exits with 0 only if every
step held. It keeps nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			return Run(cmd.Context(), Config{Agents: agents, AgentCommand: []string{self, "agentd"}, Modules: modules, Out: cmd.OutOrStdout()})
		},
	}
	cmd.Flags().IntVar(&agents, "agents", 3, "how many agents there are")
	cmd.Flags().StringVar(&modules, "modules", "sdk/out", "the folder of the WebAssembly modules that sdk/build.sh builds")
	return cmd
}
