// Command distribution is the OCI registry that tests fetch artifacts from: the registry of the CNCF, with the drivers
// that keep everything on this machine and without those of clouds, which most of its build would go to. It ends with
// the process that started it.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

func main() {
	parent := os.Getppid()
	go func() {
		for range time.Tick(time.Second) {
			if os.Getppid() != parent { // a test that panics stops nothing
				os.Exit(0)
			}
		}
	}()
	if err := registry.RootCmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "distribution:", err)
		os.Exit(1)
	}
}
