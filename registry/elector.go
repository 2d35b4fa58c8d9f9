package registry

import "context"

// Elector elects one of the replicas of a registry to lead. It is safe for
// concurrent use.
type Elector interface {
	// Campaign waits until this replica leads. Errors are those of ctx, and
	// Unavailable.
	Campaign(ctx context.Context) (Leadership, error)
}

// Leadership is that of one replica, until it is lost or resigned.
type Leadership interface {
	// Term is higher than that of every leadership before.
	Term() int64
	// Lost is closed when this replica may not be the only one to lead any more. It
	// may be closed a little late.
	Lost() <-chan struct{}
	// Resign lets another replica lead at once. It must be called, also after the
	// leadership was lost.
	Resign(ctx context.Context) error
}
