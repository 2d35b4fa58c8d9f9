package engine

// ProfileEvery is how many instructions of a profiled call lie between two samples. It is a prime, so
// that no loop is in step with it.
const ProfileEvery = 1009

// MaxProfileDepth is how many functions a sample has at most.
const MaxProfileDepth = 64

// Profiler takes samples of where calls spend their instructions. It is safe for concurrent use.
type Profiler interface {
	// Sample is called by the goroutine of a call. stack is where the call is, the innermost function
	// first. What it has stood for since the last sample is about so many instructions. Sample
	// returns at once, and keeps no reference to stack.
	Sample(stack []Frame, instructions uint64)
}

// Frame is a function that a call is in. It has no text of the tenant: names are in the source.
type Frame struct {
	// Builtin is the name of a function of the engine, such as "string.rep", or of what a call does
	// outside of functions, such as Outside; "" for a function of the source.
	Builtin string
	// Function is the line on which the function of the source begins; 0 for the chunk.
	Function int32
	// Line that is executed; 0 for a builtin, and where it is not known.
	Line int32
}

// What stands in place of names of builtins.
const (
	// Outside is where a call reads its arguments and writes its results.
	Outside = "(arguments and results)"
	// Deeper stands for the functions that a sample of MaxProfileDepth has no room for.
	Deeper = "(more callers)"
)
