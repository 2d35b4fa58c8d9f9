package lua

import (
	"runtime"
	"runtime/metrics"
)

// heapGrowth is by how much the process's heap may grow while one call runs.
const heapGrowth = 256 << 20

// heapGauge reads the size of the process's heap.
type heapGauge struct {
	sample [1]metrics.Sample
}

// read returns the bytes of objects on the heap, garbage not yet swept included.
func (g *heapGauge) read() uint64 {
	g.sample[0].Name = "/memory/classes/heap/objects:bytes"
	metrics.Read(g.sample[:])
	return g.sample[0].Value.Uint64()
}

// readLive collects garbage first, and is slow for that.
func (g *heapGauge) readLive() uint64 {
	runtime.GC()
	return g.read()
}
