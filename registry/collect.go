package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// CollectorConfig is what a Collector is made of.
type CollectorConfig struct {
	Store   Store
	Garbage Garbage // of the same store
	// Interval is the time between two rounds; DefaultCollectInterval if 0.
	Interval time.Duration
	// TombstoneRetention is how long a tombstone is kept. An agent that comes back
	// later gets a full snapshot. DefaultTombstoneRetention if 0.
	TombstoneRetention time.Duration
	// AuditRetention is how long entries of the audit trail are kept, and events of the timeline that
	// are no writes; 0: for ever.
	AuditRetention time.Duration
	// Expire deletes a personal version that has expired, and reports whether it did: not if the release has
	// changed. Nil for none.
	Expire func(ctx context.Context, name script.Name, at script.Revision) (deleted bool, err error)
	// Clock tells the time; time.Now if nil.
	Clock func() time.Time
	Log   *slog.Logger
	// Collected, if not nil, is called at the end of each round. It must not block.
	Collected func(Collected, error)
}

// Defaults of a CollectorConfig.
const (
	DefaultCollectInterval    = 10 * time.Minute
	DefaultTombstoneRetention = 24 * time.Hour
)

// Collected is what a round removed.
type Collected struct {
	Tombstones   int
	Sources      int
	AuditEntries int
	Events       int
	Personal     int
}

// Collector removes from a store what nobody needs any more: old tombstones, sources
// that no release retains, contents that no value has and no history of a value, old
// entries of the audit trail and of the timeline, and personal versions that have expired. What is said of sources here holds for contents: a commit of a value
// is like a publish, also a rollback: it writes the content if it is not there. One collector of a
// store is enough, and the leader runs it; several do no harm.
//
// A source is removed in the second of two rounds that find it unneeded, and only if
// it was neither written nor needed from the first listing on. That is safe whatever
// happens at the same time, because of three facts. The store sees to the first: a
// commit that makes a release retain a source it did not retain before (a publish, or
// a restoration) marks the source as needed in that same transaction, a publish also
// writes the source if it is not there, and a restoration fails if it is not. The
// second: Discard is one transaction that does nothing if there is such a mark from
// after the listing. The third: each round lists the sources first and takes its
// snapshot of the releases after that.
//
//   - A publish that commits before the listing is in the snapshot, so its source is
//     not unneeded (unless it was dropped again, which leaves it so).
//   - A publish that commits between the listing and Discard has left its mark.
//   - A publish that commits after Discard writes the source again. A retry of a
//     publish is another publish, or gets the first one's result and writes nothing.
//   - A restoration is the same, but that the last case fails it: the import then
//     puts the sources of that script again. Sources that were put and not needed yet
//     are marked too, so that an import has at least a round's interval between
//     putting a source and needing it, however long it takes as a whole.
//   - Nothing else makes a release retain what it did not: pins and rollbacks choose
//     among what is retained.
//   - Whoever reads a release (an agent, an event on its way, an export) and then its
//     sources has at least an interval for it after they were dropped. One that
//     comes later finds that the release has changed since.
type Collector struct {
	cfg CollectorConfig
	// suspects are the sources that the last round found unneeded, as it listed them.
	suspects map[script.Digest]Blob
	// expired are the personal versions that this round has found.
	expired []*script.Release
}

