package dev

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/flagenv"
	"github.com/scriptorium-dev/scriptorium/internal/obs"
)

// DefaultState is the state folder; scriptctl looks for the registry in it.
const DefaultState = ".scriptorium"

// DefaultConsole is where the console is. If something else is there, it takes a free port.
const DefaultConsole = "127.0.0.1:7080"

// DefaultScripts is the folder of manifests that `make run` makes: a copy of the examples.
const DefaultScripts = "my-scripts"

// Command returns the dev command.
func Command() *cobra.Command {
	var (
		cfg     Config
		logging obs.LogOptions
	)
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process and keep it as a folder of manifests says",
		Long: `dev starts etcd, NATS, a registry and agents in this process, on loopback and on
Unix sockets in the state folder. It publishes the LuaScript manifests of a folder
and then watches the folder, without its subfolders:

  saved     the manifest, or its .lua file, goes live on all agents at once
  faulty    dev rejects a script that does not compile, and prints the line
  removed   dev deletes the script

The console, a web application for the scripts, runs on loopback. dev prints its address
and a code to sign in with. A code works once, then dev prints another.

Saving a manifest applies all of it. This ends a pin, and all else that you set by
hand.

The next start continues with what is in the state folder.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := logging.NewLogger(os.Stderr)
			if err != nil {
				return err
			}
			cfg.Workers = []string{"agentd", "worker"} // which stands beside this command
			cfg.Log, cfg.Out = log, cmd.OutOrStdout()
			return Run(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Scripts, "scripts", DefaultScripts, "folder of manifests")
	flags.StringVar(&cfg.State, "state", DefaultState, "folder that everything is kept in")
	flags.IntVar(&cfg.Agents, "agents", 3, "how many agents there are")
	flags.StringVar(&cfg.Console, "console", DefaultConsole, "loopback host:port of the console, the web application; none when empty")
	flags.StringVar(&cfg.Gates, "gates", "", "`file` of the sources that steps of rollouts may ask, as for registryd --gates")
	cfg.Artifacts.AddFlags(flags)
	cfg.Debug.AddFlags(flags)
	logging.AddFlags(flags)
	// A person watches this: the log speaks up only when something is wrong.
	logging.Level = slog.LevelError
	flags.Lookup("log-level").DefValue = logging.Level.String()
	logging.Format = "text"
	flags.Lookup("log-format").DefValue = logging.Format
	flagenv.Bind(cmd)
	return cmd
}
