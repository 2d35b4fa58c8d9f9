package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/script"
)

// audited is an entry of the audit trail with its number, which is its token.
type audited struct {
	number int
	entry  script.AuditEntry
}

// addAudit keeps the trail in order of time.
func (s *Store) addAudit(e script.AuditEntry) {
	s.moment++
	at := len(s.audit)
	for at > 0 && e.Time.Before(s.audit[at-1].entry.Time) {
		at--
	}
	s.audit = slices.Insert(s.audit, at, audited{number: int(s.moment), entry: e})
	b := s.batch(e.Revision)
	b.Writes = append(b.Writes, e)
}

// Audit implements registry.Store.
func (s *Store) Audit(ctx context.Context, filter registry.AuditFilter, after string, limit int) ([]script.AuditEntry, string, error) {
	page, err := s.Writes(ctx, timeline.Query[script.AuditEntry]{
		Since: filter.Since, After: after, Limit: limit, Wants: func(e *script.AuditEntry) bool { return filter.Matches(*e) },
	})
	var entries []script.AuditEntry
	for i := range page.Items {
		entries = append(entries, page.Items[i].Of)
	}
	return entries, page.Next, err
}

// AddAudit implements registry.Store.
func (s *Store) AddAudit(_ context.Context, e script.AuditEntry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addAudit(e)
	return nil
}

// TrimAudit implements registry.Garbage.
func (s *Store) TrimAudit(_ context.Context, before time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.audit)
	s.audit = slices.DeleteFunc(s.audit, func(a audited) bool { return a.entry.Time.Before(before) })
	return all - len(s.audit), nil
}

// Request implements registry.Store. Requests are remembered for ever.
func (s *Store) Request(_ context.Context, name script.Name, id string) (registry.Done, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done, ok := s.requests[request{name, id}]
	return done, ok, nil
}

// NoteRequest implements registry.Store.
func (s *Store) NoteRequest(_ context.Context, guard script.Revision, id string, done registry.Done) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.guarded(done.Name, guard); err != nil {
		return err
	}
	key := request{done.Name, id}
	if _, ok := s.requests[key]; ok {
		return script.Errorf(script.Conflict, "", "the change of %s was made already", done.Name)
	}
	done.Revision = 0
	s.requests[key] = done
	return nil
}
