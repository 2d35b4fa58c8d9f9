// Package decisionlog makes the record of a call, masks it, and brings it to the sinks.
package decisionlog

import "context"

// Sink takes records. Each is one JSON object without a newline: see package proto/decision.
type Sink interface {
	// Write returns when the sink has accepted all records; an error means that it may have none, unless
	// it is a Rejected. It keeps none of them, and returns soon after ctx is done. It is called by one
	// goroutine, and no longer after Close.
	Write(ctx context.Context, records [][]byte) error
	// Close ends what the sink does, until ctx is done.
	Close(ctx context.Context) error
}
