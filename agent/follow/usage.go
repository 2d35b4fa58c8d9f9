package follow

import (
	"runtime"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// How often a status reports usage. One status may get lost, and the registry may be about to choose another leader. So
// several statuses, some time apart, repeat each usage.
const (
	usageEvery   = time.Minute
	usageTimes   = 3
	usageApart   = 4 * time.Second // less than statusEvery
	usageTenants = 200
	// usageHeard is how long ago the registry was heard at most: while it is away, what calls use adds up here.
	usageHeard = 10 * time.Second
)

// usage decides which status reports usage. It is used by one goroutine.
type usage struct {
	take func(most int) []callstats.TenantUse // nil: nothing is reported

	current *eventv1.Usage // that is being reported
	times   int            // in how many statuses it was
	at      time.Time      // of the last of them
	since   time.Time      // from when on current covers
	made    time.Time      // current
}

// next returns the usage for the next status, or nil. heard reports whether the registry was heard a moment ago.
// The caller calls sent after it has sent the status.
func (u *usage) next(now time.Time, heard, leaving bool) *eventv1.Usage {
	if u.take == nil {
		return nil
	}
	if u.since.IsZero() {
		u.since, u.made = now, now
	}
	if u.current != nil && u.times < usageTimes && (!leaving || u.times == 0) {
		if u.times > 0 && now.Sub(u.at) < usageApart {
			return nil
		}
		return u.report()
	}
	if !leaving && (!heard || now.Sub(u.made) < usageEvery) {
		return nil
	}
	return u.make(now)
}

// make returns the next usage, or nil if no call used anything.
func (u *usage) make(now time.Time) *eventv1.Usage {
	sequence := u.current.GetSequence() + 1
	u.made = now
	uses := u.take(usageTenants)
	if len(uses) == 0 {
		return nil
	}
	next := &eventv1.Usage{Sequence: sequence, Covers: durationpb.New(now.Sub(u.since)), Processors: uint32(runtime.NumCPU())} //nolint:gosec // not that many
	for _, use := range uses {
		next.Tenants = append(next.Tenants, &eventv1.TenantUsage{
			Tenant: use.Tenant, Calls: use.Calls, Errors: use.Errors, ProcessorTime: durationpb.New(use.Ran),
			Instructions: use.Instructions, BytesIn: use.In, BytesOut: use.Out,
		})
	}
	u.current, u.times, u.since = next, 0, now
	return u.report()
}

// report returns the current usage as the next status has it.
func (u *usage) report() *eventv1.Usage {
	return &eventv1.Usage{
		Sequence: u.current.GetSequence(), Repeated: u.times > 0, Covers: u.current.GetCovers(), Processors: u.current.GetProcessors(), Tenants: u.current.GetTenants(),
	}
}

// sent notes that the usage is on its way.
func (u *usage) sent(told *eventv1.Usage, now time.Time) {
	if told != nil {
		u.times, u.at = u.times+1, now
	}
}
