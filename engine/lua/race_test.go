//go:build race

package lua

// RaceEnabled reports whether the race detector slows everything down.
const RaceEnabled = true
