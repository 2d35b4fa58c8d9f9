package agentd

import (
	"github.com/scriptorium-dev/scriptorium/agent/worker/inside"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/internal/version"
)

func runWorker() error {
	return inside.Run(inside.Config{Engines: []engine.Engine{lua.New()}, Version: version.String()})
}
