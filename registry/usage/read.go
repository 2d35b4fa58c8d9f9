package usage

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Filter selects usage.
type Filter struct {
	Tenant string // all tenants if empty
	// Since is rounded down to an hour, and Until is rounded up. The zero Since means all stored usage, and the zero Until
	// means now.
	Since, Until time.Time
}

// Read yields usage by hour, and in each hour sorted by tenant. An error ends it. It holds one hour in memory.
func (l *Ledger) Read(ctx context.Context, f Filter) iter.Seq2[script.HourUsage, error] {
	now := l.now().UTC()
	from, until := now.Add(-script.UsageRetention).Truncate(time.Hour), now.Truncate(time.Hour).Add(time.Hour)
	if since := f.Since.UTC().Truncate(time.Hour); since.After(from) {
		from = since
	}
	if !f.Until.IsZero() && f.Until.Before(until) {
		until = f.Until.UTC().Add(time.Hour - 1).Truncate(time.Hour)
	}
	number := -1
	if f.Tenant != "" {
		number = partOf(f.Tenant)
	}
	return func(yield func(script.HourUsage, error) bool) {
		var one []script.HourUsage // of the current hour
		flush := func() bool {
			slices.SortFunc(one, func(a, b script.HourUsage) int { return cmp.Compare(a.Tenant, b.Tenant) })
			for _, u := range one {
				if !yield(u, nil) {
					return false
				}
			}
			one = one[:0]
			return true
		}
		for part, err := range l.cfg.Store.Usage(ctx, from, until, number) {
			if err != nil {
				yield(script.HourUsage{}, err)
				return
			}
			if len(one) > 0 && !part.Hour.Equal(one[0].Hour) && !flush() {
				return
			}
			for _, u := range part.Tenants {
				if f.Tenant == "" || u.Tenant == f.Tenant {
					one = append(one, script.HourUsage{Hour: part.Hour, TenantUsage: u})
				}
			}
		}
		flush()
	}
}
