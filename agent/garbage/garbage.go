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
// collection, until ctx is done: what a heap of a few megabytes has room for, many times
// its size, must not hold for one that has grown since. It does nothing if the environment
// says when (GOGC). A memory limit (GOMEMLIMIT) holds all the same. It is for the process:
// call it once.
func LeaveRoom(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	l := &leaver{ctx: ctx}
	l.collected(0)
}

// leaver leaves room until ctx is done.
type leaver struct {
	ctx context.Context
	set int // percent
}

// witness is what a collection collects, and no other thing with it.
type witness struct{ _ *witness }

// collected is called after each collection.
func (l *leaver) collected(int) {
	if l.ctx.Err() != nil {
		return
	}
	const little = 8 // changes by less than a part of it are not worth stopping the world
	if percent := Percent(live()); max(percent-l.set, l.set-percent) > l.set/little {
		l.set = percent
		debug.SetGCPercent(percent)
	}
	runtime.AddCleanup(&witness{}, l.collected, 0)
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
