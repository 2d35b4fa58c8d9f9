package engine

import "time"

// Host is what an agent lends to the programs that it runs. Calls of one tenant see
// nothing of another's. Its methods are safe for concurrent use, wait for no network,
// and keep no reference to what they are given. All return at once but Value, which
// reads a content of at most 1 MiB from disk if it is not in memory.
type Host interface {
	// Log takes a line that the script of the invocation has logged. It is bounded
	// and rate-limited there: a line may be cut or left out.
	Log(inv *Invocation, level Level, message string)

	// Value returns the content of the tenant's value with the key; ok is false if
	// there is none. The content is shared: nobody changes it. An error is one of
	// kind Unavailable: there is a value, and it cannot be read now.
	Value(tenant, key string) (content []byte, ok bool, err error)
	// Keys returns at most limit keys of the tenant's values that begin with prefix
	// and come after the key `after`, sorted. The slice is the caller's.
	Keys(tenant, prefix, after string, limit int) []string

	// Count adds n, which may be 0 or negative, to the tenant's counter on this agent
	// and returns what it is then. An error is one of kind Limit: the tenant has too
	// many counters.
	Count(tenant, counter string, n float64) (float64, error)
	// Take takes n tokens from the tenant's bucket on this agent, which holds up to
	// burst and is filled with rate tokens a second, and was full at its first use.
	// If there are too few it takes none: ok is false, and after wait there are
	// enough.
	Take(tenant, bucket string, n, rate, burst float64) (ok bool, wait time.Duration)
}

// Level of a log line.
type Level string

// The levels.
const (
	Info  Level = "info"
	Warn  Level = "warn"
	Error Level = "error"
)

// Turn is a running call's turn on a processor. Whoever gives turns may ask for it
// back, so that a call that takes long does not hold up those that are short: the
// engine then yields at the next instruction.
type Turn interface {
	// Bind tells how to ask: ask may be called from any goroutine, and sets no more
	// than a flag. It may be called late, even when the call has ended; the engine
	// then yields once for nothing. Bind is called once, by the goroutine of the call
	// at its beginning, when the clock of its timeout has begun.
	Bind(ask func())
	// Yield gives the turn up and returns when it is the call's again, at once if
	// nobody waits, and soon if the call's context ends or its timeout has passed: the
	// engine looks at both and ends the call, which has no turn then. It is called by
	// the goroutine of the call.
	Yield()
	// Breathe is called by the goroutine of the call every few thousand instructions:
	// a call that takes long then lets other threads have the processor for a moment.
	Breathe()
}
