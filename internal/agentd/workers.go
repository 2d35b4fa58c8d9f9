package agentd

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Workers says how the processes of tenants that are walled off are started.
type Workers struct {
	// Command are the arguments with which this program runs WorkerCommand; without any,
	// there are no such processes.
	Command []string
	Users   string // that they run as, if this process is root; worker.DefaultUsers when empty
	Cgroup  string
	Spares  int
}

func (w *Workers) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&w.Users, workerUIDs, worker.DefaultUsers.String(), "users that tenants' own processes run as, if this agent is root: each has one for itself, and the group of the same number. Nobody else may have them")
	flags.StringVar(&w.Cgroup, "worker-cgroup", "", "cgroup v2 folder that limits tenants' own processes, delegated to this agent and without processes. When empty: the parent of the agent's own cgroup, if that is named agent")
	flags.IntVar(&w.Spares, "worker-spares", 0, "processes kept ready for tenants that have their own; 0 means as many as there are such tenants, up to 4")
}

const workerUIDs = "worker-uids"

// users returns whom such processes run as. It refuses users that somebody else has.
func (w *Workers) users() (worker.Users, error) {
	if w.Users == "" {
		return worker.DefaultUsers, nil
	}
	users, err := worker.ParseUsers(w.Users)
	if err == nil && len(w.Command) > 0 && os.Geteuid() == 0 {
		err = users.CheckFree("/etc")
	}
	if err != nil {
		return users, script.Errorf(script.Invalid, "--"+workerUIDs, "%w", err)
	}
	return users, nil
}

// tenantsDir is the folder of tenants' own sockets, in that of the sockets.
const tenantsDir = "tenants"

func (c *Config) workers(users worker.Users, sockets *tenantSockets) worker.Config {
	return worker.Config{
		Groups: c.TenantSockets, Isolated: sockets.isolated,
		Command: c.Workers.Command, Dir: filepath.Join(c.SocketDir, tenantsDir), Access: accessRules(c.Allow),
		Users: users, Cgroup: c.Workers.Cgroup, Spares: c.Workers.Spares,
	}
}

// workerCommand is the name of the hidden command.
const workerCommand = "worker"

// WorkerCommand returns the command that the process of one tenant runs. Only an agent
// starts it; a program that runs agents has it, and says so in Workers.Command.
func WorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    workerCommand,
		Short:  "Run the scripts of one tenant, confined; an agent starts this",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return runWorker() },
	}
}
