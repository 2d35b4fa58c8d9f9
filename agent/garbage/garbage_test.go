package garbage_test

import (
	"context"
	"runtime"
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

// After a collection that finds a heap grown, the next one comes when it has grown by as
// much again, not by as many times as a small heap may.
func TestLeaveRoom(t *testing.T) {
	t.Setenv("GOGC", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	garbage.LeaveRoom(ctx)
	read := func(name string) uint64 {
		sample := []metrics.Sample{{Name: name}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	const grown = 2 * garbage.Room
	kept := make([]byte, grown)
	runtime.GC()
	for read("/gc/heap/goal:bytes") > 3*grown {
		runtime.Gosched() // until what follows a collection has run
	}
	runtime.KeepAlive(kept)
	if percent := read("/gc/gogc:percent"); percent != 100 {
		t.Errorf("%d %%, want 100", percent)
	}
}
