// Package lua is the engine for Lua 5.1: it runs programs in a sandbox that is
// metered, bounded and read-only towards everything that outlives a call.
//
// Package compile reads sources and makes code of them, with the parser and the
// compiler of gopher-lua; package vm is the machine that executes it, a fork of
// gopher-lua's; numeral reads and writes numbers; diagnose finds the names of
// what errors are about; quantity adds amounts as Kubernetes does; lint looks for
// mistakes. Here is what is left: calls and their bounds, the pool of states, JSON,
// and the libraries of scripts.
//
// What a script may do is the list in base.go and the library files beside it,
// which bind engine/hostapi. See docs/writing-scripts.md for the script author's
// view.
//
// # Bounds
//
// A call is bounded by an instruction budget (meter.go), by wall-clock time and
// memory (watchdog.go), by the call stack (256 calls; tail calls count), by the
// size of any one string, and by the size, depth (32) and number of values (16,384)
// of its arguments and results. What it allocates is counted, what it drops included:
// 1 MiB, and 8 bytes for each instruction of its budget, and never more than 64 MiB
// (memory.go, vm/meter.go). Builtins charge the budget for work that grows
// with their input: an instruction for each step of a pattern, and for each 64
// bytes copied.
//
// # JSON
//
// Arrays become tables that remember that they are arrays, so that an empty
// one is still [] on the way back; json.array marks a table of the script's
// own. null is nil. In an array it is json.null, a value equal to itself alone
// (and true in a condition), so that the other elements keep their places. An
// object remembers its null members, and has them again on the way out unless
// the script has assigned to them. nil is null on the way out.
// Unmarked tables with keys 1 to n are arrays, others are objects, whose
// members keep the order in which they were first set; {} is an object. All
// numbers are doubles: integers beyond 2^53 lose digits.
package lua
