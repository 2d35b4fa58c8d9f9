package garbage_test

import (
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
