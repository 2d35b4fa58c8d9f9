package agentd

import (
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
	UID     int // that they run as, if this process is root; not 0: see worker.Nobody
	GID     int
	Cgroup  string
	Spares  int
}

func (w *Workers) addFlags(flags *pflag.FlagSet) {
	flags.IntVar(&w.UID, "worker-uid", worker.Nobody, "user that tenants' own processes run as, if this agent is root")
	flags.IntVar(&w.GID, "worker-gid", worker.Nobody, "group that tenants' own processes run as, if this agent is root")
	flags.StringVar(&w.Cgroup, "worker-cgroup", "", "cgroup v2 folder that limits tenants' own processes, delegated to this agent and without processes. When empty: the parent of the agent's own cgroup, if that is named agent")
	flags.IntVar(&w.Spares, "worker-spares", 0, "processes kept ready for tenants that have their own; 0 means as many as there are such tenants, up to 4")
}

// validate refuses root, where such processes are started at all.
func (w *Workers) validate() error {
	if len(w.Command) == 0 {
		return nil
	}
	for flag, id := range map[string]int{"--worker-uid": w.UID, "--worker-gid": w.GID} {
		if id == 0 {
			return script.Errorf(script.Invalid, flag, "is 0, which is root: name a user or group that is not, such as %d", worker.Nobody)
		}
	}
	return nil
}

// tenantsDir is the folder of tenants' own sockets, in that of the sockets.
const tenantsDir = "tenants"

func (c *Config) workers() worker.Config {
	return worker.Config{
		Command: c.Workers.Command, Dir: filepath.Join(c.SocketDir, tenantsDir), Access: splitRules(c.Allow),
		UID: c.Workers.UID, GID: c.Workers.GID, Cgroup: c.Workers.Cgroup, Spares: c.Workers.Spares,
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
