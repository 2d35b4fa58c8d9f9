// Package scriptorium is the program that is everything in one: for trying
// Scriptorium out, and for showing it.
package scriptorium

import (
	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/console"
	"github.com/scriptorium-dev/scriptorium/internal/demo"
	"github.com/scriptorium-dev/scriptorium/internal/dev"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/internal/version"
)

// Command returns the scriptorium command.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "scriptorium",
		Short:   "A script registry that pushes every change to every node, in one process",
		Version: version.String(),
	}
	cmd.AddCommand(dev.Command(), demo.Command(), console.Command(), registryd.Command(), agentd.Command())
	return cmd
}
