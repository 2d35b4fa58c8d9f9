package scriptctl

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// anyNumber is the most arguments of a command that takes as many as there are.
const anyNumber = -1

// wantArgs takes least to most arguments; otherwise it says what the command
// wants, and how that is written.
func wantArgs(least, most int, what, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most == anyNumber || len(args) <= most) {
			return nil
		}
		usage := cmd.CommandPath()
		name := strings.TrimPrefix(usage, cmd.Root().CommandPath()+" ")
		if example != "" {
			usage += " " + example
		}
		return fmt.Errorf("%s wants %s: %s", name, what, usage)
	}
}

func wantScript() cobra.PositionalArgs { return wantArgs(1, 1, "a script", "tenant/name") }
