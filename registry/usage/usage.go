// Package usage adds up, for each tenant and hour, the usage that agents report, and stores it for 31 days.
//
// Every replica of a registry receives all reports. Only the leader counts, so that no usage is counted twice. It stores
// the sums every half minute, and once more when it stops. If the leader fails, two parts are lost: what it counted since
// it last stored, and what agents reported until the next leader began.
//
// Agents report each usage several times. The first report counts. A repetition counts if the first report was lost. A
// new leader does not count repetitions at first: the leader before it may have counted the first report.
package usage

import (
	"cmp"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config configures a Ledger.
type Config struct {
	Store Store
	// Clock returns the time; time.Now if nil.
	Clock func() time.Time
	// Knows reports whether the tenant exists or existed. Agents can report any name.
	Knows func(tenant string) bool
	// Space returns an error while the store has no room. It may be nil.
	Space func() error
	Log   *slog.Logger
}

// Ledger adds up usage. It is safe for concurrent use.
type Ledger struct {
	cfg Config
	now func() time.Time

	mu      sync.Mutex
	last    map[reporter]last
	swept   time.Time
	leading bool
	since   time.Time                              // when leading last changed
	pending map[time.Time]map[string]*script.Usage // usage that is not stored, by hour and tenant
	stats   Stats
}

// reporter is an identity that reports for an agent.
type reporter struct{ agent, identity string }

// last is the last usage of a reporter.
type last struct {
	incarnation string
	sequence    uint64
	at          time.Time
}

// Stats counts reports of usage since the start.
type Stats struct {
	Counted  uint64
	Clamped  uint64 // counted, but reduced to what is possible
	Repeated uint64 // counted before
	Missed   uint64 // maybe counted by the leader before
	Unknown  uint64 // tenants in reports that do not exist
	Dropped  uint64 // usages of tenants: no room for them, or not stored before the lead ended
	// Stored is when this replica last stored usage; the zero Time if it never did.
	Stored time.Time
}

// New returns a ledger. It counts while Lead runs.
func New(cfg Config) *Ledger {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Space == nil {
		cfg.Space = func() error { return nil }
	}
	return &Ledger{cfg: cfg, now: cfg.Clock, last: map[reporter]last{}, pending: map[time.Time]map[string]*script.Usage{}}
}

// Bounds of reports, and of memory.
const (
	maxProcessors = 1024 // of a machine
	// slack is added to the time between two reports of an agent: a call counts when it ends.
	slack = 10 * time.Second
	// maxFirst is the time that a first report can cover: this replica does not know of an earlier one.
	maxFirst = time.Hour
	// maxTenants is the number of tenants whose usage is kept in one hour.
	maxTenants = 10_000
	// maxHours is the number of hours in memory while the store is unavailable.
	maxHours = 48
	// forgetAfter is how long a reporter stays in memory after its last usage: longer than agents repeat it.
	forgetAfter = 24 * time.Hour
	sweepEvery  = 10 * time.Minute
	// maxReporters is more than a fleet has. Only agents that make up names reach it. Then reporters stay in memory for
	// forgetSoon.
	maxReporters = 100_000
	forgetSoon   = 2 * time.Minute
	// repeatedFor is longer than agents repeat a usage.
	repeatedFor = 20 * time.Second
)

// Bounds of what one processor does per second.
const (
	callsASecond        = 5_000_000
	instructionsASecond = 10_000_000_000
	bytesASecond        = 10_000_000_000
)

// Heard counts the usage of a report. It does not block.
func (l *Ledger) Heard(r *fleet.Report) {
	u := r.Usage
	if u == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.sweep(now)
	from := reporter{r.Agent, r.Identity}
	before, known := l.last[from]
	if known && before.incarnation == r.Incarnation && u.Sequence <= before.sequence {
		l.stats.Repeated++
		return
	}
	if !known && len(l.last) >= maxReporters {
		l.stats.Dropped += uint64(len(u.Tenants))
		return
	}
	l.last[from] = last{incarnation: r.Incarnation, sequence: u.Sequence, at: now}
	if !l.leading {
		return
	}
	if u.Repeated && now.Sub(l.since) < repeatedFor {
		l.stats.Missed++
		return
	}
	covers := maxFirst
	if known {
		covers = now.Sub(before.at)
	}
	l.count(u, min(covers, u.Covers)+slack, now) // u.Covers is any time, so the sum with it could overflow
}

// sweep removes reporters without a recent report. l.mu is held.
func (l *Ledger) sweep(now time.Time) {
	every, age := sweepEvery, forgetAfter
	if len(l.last) >= maxReporters {
		every, age = time.Second, forgetSoon
	}
	if now.Sub(l.swept) < every {
		return
	}
	l.swept = now
	for from, before := range l.last {
		if now.Sub(before.at) >= age {
			delete(l.last, from)
		}
	}
}

// count adds the usage of calls that ran during covers. l.mu is held.
func (l *Ledger) count(u *fleet.Usage, covers time.Duration, now time.Time) {
	l.stats.Counted++
	clamped := clamp(u, covers)
	if clamped {
		l.stats.Clamped++
	}
	hour := now.UTC().Truncate(time.Hour)
	tenants := l.pending[hour]
	if tenants == nil {
		tenants = map[string]*script.Usage{}
		l.pending[hour] = tenants
	}
	for i := range u.Tenants {
		one := &u.Tenants[i]
		sum := tenants[one.Tenant]
		switch {
		case sum != nil:
		case !l.cfg.Knows(one.Tenant):
			l.stats.Unknown++
			continue
		case len(tenants) >= maxTenants:
			l.stats.Dropped++
			continue
		default:
			sum = &script.Usage{}
			tenants[one.Tenant] = sum
		}
		*sum = sum.Add(one.Usage)
	}
}

// clamp reduces the usage to what the agent's processors can do during covers, and reports whether it did.
func clamp(u *fleet.Usage, covers time.Duration) (clamped bool) {
	most := time.Duration(min(max(u.Processors, 1), maxProcessors)) * covers
	clamped = clampSum(u.Tenants, most)
	bound := func(n *uint64, aSecond float64) {
		if limit := uint64(math.Ceil(most.Seconds() * aSecond)); *n > limit {
			*n, clamped = limit, true
		}
	}
	for i := range u.Tenants {
		one := &u.Tenants[i]
		bound(&one.Calls, callsASecond)
		one.Errors = min(one.Errors, one.Calls)
		bound(&one.Instructions, instructionsASecond)
		bound(&one.BytesIn, bytesASecond)
		bound(&one.BytesOut, bytesASecond)
	}
	return clamped
}

// clampSum bounds the sum of the processor times. It reduces the largest ones, so that a tenant whose process reports too
// much has no effect on others.
func clampSum(tenants []script.TenantUsage, most time.Duration) (clamped bool) {
	order := make([]*script.TenantUsage, len(tenants))
	for i := range tenants {
		order[i] = &tenants[i]
	}
	slices.SortFunc(order, func(a, b *script.TenantUsage) int { return cmp.Compare(a.ProcessorTime, b.ProcessorTime) })
	for i, one := range order {
		if fair := most / time.Duration(len(order)-i); one.ProcessorTime > fair {
			one.ProcessorTime, clamped = fair, true
		}
		most -= one.ProcessorTime
	}
	return clamped
}

// Stats returns the counts.
func (l *Ledger) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}
