package lua_test

import (
	"runtime"
	"sort"
	"syscall"
	"testing"
	"time"
	"fmt"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
)

func cpuNow() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(1, &u) // RUSAGE_THREAD
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestProbeCompile(t *testing.T) {
	runtime.LockOSThread()
	e := lua.New()
	type row struct{ s string; cpu time.Duration }
	var rows []row
	for name, source := range sourceBombs {
		src := source(64 << 10)
		src = src[:min(len(src), 64<<10)]
		best := time.Hour
		var mem uint64
		var err error
		for range 3 {
			runtime.GC()
			a := readHeap(heapAllocs)
			c := cpuNow()
			_, err = e.Compile(engine.Source{Code: []byte(src)})
			best = min(best, cpuNow()-c)
			mem = readHeap(heapAllocs) - a
		}
		rows = append(rows, row{fmt.Sprintf("%-14s %6d KiB %6v  %.60v", name, mem>>10, best, err), best})
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].cpu > rows[j].cpu })
	for _, r := range rows {
		t.Log(r.s)
	}
}
