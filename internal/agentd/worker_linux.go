package agentd

import (
	"github.com/scriptorium-dev/scriptorium/agent/worker/inside"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/version"
)

func runWorker() error {
	return inside.Run(inside.Config{Engines: engines.New(engines.Config{Isolated: true}).All(), Version: version.String()})
}
