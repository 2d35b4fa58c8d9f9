package memstore

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Tombstones implements registry.Garbage.
func (s *Store) Tombstones(_ context.Context, before time.Time) iter.Seq2[script.Object, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []script.Object
	add := func(o script.Object) {
		if !s.isSpoiled(o) && o.Deleted() && o.ChangedAt().Before(before) {
			found = append(found, o)
		}
	}
	for _, r := range s.releases {
		r = clone(r)
		add(script.Object{Release: &r})
	}
	for _, v := range s.values {
		add(script.Object{Value: &v})
	}
	for _, t := range s.tenants {
		add(script.Object{Tenant: &t})
	}
	return without(found)
}

// VersionFloors implements registry.Store.
func (s *Store) VersionFloors(context.Context) iter.Seq2[script.Release, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []script.Release
	for name, latest := range s.versionFloors {
		found = append(found, script.Release{Name: name, Latest: latest, Deleted: true})
	}
	return without(found)
}

// Purge implements registry.Garbage.
func (s *Store) Purge(_ context.Context, tombstone script.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision := tombstone.Revision()
	switch {
	case tombstone.Value != nil && s.values[tombstone.Value.Key].Revision == revision:
		key := tombstone.Value.Key
		delete(s.values, key)
		usage := s.usage[key.Tenant]
		h := s.histories[key]
		if usage.Older >= 0 {
			usage.Older -= h.OlderBytes()
		}
		usage.Mark++
		s.usage[key.Tenant] = usage
		delete(s.histories, key)
		delete(s.spoiled, historyKey(key))
	case tombstone.Tenant != nil && s.tenants[tombstone.Tenant.Name].Revision == revision:
		delete(s.tenants, tombstone.Tenant.Name)
	case tombstone.Release != nil && s.releases[tombstone.Release.Name].Revision == revision:
		name := tombstone.Release.Name
		delete(s.releases, name)
		delete(s.history, name)
		s.versionFloors[name] = tombstone.Release.Latest
	default:
		return nil
	}
	s.floor = max(s.floor, revision)
	return nil
}

// Blobs implements registry.Garbage.
func (s *Store) Blobs(context.Context) iter.Seq2[registry.Blob, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []registry.Blob
	for _, digest := range slices.Collect(maps.Keys(s.blobs)) {
		found = append(found, registry.Blob{Digest: digest, Touched: s.moment})
	}
	return without(found)
}

// Discard implements registry.Garbage.
func (s *Store) Discard(_ context.Context, b registry.Blob) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.touched[b.Digest] > b.Touched || s.restored > b.Touched {
		return false, nil
	}
	delete(s.blobs, b.Digest)
	delete(s.touched, b.Digest)
	return true, nil
}

// without yields all of them, without an error.
func without[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range all {
			if !yield(item, nil) {
				return
			}
		}
	}
}
