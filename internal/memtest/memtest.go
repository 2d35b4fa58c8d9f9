// Package memtest tells tests how much memory their process uses.
package memtest

import "runtime"

// Heap returns the bytes of live objects.
func Heap() int64 { return int64(collected().HeapAlloc) }

// InUse returns the bytes of the spans that hold live objects, and of stacks.
func InUse() int64 {
	m := collected()
	return int64(m.HeapInuse + m.StackInuse)
}

func collected() *runtime.MemStats {
	for range 3 { // what lies in a sync.Pool survives the first
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return &m
}
