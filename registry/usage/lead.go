package usage

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Times of a leader.
const (
	storeEvery = 30 * time.Second
	retryEvery = 5 * time.Second
	purgeEvery = time.Hour
	// storeTimeout bounds one attempt, and lastTimeout that of a leader that stops.
	storeTimeout = 10 * time.Second
	lastTimeout  = 2 * time.Second
)

// leader is the state of one Lead.
type leader struct {
	*Ledger
	term    int64
	claimed bool
	hours   map[time.Time]*hour // the stored content of hours that this leader wrote
	unsure  *attempt            // the last attempt, if its outcome is unknown
	purged  time.Time
}

// attempt is an attempt to store an hour.
type attempt struct {
	at      time.Time
	part    Part                     // one of the parts: the store has all of them or none
	tenants map[string]*script.Usage // the added usage
}

// Lead counts and stores usage until ctx is done. Each leader has a higher term than all earlier leaders.
func (l *Ledger) Lead(ctx context.Context, term int64) {
	l.lead(true)
	defer l.lead(false)
	on := &leader{Ledger: l, term: term, hours: map[time.Time]*hour{}}
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
			defer cancel()
			if err := on.do(last); err != nil {
				l.cfg.Log.Warn("what calls of tenants used since it was stored last is lost", "error", err)
			}
			return
		}
		err := on.attempt(ctx)
		switch {
		case err == nil:
			wait.Reset(storeEvery)
		case script.KindOf(err) == script.Conflict: // another replica leads: ctx ends soon
			l.lead(false)
			<-ctx.Done()
			return
		default:
			wait.Reset(retryEvery)
			if ctx.Err() == nil {
				l.cfg.Log.Warn("what calls of tenants used is not stored yet", "error", err, "again_in", retryEvery.String())
			}
		}
	}
}

// lead starts or stops counting.
func (l *Ledger) lead(leading bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading, l.since = leading, l.now()
	for _, tenants := range l.pending {
		l.stats.Dropped += uint64(len(tenants))
	}
	clear(l.pending)
}

func (l *leader) attempt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := l.do(ctx); err != nil {
		return err
	}
	return l.purge(ctx)
}

// do stores all that is pending.
func (l *leader) do(ctx context.Context) error {
	if !l.claimed {
		if err := l.cfg.Store.ClaimUsage(ctx, l.term); err != nil {
			return err
		}
		l.claimed = true
	}
	if err := l.settle(ctx); err != nil {
		return err
	}
	if err := l.cfg.Space(); err != nil {
		l.bound()
		return err
	}
	for {
		at, tenants := l.take()
		if tenants == nil {
			return nil
		}
		if err := l.storeHour(ctx, at, tenants); err != nil {
			l.bound()
			return err
		}
	}
}

// settle finds out whether the last attempt stored its usage, and counts the usage again if not.
func (l *leader) settle(ctx context.Context) error {
	last := l.unsure
	if last == nil {
		return nil
	}
	stored, err := l.load(ctx, last.at)
	if err != nil {
		return err
	}
	l.unsure = nil
	if !slices.Equal(stored.part(last.part.Number), last.part.Tenants) {
		l.putBack(last.at, last.tenants)
	}
	return nil
}

// take removes and returns the pending usage of one hour; nil if there is none.
func (l *leader) take() (at time.Time, tenants map[string]*script.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, tenants = range l.pending {
		delete(l.pending, at)
		return at, tenants
	}
	return at, nil
}

// putBack adds usage that take returned to the pending usage.
func (l *leader) putBack(at time.Time, tenants map[string]*script.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pending := l.pending[at]
	if pending == nil {
		l.pending[at] = tenants
		return
	}
	for tenant, u := range tenants {
		if sum := pending[tenant]; sum != nil {
			*sum = sum.Add(*u)
			continue
		}
		pending[tenant] = u
	}
}

// bound drops the oldest hours if too many are pending.
func (l *leader) bound() {
	l.mu.Lock()
	defer l.mu.Unlock()
	hours := slices.SortedFunc(maps.Keys(l.pending), time.Time.Compare)
	for _, at := range hours[:max(0, len(hours)-maxHours)] {
		l.stats.Dropped += uint64(len(l.pending[at]))
		delete(l.pending, at)
	}
}

// storeHour adds usage to the stored content of an hour.
func (l *leader) storeHour(ctx context.Context, at time.Time, tenants map[string]*script.Usage) error {
	stored, err := l.load(ctx, at)
	if err != nil {
		l.putBack(at, tenants)
		return err
	}
	parts, dropped := stored.add(at, tenants)
	delete(l.hours, at) // unknown until the store has answered
	if err := l.cfg.Store.PutUsage(ctx, l.term, parts); err != nil {
		if len(parts) > 0 {
			l.unsure = &attempt{at: at, part: parts[0], tenants: tenants}
		}
		return err
	}
	l.hours[at] = stored
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Dropped += dropped
	l.stats.Stored = l.now()
	return nil
}

// load returns the stored content of an hour.
func (l *leader) load(ctx context.Context, at time.Time) (*hour, error) {
	if known := l.hours[at]; known != nil {
		return known, nil
	}
	stored := &hour{}
	for part, err := range l.cfg.Store.Usage(ctx, at, at.Add(time.Hour), -1) {
		if err != nil {
			return nil, err
		}
		stored.put(part)
	}
	maps.DeleteFunc(l.hours, func(other time.Time, _ *hour) bool { return other.Before(at.Add(-time.Hour)) })
	return stored, nil
}

// purge removes old hours, every purgeEvery.
func (l *leader) purge(ctx context.Context) error {
	now := l.now()
	if now.Sub(l.purged) < purgeEvery {
		return nil
	}
	if err := l.cfg.Store.PurgeUsage(ctx, l.term, now.UTC().Truncate(time.Hour).Add(-script.UsageRetention)); err != nil {
		return err
	}
	l.purged = now
	return nil
}
