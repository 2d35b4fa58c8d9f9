package registryd

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/flagenv"
	"github.com/scriptorium-dev/scriptorium/internal/obs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// founding is what registryd init prints.
type founding struct {
	Fleet   string `json:"fleet"`
	Founded bool   `json:"founded"` // by this run
}

var initFormats = []string{"text", "json"}

func initCommand() *cobra.Command {
	var (
		cfg     Config
		logging obs.LogOptions
		known   string
		output  string
	)
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Found the fleet",
		Long: `init founds the fleet at an etcd prefix: it writes the fleet's id, unless there is
one. It prints the id. registryd serves nothing until somebody has founded a fleet.

init is safe to repeat: if there is a fleet, init changes nothing and exits with 0.
It fails if --fleet names another fleet than etcd has.

With --known-fleet, init founds nothing. Give it the id that you noted after the first
init, so that an automatic installation does not found a new fleet when etcd is lost.

Every flag can be set by the environment variable behind it.`,
		Example: `  registryd init --etcd-endpoints https://etcd-0:2379 --etcd-ca etcd-ca.crt --etcd-cert etcd.crt --etcd-key etcd.key
  registryd init -o json --insecure-plaintext`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(initFormats, output) {
				return script.Errorf(script.Invalid, "--output", "%q is not a format: want %s", output, strings.Join(initFormats, " or "))
			}
			log, err := logging.NewLogger(os.Stderr)
			if err != nil {
				return err
			}
			cfg.Log = log
			result := founding{Fleet: known}
			if known == "" {
				if result.Fleet, result.Founded, err = Found(cmd.Context(), cfg); err != nil {
					return err
				}
			}
			return result.print(cmd, output)
		},
	}
	flags := cmd.Flags()
	cfg.addEtcdFlags(flags)
	flags.StringVar(&cfg.Fleet, "fleet", "", "id of the fleet to found; random when empty")
	flags.StringVar(&known, "known-fleet", "", "id of the fleet that was founded before: found nothing")
	flags.StringVarP(&output, "output", "o", initFormats[0], "how to print: "+strings.Join(initFormats, " or "))
	logging.AddFlags(flags)
	flagenv.Bind(cmd)
	return cmd
}

func (f founding) print(cmd *cobra.Command, output string) error {
	if output == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(f)
	}
	text := "fleet %s was founded before\n"
	if f.Founded {
		text = "founded fleet %s\n"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), text, f.Fleet)
	return err
}
