//go:build !linux

package agentd

import (
	"runtime"

	"github.com/scriptorium-dev/scriptorium/script"
)

func runWorker() error {
	return script.Errorf(script.Unavailable, "", "processes of tenants cannot be confined on %s", runtime.GOOS)
}
