package memstore

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/usage"
	"github.com/scriptorium-dev/scriptorium/script"
)

var _ usage.Store = (*Store)(nil)

// hours are what calls used.
type hours struct {
	term  int64
	parts map[hourPart]usage.Part
}

type hourPart struct {
	at     int64 // Unix time
	number int
}

// ClaimUsage implements usage.Store.
func (s *Store) ClaimUsage(_ context.Context, term int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hours.term > term {
		return s.laterLeader()
	}
	s.hours.term = term
	return nil
}

func (s *Store) laterLeader() error {
	return script.Errorf(script.Conflict, "", "the leader of term %d stores the usage of tenants", s.hours.term)
}

// PutUsage implements usage.Store.
func (s *Store) PutUsage(_ context.Context, term int64, parts []usage.Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hours.term != term {
		return s.laterLeader()
	}
	for _, p := range parts {
		p.Tenants = slices.Clone(p.Tenants)
		s.hours.parts[hourPart{p.Hour.Unix(), p.Number}] = p
	}
	return nil
}

// PurgeUsage implements usage.Store.
func (s *Store) PurgeUsage(_ context.Context, term int64, before time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hours.term != term {
		return s.laterLeader()
	}
	maps.DeleteFunc(s.hours.parts, func(p hourPart, _ usage.Part) bool { return p.at < before.Unix() })
	return nil
}

// Usage implements usage.Store.
func (s *Store) Usage(_ context.Context, from, until time.Time, number int) iter.Seq2[usage.Part, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []usage.Part
	for at, p := range s.hours.parts {
		if at.at >= from.Unix() && at.at < until.Unix() && (number < 0 || at.number == number) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b usage.Part) int { return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Number, b.Number)) })
	return func(yield func(usage.Part, error) bool) {
		for _, p := range found {
			if !yield(p, nil) {
				return
			}
		}
	}
}
