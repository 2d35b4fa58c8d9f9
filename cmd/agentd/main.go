// Command agentd is the agent of one node: it holds a fleet's scripts and runs
// them for the gateway beside it.
package main

import (
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/process"
)

func main() { process.Main(agentd.Command()) }
