package agent

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// state is what the follower changes: first the disk, then what runs.
type state struct {
	store    *store.Store
	table    *cache.Table
	programs *cache.Programs
	group    string // of the feed that is followed

	cursor     follow.Cursor    // as loaded
	incomplete []script.Release // as loaded
	others     []string         // keys of what is on disk and not followed
}

var _ follow.State = (*state)(nil)

// choose takes the releases of other tenants than those that are followed from disk,
// and returns the rest. The cursor of another group is not one of this, but for the
// fleet: it asks for a full snapshot.
func (s *state) choose(loaded *store.Loaded, tenants script.Selector, log *slog.Logger) []script.Release {
	s.cursor = follow.Cursor{Fleet: loaded.Cursor.Fleet, Revision: loaded.Cursor.Revision}
	kept := make([]script.Release, 0, len(loaded.Releases))
	for _, r := range loaded.Releases {
		if tenants.Matches(r.Name.Tenant) {
			kept = append(kept, r)
			continue
		}
		s.others = append(s.others, wire.ReleaseKey(r.Name))
	}
	others := len(s.others)
	var err error
	if len(loaded.Doubted) == 0 { // else with the first snapshot: a commit removes the sources of what is in doubt
		err = s.removeOthers()
	}
	if s.cursor.Revision > 0 && cmp.Or(loaded.Cursor.Group, script.GroupAll) != s.group {
		log.Info("other tenants are followed than before; everything is fetched and compared", "tenants", tenants.String(), "scripts_removed", others)
		s.cursor.Revision = 0
		err = errors.Join(err, s.SaveCursor(s.cursor))
	}
	if err != nil {
		log.Warn("scripts of tenants that are not followed cannot be removed from disk; they are not served, and it is tried again after the first sync", "error", err)
	}
	return kept
}

// removeOthers removes from disk what is not followed.
func (s *state) removeOthers() error {
	if len(s.others) == 0 {
		return nil
	}
	if err := s.store.Commit(store.Batch{Removed: s.others}); err != nil {
		return err
	}
	s.others = nil
	return nil
}

// restore makes live what was on disk. Its programs were compiled before they
// were stored, and are compiled again when they are first called, or before.
func (s *state) restore(releases []script.Release) {
	put := make([]*cache.Release, 0, len(releases))
	for _, r := range releases {
		put = append(put, cache.NewRelease(r))
		if !s.store.HasSource(r.Active.Digest) {
			s.incomplete = append(s.incomplete, r)
		}
	}
	s.table.Update(put, nil)
}

// warm compiles what was on disk, as far as there is room, so that first calls
// need not wait for it.
func (s *state) warm(ctx context.Context, log *slog.Logger) {
	for r := range s.table.All() {
		if ctx.Err() != nil || s.programs.Full() {
			return
		}
		key := cache.KeyOf(r.Active)
		if s.programs.Has(key) || !s.store.HasSource(key.Digest) {
			continue
		}
		source, err := s.store.Source(key.Digest)
		if err == nil {
			err = s.programs.Prepare(key, source, false)
		}
		if err != nil {
			log.Warn("a live script cannot be compiled", "script", r.Name.String(), "version", r.Active.Number, "error", err)
		}
	}
}

// Cursor implements follow.State.
func (s *state) Cursor() follow.Cursor { return s.cursor }

// Revision implements follow.State.
func (s *state) Revision(key string) script.Revision {
	name, ok := strings.CutPrefix(key, keyPrefix)
	if !ok {
		return 0
	}
	if r := s.table.Get(name); r != nil {
		return r.Revision
	}
	return 0
}

const keyPrefix = "releases/"

// Live implements follow.State.
func (s *state) Live() iter.Seq[string] {
	return func(yield func(string) bool) {
		for r := range s.table.All() {
			if !yield(wire.ReleaseKey(r.Name)) {
				return
			}
		}
	}
}

// Incomplete implements follow.State.
func (s *state) Incomplete() []script.Release { return s.incomplete }

// HasSource implements follow.State.
func (s *state) HasSource(d script.Digest) bool { return s.store.HasSource(d) }

// PutSources implements follow.State.
func (s *state) PutSources(sources map[script.Digest][]byte) error {
	list := make([]store.Source, 0, len(sources))
	for d, content := range sources {
		list = append(list, store.Source{Digest: d, Content: content})
	}
	return s.store.PutSources(list)
}

// Prepare implements follow.State.
func (s *state) Prepare(_ context.Context, r script.Release, source []byte, bulk bool) error {
	key := cache.KeyOf(r.Active)
	if s.programs.Has(key) {
		return nil
	}
	if source == nil {
		var err error
		if source, err = s.store.Source(key.Digest); err != nil {
			return script.Errorf(script.Unavailable, "disk", "its source cannot be read: %w", err)
		}
	}
	return s.programs.Prepare(key, source, !bulk)
}

// Commit implements follow.State.
func (s *state) Commit(put []follow.Item, removed []script.Name) error {
	batch := store.Batch{Put: entries(put)}
	live := make([]*cache.Release, 0, len(put))
	for _, item := range put {
		live = append(live, cache.NewRelease(item.Release))
	}
	for _, name := range removed {
		batch.Removed = append(batch.Removed, wire.ReleaseKey(name))
	}
	if err := s.store.Commit(batch); err != nil {
		return err
	}
	s.table.Update(live, removed)
	return nil
}

func entries(items []follow.Item) []store.Entry {
	list := make([]store.Entry, 0, len(items))
	for _, item := range items {
		list = append(list, store.Entry{Release: item.Release, Sealed: item.Sealed, SealedBy: item.SealedBy})
	}
	return list
}

// Reseal implements follow.State.
func (s *state) Reseal(items []follow.Item) error { return s.store.Reseal(entries(items)) }

// Keys implements follow.State.
func (s *state) Keys() []string { return s.store.Keys() }

// Checksum implements follow.State.
func (s *state) Checksum(again int, leftOut []string) wire.Sum {
	names := make([]string, 0, len(leftOut))
	for _, key := range leftOut {
		names = append(names, strings.TrimPrefix(key, keyPrefix))
	}
	return s.table.Checksum(again, names...)
}

// Check implements follow.State.
func (s *state) Check(key string) (wire.Sum, bool) {
	return s.table.Check(strings.TrimPrefix(key, keyPrefix))
}

// SaveCursor implements follow.State. Once there is one, a snapshot has come.
func (s *state) SaveCursor(c follow.Cursor) error {
	var err error
	if c.Revision > 0 {
		err = s.removeOthers()
	}
	return errors.Join(err, s.saveCursor(c))
}

func (s *state) saveCursor(c follow.Cursor) error {
	return s.store.SaveCursor(store.Cursor{Fleet: c.Fleet, Revision: c.Revision, Group: s.group})
}
