// Package lua is the engine for Lua 5.1: it runs programs in a sandbox that is
// metered, bounded and read-only towards everything that outlives a call.
//
// Package compile reads sources and makes code of them, with the parser and the
// compiler of gopher-lua; package vm is the machine that executes it, a fork of
// gopher-lua's. luajson turns JSON into values and back. stdlib is the library of
// Lua, and hostlib binds engine/hostapi; values and bind are below both. numeral
// reads and writes numbers; diagnose finds the names of what errors are about;
// quantity adds amounts as Kubernetes does; lint looks for mistakes. Here is what is
// left: calls and their bounds, the pool of states, the libraries of tenants.
//
// See docs/writing-scripts.md for the script author's view.
//
// # Bounds
//
// A call is bounded by an instruction budget (meter.go), by wall-clock time and
// memory (watchdog.go), by the call stack (256 calls; tail calls count), by the
// size of any one string, and by the size, depth (32) and number of values (16,384)
// of its arguments and results. What it allocates is counted, what it drops included:
// 1 MiB, and 8 bytes for each instruction of its budget, and never more than 64 MiB
// (accounts.go, vm/meter.go). Builtins charge the budget for work that grows
// with their input: an instruction for each step of a pattern, and for each 64
// bytes copied.
package lua
