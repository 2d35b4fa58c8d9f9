// Command operator puts scripts of a Kubernetes cluster into a registry, and says in
// their status how far they have come.
package main

import (
	"github.com/scriptorium-dev/scriptorium/internal/operatord"
	"github.com/scriptorium-dev/scriptorium/internal/process"
)

func main() { process.Main(operatord.Command()) }
