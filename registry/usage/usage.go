// Package usage adds up what the calls of tenants use on the fleet, by the hour, from what agents report, and has it
// kept for 31 days.
//
// Every replica of a registry hears every agent. The one that leads counts, and stores every half minute: what it has
// stored it does not count again, and no usage is counted by two. A leader that stops stores the rest. When one is
// lost, so is what it has counted since it stored last, and what agents reported before the next one led.
//
// Agents report each usage several times. The first time counts. A repetition counts if the first time got lost: but a
// leader cannot know that of what was first reported before it led.
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

// Config of a Ledger.
type Config struct {
	Store Store
	// Clock tells the time; time.Now if nil.
	Clock func() time.Time
	// Knows reports whether there is such a tenant, or was: agents may name others.
	Knows func(tenant string) bool
	// Space returns an error while the store takes nothing; nil if it always does.
	Space func() error
	Log   *slog.Logger
}

// Ledger adds up usage. It is safe for concurrent use.
type Ledger struct {
	cfg Config
	now func() time.Time

	mu      sync.Mutex
	heard   map[speaker]heard
	swept   time.Time
	leading bool
	since   time.Time                              // of leading
	pending map[time.Time]map[string]*script.Usage // by hour and tenant: what is not stored yet
	stats   Stats
}

// speaker is an identity that reports for an agent.
type speaker struct{ agent, identity string }

// heard is the last usage that a speaker reported.
type heard struct {
	incarnation string
	sequence    uint64
	at          time.Time
}

// Stats count usages that were reported, since the start.
type Stats struct {
	Counted  uint64
	Clamped  uint64 // of the counted, those that said more than can be
	Repeated uint64 // counted before
	Missed   uint64 // a leader before this may have counted them
	Unknown  uint64 // tenants in reports that there are not
	Dropped  uint64 // tenants' usages that there was no room for, or that were lost with the lead
	// Stored is when a leader here stored usage last; the zero Time if it never did.
	Stored time.Time
}

// New returns a ledger that counts once it leads.
func New(cfg Config) *Ledger {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Space == nil {
		cfg.Space = func() error { return nil }
	}
	return &Ledger{cfg: cfg, now: cfg.Clock, heard: map[speaker]heard{}, pending: map[time.Time]map[string]*script.Usage{}}
}

// Bounds of what agents report, and of what is kept for it.
const (
	maxProcessors = 1024 // of a machine
	// slack is added to the time between two reports of an agent: a call counts when it has ended.
	slack = 10 * time.Second
	// unheard is what a first report covers at most: nobody here knows when the one before was.
	unheard = time.Hour
	// maxTenants of an hour. The fleet has that many at most whose usage is kept.
	maxTenants = 10_000
	// maxHours wait to be stored, while the store is away.
	maxHours = 48
	// forgetAfter is how long the last usage of an agent is known: for longer than it is repeated, and than one that is
	// heard has none to report.
	forgetAfter = 24 * time.Hour
	sweepEvery  = 10 * time.Minute
	// maxSpeakers are known at a time: more than agents that there can be. When there are more, since agents make up
	// names and leave, those are forgotten that did not report for forgetSoon.
	maxSpeakers = 100_000
	forgetSoon  = 2 * time.Minute
	// repeatedFor is how long a usage is repeated after it was first reported, and a bit.
	repeatedFor = 20 * time.Second
)

// Bounds of what one processor does in a second.
const (
	callsASecond        = 5_000_000
	instructionsASecond = 10_000_000_000
	bytesASecond        = 10_000_000_000
)

// Heard takes in the usage of a report. It returns at once.
func (l *Ledger) Heard(r *fleet.Report) {
	u := r.Usage
	if u == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.sweep(now)
	who := speaker{r.Agent, r.Identity}
	last, known := l.heard[who]
	if known && last.incarnation == r.Incarnation && u.Sequence <= last.sequence {
		l.stats.Repeated++
		return
	}
	if !known && len(l.heard) >= maxSpeakers {
		l.stats.Dropped += uint64(len(u.Tenants))
		return
	}
	l.heard[who] = heard{incarnation: r.Incarnation, sequence: u.Sequence, at: now}
	if !l.leading {
		return
	}
	if u.Repeated && now.Sub(l.since) < repeatedFor {
		l.stats.Missed++
		return
	}
	covers := unheard
	if known {
		covers = now.Sub(last.at) + slack
	}
	l.count(u, min(covers, u.Covers+slack), now)
}

// sweep forgets agents that have reported no usage for long. l.mu is held.
func (l *Ledger) sweep(now time.Time) {
	every, age := sweepEvery, forgetAfter
	if len(l.heard) >= maxSpeakers {
		every, age = time.Second, forgetSoon
	}
	if now.Sub(l.swept) < every {
		return
	}
	l.swept = now
	for who, last := range l.heard {
		if now.Sub(last.at) >= age {
			delete(l.heard, who)
		}
	}
}

// count adds a usage of calls that ran in the time. l.mu is held.
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

// clamp takes from the usage what cannot be: calls on that many processors ran no longer all together, and did no more.
// It reports whether there was such.
func clamp(u *fleet.Usage, covers time.Duration) (clamped bool) {
	most := time.Duration(min(max(u.Processors, 1), maxProcessors)) * covers
	clamped = share(u.Tenants, most)
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

// share bounds the sum of the processor times. It takes from those who said most: what a tenant's own process makes up is
// not at the cost of others.
func share(tenants []script.TenantUsage, most time.Duration) (clamped bool) {
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
