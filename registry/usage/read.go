package usage

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Filter says which usage.
type Filter struct {
	Tenant string // all tenants if empty
	// Since and Until are in the first hour and in the one after the last. The zero Times mean all that is kept, and what
	// there is until now.
	Since, Until time.Time
}

// Read yields what calls used, hour by hour, and in each hour in the order of the tenants. An error ends it. It holds
// one hour in memory.
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
		var one []script.HourUsage // of an hour
		tell := func() bool {
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
			if len(one) > 0 && !part.Hour.Equal(one[0].Hour) && !tell() {
				return
			}
			for _, u := range part.Tenants {
				if f.Tenant == "" || u.Tenant == f.Tenant {
					one = append(one, script.HourUsage{Hour: part.Hour, TenantUsage: u})
				}
			}
		}
		tell()
	}
}
