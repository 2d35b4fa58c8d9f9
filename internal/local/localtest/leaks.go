package localtest

import (
	"os"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// Held counts what a process can leak: goroutines, and file descriptors where /proc shows them.
type Held struct{ Goroutines, Descriptors int }

// Hold counts what the process holds now.
func Hold() Held {
	files, _ := os.ReadDir("/proc/self/fd")
	return Held{Goroutines: pprof.Lookup("goroutine").Count(), Descriptors: len(files)}
}

// Settle waits until the process holds no more than before: what ends may take a moment to. It fails
// the test if that does not come, and shows the goroutines.
func Settle(tb testing.TB, before Held) {
	tb.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(Patience)
	for {
		now := Hold()
		if now.Goroutines <= before.Goroutines && now.Descriptors <= before.Descriptors {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			var all strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
			tb.Fatalf("the process holds %+v, and held %+v before\n%s", now, before, all.String())
		}
	}
}
