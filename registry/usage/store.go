package usage

import (
	"context"
	"hash/fnv"
	"iter"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Parts is into how many parts an hour is divided: a tenant's usage is in one of them.
const Parts = 64

// partOf returns the part of the tenant, from 0.
func partOf(tenant string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(tenant)) // it has no errors
	return int(h.Sum32() % Parts)
}

// Part is what calls of some tenants used in an hour.
type Part struct {
	Hour    time.Time // its beginning
	Number  int
	Tenants []script.TenantUsage // in the order of their names
}

// Store keeps usage. Errors are those of a registry.Store.
type Store interface {
	// ClaimUsage makes the leader of the term the only one that changes what is kept. It is a Conflict if that of a
	// later one is.
	ClaimUsage(ctx context.Context, term int64) error
	// PutUsage stores parts in place of what is kept of them, all or none. It is a Conflict if another term has claimed
	// that. If it is Unavailable, it may or may not have happened. There are no more than Parts.
	PutUsage(ctx context.Context, term int64, parts []Part) error
	// PurgeUsage removes the hours that began before; it is a Conflict as PutUsage is.
	PurgeUsage(ctx context.Context, term int64, before time.Time) error
	// Usage yields the parts of the hours from the one on up to before the other, in their order: those with the number,
	// or all if it is negative. An error ends it.
	Usage(ctx context.Context, from, until time.Time, number int) iter.Seq2[Part, error]
}
