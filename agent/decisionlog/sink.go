// Package decisionlog makes the records of calls, masks them, and writes them to sinks.
package decisionlog

import "context"

// Sink accepts records. Each is one JSON object without a newline: see package proto/decision.
type Sink interface {
	// Write returns when the sink has accepted all records. After an error, except Rejected, it may have accepted none.
	// Write must not retain the records, and must return soon after ctx is done. One goroutine calls it, and not after
	// Close.
	Write(ctx context.Context, records [][]byte) error
	// Close closes the sink. It returns soon after ctx is done.
	Close(ctx context.Context) error
}
