package script

import (
	"math"
	"time"
)

// UsageRetention is how long the registry keeps what the calls of tenants used.
const UsageRetention = 31 * 24 * time.Hour

// Usage is what calls used, and how many there were.
type Usage struct {
	Calls  uint64
	Errors uint64 // calls that ended with an error
	// ProcessorTime is the time that calls had a turn on a processor.
	ProcessorTime     time.Duration
	Instructions      uint64
	BytesIn, BytesOut uint64 // of arguments and of results
}

// IsZero reports whether there were no calls.
func (u Usage) IsZero() bool { return u == Usage{} }

// Add returns the sum of both. It does not overflow.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Calls: addUp(u.Calls, v.Calls), Errors: addUp(u.Errors, v.Errors),
		ProcessorTime: u.ProcessorTime + min(v.ProcessorTime, math.MaxInt64-u.ProcessorTime),
		Instructions:  addUp(u.Instructions, v.Instructions),
		BytesIn:       addUp(u.BytesIn, v.BytesIn), BytesOut: addUp(u.BytesOut, v.BytesOut),
	}
}

func addUp(a, b uint64) uint64 { return a + min(b, math.MaxUint64-a) }

// TenantUsage is what the calls of a tenant used.
type TenantUsage struct {
	Tenant string
	Usage
}

// HourUsage is what the calls of a tenant used in an hour.
type HourUsage struct {
	Hour time.Time // its beginning
	TenantUsage
}
