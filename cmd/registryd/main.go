// Command registryd is the registry: it keeps scripts in etcd and tells the
// fleet of every change.
package main

import (
	"github.com/scriptorium-dev/scriptorium/internal/process"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
)

func main() { process.Main(registryd.Command()) }
