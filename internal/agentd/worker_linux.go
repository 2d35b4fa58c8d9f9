package agentd

import (
	"github.com/scriptorium-dev/scriptorium/agent/worker/inside"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/version"
)

func runWorker() error {
	set, err := engines.New(engines.Config{Isolated: true, NoMachineCode: true})
	if err != nil {
		return err
	}
	return inside.Run(inside.Config{Engines: set.All(), Version: version.String()})
}
