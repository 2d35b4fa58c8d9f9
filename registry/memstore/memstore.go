// Package memstore is a registry.Store in memory, for tests.
package memstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Store is a registry.Store in memory.
type Store struct {
	fleet string

	mu       sync.Mutex
	head     script.Revision
	floor    script.Revision // transactions up to here are forgotten
	log      []registry.Transaction
	grown    chan struct{} // closed when the log grows
	releases map[script.Name]script.Release
	versions map[script.Ref]script.Version
	blobs    map[script.Digest][]byte
	history  map[script.Name][]script.HistoryEntry // oldest first
}

var _ registry.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{
		fleet:    rand.Text(),
		grown:    make(chan struct{}),
		releases: map[script.Name]script.Release{},
		versions: map[script.Ref]script.Version{},
		blobs:    map[script.Digest][]byte{},
		history:  map[script.Name][]script.HistoryEntry{},
	}
}

// Compact forgets the transactions up to the revision: watches that have yet to
// see them fail.
func (s *Store) Compact(upTo script.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor = max(s.floor, upTo)
	s.log = slices.DeleteFunc(s.log, func(t registry.Transaction) bool { return t.Revision <= s.floor })
}

// Fleet implements registry.Store.
func (s *Store) Fleet(context.Context) (string, error) { return s.fleet, nil }

// Head implements registry.Store.
func (s *Store) Head(context.Context) (script.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head, nil
}

// Release implements registry.Store.
func (s *Store) Release(_ context.Context, name script.Name) (script.Release, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.releases[name]
	if !ok {
		return script.Release{}, script.Errorf(script.NotFound, "name", "there is no script %s", name)
	}
	return clone(r), nil
}

// Releases implements registry.Store.
func (s *Store) Releases(_ context.Context, tenant string, after script.Name, limit int) ([]script.Release, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var page []script.Release
	for _, r := range s.releases {
		if r.Deleted || tenant != "" && r.Name.Tenant != tenant || !after.IsZero() && r.Name.String() <= after.String() {
			continue
		}
		page = append(page, clone(r))
	}
	slices.SortFunc(page, func(a, b script.Release) int { return strings.Compare(a.Name.String(), b.Name.String()) })
	return page[:min(limit, len(page))], nil
}

// Version implements registry.Store.
func (s *Store) Version(_ context.Context, name script.Name, number uint64) (script.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.versions[script.Ref{Name: name, Version: number}]
	if !ok {
		return script.Version{}, script.Errorf(script.NotFound, "version", "%s has no version %d", name, number)
	}
	return v, nil
}

// Source implements registry.Store.
func (s *Store) Source(_ context.Context, digest script.Digest) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	source, ok := s.blobs[digest]
	if !ok {
		return nil, script.Errorf(script.NotFound, "digest", "there is no source %s", digest)
	}
	return bytes.Clone(source), nil
}

// Sources implements registry.Store.
func (s *Store) Sources(_ context.Context, digests []script.Digest) ([]registry.Source, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []registry.Source
	for _, d := range digests {
		if source, ok := s.blobs[d]; ok {
			found = append(found, registry.Source{Digest: d, Content: bytes.Clone(source)})
		}
	}
	return found, nil
}

// History implements registry.Store.
func (s *Store) History(_ context.Context, name script.Name) ([]script.HistoryEntry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.history[name]
	entries = slices.Clone(entries[max(0, len(entries)-registry.MaxHistory):])
	slices.Reverse(entries)
	return entries, nil
}

// Commit implements registry.Store.
func (s *Store) Commit(_ context.Context, c registry.Commit) (script.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := c.Release.Name
	if now := s.releases[name].Revision; now != c.Guard {
		return 0, script.Errorf(script.Conflict, "", "%s is at revision %d, not %d: somebody else changed it first", name, now, c.Guard)
	}
	s.head++
	release := clone(c.Release)
	release.Revision = s.head
	s.releases[name] = release
	if c.Publish != nil {
		s.versions[script.Ref{Name: name, Version: c.Publish.Number}] = *c.Publish
		s.blobs[c.Publish.Digest] = bytes.Clone(c.Source)
	}
	for _, number := range c.Drop {
		delete(s.versions, script.Ref{Name: name, Version: number})
	}
	entry := c.Entry
	entry.Revision = s.head
	s.history[name] = append(s.history[name], entry)
	s.log = append(s.log, registry.Transaction{Revision: s.head, Releases: []script.Release{release}})
	close(s.grown)
	s.grown = make(chan struct{})
	return s.head, nil
}

// Changes implements registry.Store.
func (s *Store) Changes(_ context.Context, since script.Revision) (registry.Changes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := since <= 0 || since > s.head
	var changed []script.Release
	for r := range maps.Values(s.releases) {
		if full && !r.Deleted || !full && r.Revision > since {
			changed = append(changed, clone(r))
		}
	}
	return registry.Changes{
		Head: s.head,
		Full: full,
		Releases: func(yield func(script.Release, error) bool) {
			for _, r := range changed {
				if !yield(r, nil) {
					return
				}
			}
		},
	}, nil
}

// Watch implements registry.Store.
func (s *Store) Watch(ctx context.Context, after script.Revision) iter.Seq2[registry.Transaction, error] {
	return func(yield func(registry.Transaction, error) bool) {
		for {
			news, grown, err := s.newer(after)
			if err != nil {
				yield(registry.Transaction{}, err)
				return
			}
			for _, t := range news {
				if ctx.Err() != nil || !yield(t, nil) {
					return
				}
				after = t.Revision
			}
			select {
			case <-grown:
			case <-ctx.Done():
				return
			}
		}
	}
}

// newer returns copies of the transactions above after, and what is closed when
// there are more.
func (s *Store) newer(after script.Revision) ([]registry.Transaction, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after < s.floor {
		return nil, nil, script.Errorf(script.Unavailable, "", "up to revision %d: %w", s.floor, registry.ErrForgotten)
	}
	first, _ := slices.BinarySearchFunc(s.log, after+1, func(t registry.Transaction, r script.Revision) int {
		return int(t.Revision - r)
	})
	var news []registry.Transaction
	for _, t := range s.log[first:] {
		news = append(news, registry.Transaction{Revision: t.Revision, Releases: []script.Release{clone(t.Releases[0])}})
	}
	return news, s.grown, nil
}

func clone(r script.Release) script.Release {
	r.Retained = slices.Clone(r.Retained)
	r.Settings.Config = json.RawMessage(bytes.Clone(r.Settings.Config))
	return r
}
