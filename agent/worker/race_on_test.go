//go:build race

package worker_test

const raceEnabled = true

// deaths are fewer than without the race detector, whose own memory is not bounded.
var deaths = map[string]string{"overflow": "crash", "maps": "crash"}
