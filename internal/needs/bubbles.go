package needs

import (
	"runtime"
	"testing"
)

// OneProcessor is for the TestMain of a package that tests random schedules in bubbles of synctest, or
// that runs many timers in one. Go's race detector uses one race context for all timers of a bubble. If
// two processors fire timers at the same instant, it can crash. See https://go.dev/issue/78156.
func OneProcessor(m *testing.M) int {
	if Race {
		runtime.GOMAXPROCS(1)
	}
	return m.Run()
}
