// Package timeline lists events in order of time: writes, from the audit trail and the histories of scripts, and events
// of the fleet, which a Recorder stores.
package timeline

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Store stores records, and reads writes and records. Its errors are those of registry.Store.
type Store interface {
	// Mark returns the store's current position: no event so far has a higher revision.
	Mark(ctx context.Context) (int64, error)
	// History is History of registry.Store.
	History(ctx context.Context, name script.Name) ([]script.HistoryEntry, error)
	// Writes returns a page of the audit trail, newest first. Like Audit of registry.Store, it can return fewer
	// entries than the limit although more follow.
	Writes(ctx context.Context, q Query[script.AuditEntry]) (Page[script.AuditEntry], error)
	// Records returns a page of the records, newest first.
	Records(ctx context.Context, q Query[Record]) (Page[Record], error)
	// PutRecords stores at most MaxBatch records in one transaction, and assigns their revisions and ids.
	// It removes the oldest records of a type above Kept; a few more may stay.
	PutRecords(ctx context.Context, records []Record) error
	// WatchEvents yields each transaction after the mark that has writes or records, in order, until ctx is done or
	// an error ends it. The error wraps registry.ErrForgotten if the store has compacted some of them.
	WatchEvents(ctx context.Context, after int64) iter.Seq2[Batch, error]
}

// MaxBatch is the maximum number of records in one PutRecords.
const MaxBatch = 64

// Kept is the number of records of the type that the store keeps, about. Each type has a limit of its own.
func Kept(t script.EventType) int {
	switch t {
	case script.EventAgent, script.EventQuota:
		return 1024
	}
	return 256
}

// recorded are the types of events other than writes.
var recorded = []script.EventType{script.EventAgent, script.EventDrift, script.EventKey, script.EventQuota}

// Recorded returns the types of events other than writes.
func Recorded() []script.EventType { return slices.Clone(recorded) }

// KeptOfAll is the number of records of all types that the store keeps, about.
func KeptOfAll() (n int) {
	for _, t := range recorded {
		n += Kept(t)
	}
	return n
}

// Record is an event other than a write.
type Record struct {
	script.Event
	// State is set for events about keys: the registry compares its keys with the last State. These records do not
	// expire.
	State string
}

// Expires reports whether old records of the type are removed.
func Expires(t script.EventType) bool { return t != script.EventKey }

// Query selects the items of a page.
type Query[T any] struct {
	Since time.Time        // the zero Time: all
	After string           // the place of an item, or Page.Next; "" begins with the newest
	Limit int              // the number of items at most
	Wants func(of *T) bool // selects items
}

// Page is some of the items.
type Page[T any] struct {
	Items []Item[T]
	// Next is where the next page begins; "" if there are no more items. If it is not "", the page has all items down to
	// the time Down.
	Next string
	Down time.Time
}

// Item is an item of a page, and its place.
type Item[T any] struct {
	Of    T
	Place string
}

// Batch is the events of one transaction.
type Batch struct {
	Revision int64
	Writes   []script.AuditEntry
	Records  []Record
}
