package usage

import (
	"context"
	"hash/fnv"
	"iter"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Parts is the number of parts of an hour. The usage of a tenant is in one of them.
const Parts = 64

// partOf returns the part of the tenant, from 0.
func partOf(tenant string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(tenant)) // it has no errors
	return int(h.Sum32() % Parts)
}

// Part is the usage of some tenants in an hour.
type Part struct {
	Hour    time.Time // its beginning
	Number  int
	Tenants []script.TenantUsage // sorted by name
}

// Store stores usage. Its errors are those of registry.Store.
type Store interface {
	// ClaimUsage makes the leader of the term the only writer. The error is a Conflict if a later term has claimed it.
	ClaimUsage(ctx context.Context, term int64) error
	// PutUsage replaces parts, at most Parts, in one transaction. The error is a Conflict if another term has claimed the
	// usage. After an Unavailable, the parts may be stored or not.
	PutUsage(ctx context.Context, term int64, parts []Part) error
	// PurgeUsage removes the hours that began before the time. The error is a Conflict as of PutUsage.
	PurgeUsage(ctx context.Context, term int64, before time.Time) error
	// Usage yields parts of the hours in [from, until), in order: the parts with the number, or all parts if it is
	// negative. An error ends it.
	Usage(ctx context.Context, from, until time.Time, number int) iter.Seq2[Part, error]
}
