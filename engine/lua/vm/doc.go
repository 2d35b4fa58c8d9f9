// Package vm is the machine that executes Lua 5.1: a fork of the one in github.com/yuin/gopher-lua v1.1.2, whose
// licence is in LICENSE. gopher-lua itself is still what parses and compiles: NewProto takes its bytecode.
//
// # What differs from gopher-lua
//
//   - A Meter is part of the machine: it counts each instruction before it is executed, and the memory that
//     instructions allocate. gopher-lua asks a context.Context for Done.
//   - Instructions are executed by one loop with a switch. gopher-lua calls a function for each.
//   - The stack of calls grows as it is needed, up to a bound, and calls of Go and of Lua count alike. There are no
//     tail calls: OP_TAILCALL is OP_CALL, so that recursion meets the bound.
//   - A frame has its registers to itself until it returns, as in PUC Lua. What it leaves behind is cleared.
//   - Tables keep keys and values in the order of their first assignment, found by one map. gopher-lua hashes a new key
//     four times. Where the array part ends is fixed: see MaxArrayIndex.
//   - A table may have members that are made when they are asked for (Lazy), and an environment may be seen through
//     (Behind).
//   - An error closes the variables of the functions that it ends, and no others. It carries the functions that ran as
//     data (Trace), not as text. Only errors of Lua are caught by coroutines.
//   - -0 stays -0. Strings compare bytewise, by the meter's leave. Messages are those of PUC Lua.
//   - A thread that waits in a yield gets as many values as the yield has room for.
//   - There is no library, no loader, no debug interface, no channel, and none of LState's helpers that the engine
//     does not use. OP_LEN and OP_CONCAT do not occur: the engine's compiler calls builtins in their place.
package vm
