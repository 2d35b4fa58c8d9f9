package memstore

import (
	"context"
	"slices"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// PutSource implements registry.Store.
func (s *Store) PutSource(_ context.Context, source []byte) (script.Digest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	digest := script.DigestOf(source)
	s.putSource(digest, source)
	return digest, nil
}

// Restore implements registry.Store.
func (s *Store) Restore(ctx context.Context, r registry.Restoration) (script.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := r.Release.Name
	if err := s.guarded(name, r.Guard); err != nil {
		return 0, err
	}
	if err := s.freezeIs(r.FreezeGuard); err != nil {
		return 0, err
	}
	if len(r.History) == 0 {
		return 0, script.Errorf(script.Internal, "", "the restoration of %s has no line of history", name)
	}
	if most := max(s.releases[name].Latest, s.versionFloors[name]); most > r.Release.Latest {
		return 0, script.Errorf(script.Conflict, "", "%s has had %d versions: the numbers above %d cannot be given again", name, most, r.Release.Latest)
	}
	for digest := range (script.Object{Release: &r.Release}).Retained {
		if _, ok := s.blobs[digest]; !ok {
			return 0, script.Errorf(script.NotFound, "digest", "there is no source %s, which %s needs", digest, name)
		}
	}
	for _, v := range s.releases[name].Retained {
		delete(s.versions, script.Ref{Name: name, Version: v.Number})
	}
	for _, v := range r.Version {
		s.putVersion(name, v)
	}
	older := slices.Clone(r.History[1:])
	slices.Reverse(older)
	for i := range older {
		older[i].Revision = 0
	}
	s.history[name] = older
	s.moment++
	s.restored = s.moment
	t := transaction{audit: []script.AuditEntry{r.Audit}}
	s.change(&t, r.Release, r.History[0])
	t.announce(r.Announced())
	return s.changed(ctx, name.Tenant, t), nil
}

// Record implements registry.Store.
func (s *Store) Record(_ context.Context, r script.Release, _ int64) ([]script.Version, []script.HistoryEntry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var versions []script.Version
	for _, v := range r.Retained {
		full := s.editions[edition{script.Ref{Name: r.Name, Version: v.Number}, v.Digest}]
		full.Spec, full.SpecSize = v.Spec, v.SpecSize // which an older record lacks
		versions = append(versions, full)
	}
	var history []script.HistoryEntry
	for _, e := range slices.Backward(s.history[r.Name]) {
		if e.Revision <= r.Revision && len(history) < registry.MaxHistory {
			history = append(history, e)
		}
	}
	return versions, history, nil
}
