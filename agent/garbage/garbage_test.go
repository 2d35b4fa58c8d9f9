package garbage_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

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
	const most = 160 << 20
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	var held [][]byte
	for size := 0; size < most; size += 1 << 20 {
		held = append(held, make([]byte, 1<<20))
		if metrics.Read(goal); goal[0].Value.Uint64() > 3*most {
			t.Fatalf("with %d bytes held, the collector waits for %d", size, goal[0].Value.Uint64())
		}
	}
	runtime.KeepAlive(held)
}
