// Package garbage has Go's collector run less often in an agent. Its heap is small,
// and each call leaves a little garbage: by Go's default, a collection for every few
// megabytes of it, some ten a second on a busy agent, each of which slows all calls
// down while it lasts.
package garbage

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Room is how much garbage there may be at least before it is collected.
const Room = 64 << 20

const (
	often        = 10 * time.Second
	leastPerc    = 100 // Go's default, from where on the live heap makes room enough
	mostPerc     = 100 * Room / smallestHeap
	smallestHeap = 4 << 20 // as Go takes it at least
)

// LeaveRoom sets after how much growth of the heap the collector runs, and again as
// the heap changes, until ctx is done. It does nothing if the environment says when
// (GOGC). A memory limit (GOMEMLIMIT) holds all the same. It is for the process: call
// it once.
func LeaveRoom(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	go func() {
		again := time.NewTicker(often)
		defer again.Stop()
		for {
			debug.SetGCPercent(Percent(live()))
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	}()
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
