//go:build !race

package worker_test

const raceEnabled = false

// deaths are what ends a process, by programs of breaking, and what is seen of it.
var deaths = map[string]string{"overflow": "crash", "maps": "crash", "heap": "memory"}
