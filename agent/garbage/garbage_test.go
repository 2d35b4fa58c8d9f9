package garbage_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/garbage"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{
		0:        1600,
		1 << 20:  1600, // Go counts a heap as 4 MiB at least
		4 << 20:  1600,
		32 << 20: 200,
		64 << 20: 100,
		1 << 30:  100, // which is Go's default
	} {
		if got := garbage.Percent(live); got != want {
			t.Errorf("%d live bytes: %d %%, want %d", live, got, want)
		}
	}
}

// TestAHeapThatGrows: what is there is doubled at most before it is collected, however small the
// heap was a moment ago.
func TestAHeapThatGrows(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	runtime.GC()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	garbage.LeaveRoom(ctx)
	const size = 160 << 20
	held := make([][]byte, 0, size>>20)
	for range cap(held) {
		held = append(held, make([]byte, 1<<20))
	}
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	deadline := time.NewTimer(5 * time.Second) // a look every ten seconds is too late
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for metrics.Read(goal); goal[0].Value.Uint64() > 3*size; metrics.Read(goal) {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("with %d bytes held, the collector waits for %d", size, goal[0].Value.Uint64())
		}
	}
	runtime.KeepAlive(held)
}
