package memstore

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Spoil makes the record of the object with the key unreadable, as somebody does who writes
// to the store past the registry. If forgets, the store does not know any more what the
// object was before.
func (s *Store) Spoil(key string, forgets bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	u := registry.Unreadable{Key: key, Revision: s.last, Reason: "it was spoiled"}
	if !forgets {
		u.Last = s.object(key)
	}
	s.spoiled[key] = u
	if strings.HasPrefix(key, "changesets/") { // nobody watches it
		return
	}
	if name, ok := strings.CutPrefix(key, "kvhistory/"); ok { // nobody watches it
		if k, err := script.ParseValueKey(name); err == nil && forgets {
			h := s.histories[k]
			s.histories[k] = script.ValueHistory{Key: k, Latest: 2 * h.Latest}
		}
		return
	}
	u.Last = nil // a watch does not tell
	s.grow(registry.Transaction{Revision: s.last, Foreign: true, Unreadable: []registry.Unreadable{u}})
}

// object returns a copy of the object with the key; nil if there is none.
func (s *Store) object(key string) *script.Object {
	for _, r := range s.releases {
		if o := (script.Object{Release: &r}); o.Key() == key {
			r = clone(r)
			return &o
		}
	}
	for _, v := range s.values {
		if o := (script.Object{Value: &v}); o.Key() == key {
			return &o
		}
	}
	for _, t := range s.tenants {
		if o := (script.Object{Tenant: &t}); o.Key() == key {
			return &o
		}
	}
	return nil
}

func (s *Store) isSpoiled(o script.Object) bool { return s.unreadable(o) != nil }

func (s *Store) unreadable(o script.Object) error {
	u, ok := s.spoiled[o.Key()]
	if !ok {
		return nil
	}
	return script.Errorf(script.Internal, "", "%w", &u)
}

// revision returns that of the object's record, which is other than the object's if it was
// spoiled.
func (s *Store) revision(o script.Object, whole script.Revision) script.Revision {
	if u, ok := s.spoiled[o.Key()]; ok {
		return u.Revision
	}
	return whole
}

// spoiling yields all of them, and errors in place of those that were spoiled. Those that
// were there before they were spoiled are not among them.
func spoiling[T any](s *Store, all []T, object func(*T) script.Object) iter.Seq2[T, error] {
	errs := make([]error, len(all))
	for i := range all {
		errs[i] = s.unreadable(object(&all[i]))
	}
	return func(yield func(T, error) bool) {
		for i := range all {
			if !yield(all[i], errs[i]) {
				return
			}
		}
	}
}

// cut returns at most limit of the page, and what was spoiled of the keys with the prefix:
// after from, and up to the end of the page if there are more.
func cut[T any](s *Store, page []T, limit int, prefix, from string, object func(*T) script.Object) (kept []T, lost []registry.Unreadable) {
	end := "~"
	if len(page) >= limit {
		page = page[:limit]
		end = object(&page[limit-1]).Key()
	}
	for key, u := range s.spoiled {
		if strings.HasPrefix(key, prefix) && key > from && key < end {
			lost = append(lost, u)
		}
	}
	slices.SortFunc(lost, func(a, b registry.Unreadable) int { return strings.Compare(a.Key, b.Key) })
	return page, lost
}

// Remains implements registry.Store.
func (s *Store) Remains(_ context.Context, u registry.Unreadable) (registry.Remains, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ok := s.spoiled[u.Key]
	if !ok || now.Revision != u.Revision {
		return registry.Remains{}, script.Errorf(script.Conflict, "", "the record of %s was replaced in the meantime", u.Key)
	}
	remains := registry.Remains{Last: now.Last, First: s.object(u.Key) == nil}
	name, ok := u.Script()
	if !ok {
		return remains, nil
	}
	for ref, v := range s.versions {
		if ref.Name == name {
			remains.Versions = append(remains.Versions, v)
		}
	}
	slices.SortFunc(remains.Versions, func(a, b script.Version) int { return int(a.Number) - int(b.Number) })
	for _, e := range slices.Backward(s.history[name]) {
		remains.History = append(remains.History, e)
	}
	remains.Current, remains.VersionFloor = len(remains.History) > 0, s.versionFloors[name]
	return remains, nil
}

// VersionRecords implements registry.Checkup: all can be read.
func (s *Store) VersionRecords(context.Context) iter.Seq2[registry.VersionRecord, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []registry.VersionRecord
	for ref := range s.versions {
		found = append(found, registry.VersionRecord{Name: ref.Name, Number: ref.Version})
	}
	return without(found)
}

// RepairVersion implements registry.Checkup.
func (s *Store) RepairVersion(_ context.Context, release script.Release, number uint64, v *script.Version) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.guarded(release.Name, release.Revision); err != nil {
		return err
	}
	if v == nil {
		delete(s.versions, script.Ref{Name: release.Name, Version: number})
		return nil
	}
	s.putVersion(release.Name, *v)
	return nil
}

// PastSource implements registry.Checkup: the past is forgotten.
func (s *Store) PastSource(_ context.Context, digest script.Digest) ([]byte, error) {
	return nil, script.Errorf(script.NotFound, "digest", "there is no source %s any more", digest)
}

// AcceptLoss implements registry.Checkup.
func (s *Store) AcceptLoss(_ context.Context, objects int64, freeze script.Revision, audit script.AuditEntry) (script.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.freezeIs(freeze); err != nil {
		return 0, err
	}
	s.last++
	s.head = s.last
	s.written++
	s.removals.Accepted, s.removals.At = objects, s.head
	audit.Revision = s.head
	s.addAudit(audit)
	s.grow(registry.Transaction{Revision: s.head, Written: s.written, Removals: registry.Removals{Accepted: objects, At: s.head}})
	return s.head, nil
}

// Lose forgets the objects with the keys, as a store does that lost some of its records.
// Watches do not tell.
func (s *Store) Lose(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		switch o := s.object(key); {
		case o == nil:
		case o.Release != nil:
			delete(s.releases, o.Release.Name)
		case o.Value != nil:
			delete(s.values, o.Value.Key)
		default:
			delete(s.tenants, o.Tenant.Name)
		}
	}
}

// ReplaceSource implements registry.Checkup.
func (s *Store) ReplaceSource(_ context.Context, source registry.Source) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.blobs, source.Digest)
	s.putSource(source.Digest, source.Content)
	return nil
}
