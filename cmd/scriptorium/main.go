// Command scriptorium is everything in one process, for trying it out.
package main

import (
	"github.com/scriptorium-dev/scriptorium/internal/process"
	"github.com/scriptorium-dev/scriptorium/internal/scriptorium"
)

func main() { process.Main(scriptorium.Command()) }