// NewCollector returns a collector.
func NewCollector(cfg CollectorConfig) *Collector {
	if cfg.Interval == 0 {
		cfg.Interval = DefaultCollectInterval
	}
	if cfg.TombstoneRetention == 0 {
		cfg.TombstoneRetention = DefaultTombstoneRetention
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Collected == nil {
		cfg.Collected = func(Collected, error) {}
	}
	return &Collector{cfg: cfg}
}

// Run collects once an interval until ctx is done. It starts with a round at once,
// and must not be called again before it returned.
func (c *Collector) Run(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Interval)
	defer ticker.Stop()
	c.suspects = nil // maybe from long ago
	for {
		c.round(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Collector) round(ctx context.Context) {
	started := c.cfg.Clock()
	done, err := c.Collect(ctx)
	if ctx.Err() != nil {
		return
	}
	c.cfg.Collected(done, err)
	if err != nil {
		c.cfg.Log.Warn("not everything could be collected; the next round tries again", "error", err, "interval", c.cfg.Interval)
	}
	if done != (Collected{}) {
		c.cfg.Log.Info("collected what nobody needs any more", "tombstones", done.Tombstones, "sources", done.Sources,
			"audit_entries", done.AuditEntries, "events", done.Events, "personal_versions", done.Personal, "took", c.cfg.Clock().Sub(started))
	}
}

// Collect is one round. What it cannot do does not keep it from the rest. It must
// not be called while Run or another Collect is under way.
func (c *Collector) Collect(ctx context.Context) (Collected, error) {
	var done Collected
	now := c.cfg.Clock()
	purgeErr := c.purge(ctx, now.Add(-c.cfg.TombstoneRetention), &done)
	discardErr := c.discard(ctx, &done)
	expireErr := c.expire(ctx, &done)
	var trimErr, eventsErr error
	if c.cfg.AuditRetention > 0 {
		done.AuditEntries, trimErr = c.cfg.Garbage.TrimAudit(ctx, now.Add(-c.cfg.AuditRetention))
		done.Events, eventsErr = c.cfg.Garbage.TrimEvents(ctx, now.Add(-c.cfg.AuditRetention))
	}
	return done, errors.Join(purgeErr, discardErr, expireErr, trimErr, eventsErr)
}

func (c *Collector) purge(ctx context.Context, before time.Time, done *Collected) error {
	for tombstone, err := range c.cfg.Garbage.Tombstones(ctx, before) {
		if err != nil {
			return fmt.Errorf("look for tombstones: %w", err)
		}
		if err := c.cfg.Garbage.Purge(ctx, tombstone); err != nil {
			return fmt.Errorf("remove the tombstone of %s: %w", tombstone.Key(), err)
		}
		done.Tombstones++
	}
	return nil
}

func (c *Collector) discard(ctx context.Context, done *Collected) error {
	unneeded := map[script.Digest]Blob{}
	for blob, err := range c.cfg.Garbage.Blobs(ctx) {
		if err != nil {
			return fmt.Errorf("list the sources: %w", err)
		}
		unneeded[blob.Digest] = blob
	}
	// The snapshot has to come after the listing.
	snapshot, err := c.cfg.Store.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("find out which sources are needed: %w", err)
	}
	values, spared := map[string]bool{}, true
	c.expired = nil
	for object, err := range snapshot.Objects() {
		if u, ok := errors.AsType[*Unreadable](err); ok {
			if !c.spare(ctx, u, unneeded) {
				c.cfg.Log.Warn("no sources are collected: nobody can tell which ones this record needs", "record", u.Key, "revision", u.Revision)
				spared = false
			}
			values[u.Key] = true
			continue
		}
		if err != nil {
			return fmt.Errorf("find out which sources are needed: %w", err)
		}
		if object.Value != nil {
			values[object.Key()] = true
		}
		if r := object.Release; r != nil && !r.Deleted && c.cfg.Expire != nil {
			if expired(r, c.cfg.Clock()) {
				c.expired = append(c.expired, r)
			}
		}
		for digest := range object.Retained {
			delete(unneeded, digest)
		}
	}
	if !spared {
		c.suspects = nil
		return nil
	}
	if err := c.histories(ctx, snapshot, values, unneeded, done); err != nil {
		return err
	}
	before := c.suspects
	c.suspects = unneeded
	for digest := range unneeded {
		suspect, ok := before[digest]
		if !ok {
			continue
		}
		discarded, err := c.cfg.Garbage.Discard(ctx, suspect)
		if err != nil {
			return fmt.Errorf("remove a source: %w", err)
		}
		if discarded {
			delete(unneeded, digest)
			done.Sources++
		}
	}
	return nil
}

// expired reports whether r is a personal version whose time is over. A candidate, which waits for the end of a freeze,
// may last longer.
func expired(r *script.Release, now time.Time) bool {
	over := func(s script.Spec) bool { return s.Personal != nil && s.Personal.Expired(now) }
	return over(r.Settings.Spec) && (r.Candidate == nil || over(r.Candidate.Spec))
}

// expire deletes the personal versions that discard has found.
func (c *Collector) expire(ctx context.Context, done *Collected) error {
	var errs []error
	for _, r := range c.expired {
		deleted, err := c.cfg.Expire(ctx, r.Name, r.Revision)
		if err != nil {
			errs = append(errs, fmt.Errorf("delete the personal version %s, which has expired: %w", r.Name, err))
		}
		if deleted {
			done.Personal++
		}
	}
	c.expired = nil
	return errors.Join(errs...)
}

// histories removes from unneeded what the histories of values retain. A history of no value is left
// by a registry that knows no histories: it goes as the tombstone did. Nobody can go back to what a
// history says that cannot be read, and that the store has forgotten: without a value it goes at once.
func (c *Collector) histories(ctx context.Context, snapshot Snapshot, values map[string]bool, unneeded map[script.Digest]Blob, done *Collected) error {
	before := c.cfg.Clock().Add(-c.cfg.TombstoneRetention)
	for h, err := range snapshot.Histories {
		_, unreadable := errors.AsType[*Unreadable](err)
		if err != nil && !unreadable {
			return fmt.Errorf("find out which contents are retained: %w", err)
		}
		gone := script.Object{Value: &script.Value{Key: h.Key, Deleted: true}}
		old := len(h.Lines) == 0 || h.Lines[0].Time.Before(before)
		if old && h.Key.Validate() == nil && !values[gone.Key()] {
			if err := c.cfg.Garbage.Purge(ctx, gone); err != nil {
				return fmt.Errorf("remove the history of %s: %w", h.Key, err)
			}
			done.Tombstones++
		}
		for _, line := range h.Lines {
			delete(unneeded, line.Digest)
		}
	}
	return nil
}

// spare removes from unneeded what an object with an unreadable record needs. It reports
// whether the store knows all that the object needs.
func (c *Collector) spare(ctx context.Context, u *Unreadable, unneeded map[script.Digest]Blob) bool {
	remains, err := c.cfg.Store.Remains(ctx, *u)
	if err != nil {
		return false
	}
	if last := remains.Last; last != nil {
		for digest := range last.Retained {
			delete(unneeded, digest)
		}
	}
	for _, v := range remains.Versions {
		delete(unneeded, v.Digest)
		delete(unneeded, v.Spec)
	}
	if remains.Last != nil || remains.First || u.Kind() == script.Tenants {
		return true
	}
	_, isScript := u.Script()
	return isScript && len(remains.Broken) == 0
}
