// Package garbage has Go's collector run less often in an agent. Its heap is small,
// and each call leaves a little garbage: by Go's default, a collection for every few
// megabytes of it, some ten a second on a busy agent, each of which slows all calls
// down while it lasts.
package garbage

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Room is how much garbage there may be at least before it is collected.
const Room = 64 << 20

const (
	leastPerc    = 100 // Go's default, from where on the live heap makes room enough
	mostPerc     = 100 * Room / smallestHeap
	smallestHeap = 4 << 20 // as Go takes it at least
)

// LeaveRoom sets after how much growth of the heap the collector runs, and again after each
// collection, until ctx is done: a heap that has become large would otherwise grow by a
// multiple of itself. It does nothing if the environment says when (GOGC). A memory limit
// (GOMEMLIMIT) holds all the same. It is for the process: call it once.
func LeaveRoom(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	set(ctx, 0)
}

// canary is collected by the next collection.
type canary struct{ self *canary }

// set sets the percentage, unless it is that already, and again after the next collection.
func set(ctx context.Context, now int) {
	if ctx.Err() != nil {
		return
	}
	if percent := Percent(live()); percent != now { // it stops the world
		debug.SetGCPercent(percent)
		now = percent
	}
	c := &canary{}
	c.self = c
	runtime.AddCleanup(c, func(now int) { set(ctx, now) }, now)
}

// Percent returns by how much a heap of so many live bytes may grow before the
// collector runs, as GOGC counts it.
func Percent(live uint64) int {
	return int(min(max(100*Room/max(live, 1), leastPerc), mostPerc))
}

// live returns what the last collection found to be in use.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
