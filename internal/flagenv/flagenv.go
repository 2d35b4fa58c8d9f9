// Package flagenv gives every flag of a command an environment variable:
// --nats-url is SCRIPTORIUM_NATS_URL. A flag on the command line wins.
package flagenv

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/script"
)

const prefix = "SCRIPTORIUM_"

// Bind names the variable of each of cmd's own flags in its help and makes the
// command read them before it runs. It wraps cmd's PreRunE, so it comes after
// that was set and after all flags were defined.
func Bind(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		f.Usage += fmt.Sprintf(" [$%s]", variable(f.Name))
	})
	next := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := apply(cmd.Flags()); err != nil {
			return err
		}
		if next == nil {
			return nil
		}
		return next(cmd, args)
	}
}

func apply(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		value, ok := os.LookupEnv(variable(f.Name))
		if f.Changed || !ok || f.Name == "help" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, script.Errorf(script.Invalid, variable(f.Name), "%w", err))
		}
	})
	return errors.Join(errs...)
}

func variable(flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
