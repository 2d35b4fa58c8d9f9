// Package timeline tells what happened, in order: the writes that the audit trail and the
// history of scripts have, and what befell the fleet, which a Recorder stores within bounds.
package timeline

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Store keeps the records, and has the writes. Errors are as those of a registry.Store.
type Store interface {
	// Mark returns the store's own mark of the moment: it is the revision of an event, or above.
	Mark(ctx context.Context) (int64, error)
	// History is that of a registry.Store.
	History(ctx context.Context, name script.Name) ([]script.HistoryEntry, error)
	// Writes returns a page of the audit trail, newest first. Like Audit of a registry.Store, it may
	// return fewer than the limit, and say where to go on.
	Writes(ctx context.Context, q Query[script.AuditEntry]) (Page[script.AuditEntry], error)
	// Records returns a page of the records, newest first.
	Records(ctx context.Context, q Query[Record]) (Page[Record], error)
	// PutRecords stores at most MaxBatch records in one transaction. It gives them revisions
	// and ids. It removes the oldest records where a type has more than Kept says, and may leave a
	// few more.
	PutRecords(ctx context.Context, records []Record) error
	// WatchEvents yields each transaction above the mark that has writes or records, in
	// order, until ctx is done or an error ends it. registry.ErrForgotten is in the error's chain
	// if the store has forgotten some of them.
	WatchEvents(ctx context.Context, after int64) iter.Seq2[Batch, error]
}

// MaxBatch is how many records are stored at a time.
const MaxBatch = 64

// Kept is how many records of the type are kept, about. Those of one type take no room of others.
func Kept(t script.EventType) int {
	switch t {
	case script.EventAgent, script.EventQuota:
		return 1024
	}
	return 256
}

// recorded are the types of events that are no writes.
var recorded = []script.EventType{script.EventAgent, script.EventDrift, script.EventKey, script.EventQuota}

// Recorded returns the types of events that are no writes.
func Recorded() []script.EventType { return slices.Clone(recorded) }

// KeptOfAll is how many records of all types are kept, about.
func KeptOfAll() (n int) {
	for _, t := range recorded {
		n += Kept(t)
	}
	return n
}

// Record is an event that is no write.
type Record struct {
	script.Event
	// State of an event of keys is what its next one compares with. Such records do not expire, so
	// that the registry knows what it had last.
	State string
}

// Expires reports whether the record is removed when it is old.
func Expires(t script.EventType) bool { return t != script.EventKey }

// Query says which items a page has.
type Query[T any] struct {
	Since time.Time        // the zero Time: all
	After string           // the place of an item, or Page.Next; "" begins with the newest
	Limit int              // at most so many
	Wants func(of *T) bool // those alone
}

// Page is some of the items.
type Page[T any] struct {
	Items []Item[T]
	// Next is where to go on; "" if there are no more. The page then has all down to the time Down.
	Next string
	Down time.Time
}

// Item is one of a page, and its place.
type Item[T any] struct {
	Of    T
	Place string
}

// Batch is what one transaction brought.
type Batch struct {
	Revision int64
	Writes   []script.AuditEntry
	Records  []Record
}
