package memstore

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Freeze implements registry.Store.
func (s *Store) Freeze(context.Context) (script.Freeze, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freeze, nil
}

// CommitFreeze implements registry.Store.
func (s *Store) CommitFreeze(_ context.Context, c registry.FreezeCommit) (script.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.freezeIs(c.Guard); err != nil {
		return 0, err
	}
	s.last++
	s.freeze, s.freeze.Revision, c.Audit.Revision = c.Freeze, s.last, s.last
	s.addAudit(c.Audit)
	s.grow(registry.Transaction{Revision: s.last, Foreign: true, Freeze: new(s.freeze)})
	return s.last, nil
}

// SpoilFreeze makes the record of the freeze unreadable, as Spoil does that of an object.
func (s *Store) SpoilFreeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.freeze = script.Freeze{Revision: s.last, Unreadable: "it was spoiled"}
	s.grow(registry.Transaction{Revision: s.last, Foreign: true, Freeze: new(s.freeze)})
}

// freezeIs refuses a commit that was decided with another freeze.
func (s *Store) freezeIs(revision script.Revision) error {
	if s.freeze.Revision != revision {
		return script.Errorf(script.Conflict, "", "somebody else changed the freeze first")
	}
	return nil
}
