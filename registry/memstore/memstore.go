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

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/registry/usage"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Store is a registry.Store in memory.
type Store struct {
	fleet string

	mu        sync.Mutex
	head      script.Revision            // of the last transaction of a registry
	last      script.Revision            // of the last transaction
	written   int64                      // transactions of registries
	heads     map[string]script.Revision // of tenants
	forgotten script.Revision            // transactions up to here
	log       []registry.Transaction
	grown     chan struct{} // closed when the log grows
	releases  map[script.Name]script.Release
	versions  map[script.Ref]script.Version
	history   map[script.Name][]script.HistoryEntry // oldest first
	audit     []audited                             // in order of time
	records   []recordedEvent                       // in order of time
	batches   []timeline.Batch                      // of both, by revision
	requests  map[request]registry.Done
	values    map[script.ValueKey]script.Value
	histories map[script.ValueKey]script.ValueHistory
	usage     map[string]registry.Usage // by tenant
	hours     hours
	tenants   map[string]script.Tenant
	sets      map[string]script.ChangeSet // by their full names

	blobs         map[script.Digest][]byte
	moment        int64 // counts what Blob.Touched has to tell apart
	touched       map[script.Digest]int64
	restored      int64
	floor         script.Revision
	removals      registry.Removals
	freeze        script.Freeze
	versionFloors map[script.Name]uint64
	spoiled       map[string]registry.Unreadable // by the objects' keys
	// editions are all versions that ever were, for those who read a Record.
	editions map[edition]script.Version
}

// request is the key of a request: each script has ids of its own.
type request struct {
	name script.Name
	id   string
}

// edition tells versions apart that had the same number.
type edition struct {
	ref    script.Ref
	digest script.Digest
}

var (
	_ registry.Store   = (*Store)(nil)
	_ registry.Garbage = (*Store)(nil)
	_ registry.Checkup = (*Store)(nil)
)

// New returns an empty store.
func New() *Store {
	return &Store{
		fleet:         rand.Text(),
		heads:         map[string]script.Revision{},
		removals:      registry.Removals{Made: map[string]int64{}},
		grown:         make(chan struct{}),
		releases:      map[script.Name]script.Release{},
		versions:      map[script.Ref]script.Version{},
		history:       map[script.Name][]script.HistoryEntry{},
		requests:      map[request]registry.Done{},
		values:        map[script.ValueKey]script.Value{},
		histories:     map[script.ValueKey]script.ValueHistory{},
		usage:         map[string]registry.Usage{},
		hours:         hours{parts: map[hourPart]usage.Part{}},
		tenants:       map[string]script.Tenant{},
		sets:          map[string]script.ChangeSet{},
		blobs:         map[script.Digest][]byte{},
		touched:       map[script.Digest]int64{},
		versionFloors: map[script.Name]uint64{},
		spoiled:       map[string]registry.Unreadable{},
		editions:      map[edition]script.Version{},
	}
}

// Compact forgets the transactions up to the revision: watches that have yet to
// see them fail.
func (s *Store) Compact(upTo script.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten = max(s.forgotten, upTo)
	s.log = slices.DeleteFunc(s.log, func(t registry.Transaction) bool { return t.Revision <= s.forgotten })
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
	if err := s.unreadable(script.Object{Release: &script.Release{Name: name}}); err != nil {
		return script.Release{}, err
	}
	if r, ok := s.releases[name]; ok {
		return clone(r), nil
	}
	if latest, ok := s.versionFloors[name]; ok {
		return script.Release{Name: name, Latest: latest, Deleted: true}, nil
	}
	return script.Release{}, script.Errorf(script.NotFound, "name", "there is no script %s", name)
}

// Releases implements registry.Store.
func (s *Store) Releases(_ context.Context, tenant string, after script.Name, limit int) ([]script.Release, []registry.Unreadable, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var page []script.Release
	for _, r := range s.releases {
		if s.isSpoiled(script.Object{Release: &r}) || r.Deleted || tenant != "" && r.Name.Tenant != tenant || !after.IsZero() && r.Name.String() <= after.String() {
			continue
		}
		page = append(page, clone(r))
	}
	slices.SortFunc(page, func(a, b script.Release) int { return strings.Compare(a.Name.String(), b.Name.String()) })
	prefix, from := "releases/", ""
	if tenant != "" {
		prefix += tenant + "/"
	}
	if !after.IsZero() {
		from = script.Object{Release: &script.Release{Name: after}}.Key()
	}
	page, lost := cut(s, page, limit, prefix, from, func(r *script.Release) script.Object { return script.Object{Release: r} })
	return page, lost, nil
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
func (s *Store) Commit(ctx context.Context, c registry.Commit) (script.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayCommit(c); err != nil {
		return 0, err
	}
	var t transaction
	s.apply(&t, c)
	return s.changed(ctx, c.Release.Name.Tenant, t), nil
}

// mayCommit returns an error if a guard of the commit does not hold.
func (s *Store) mayCommit(c registry.Commit) error {
	name := c.Release.Name
	if err := s.guarded(name, c.Guard); err != nil {
		return err
	}
	if err := s.freezeIs(c.FreezeGuard); err != nil {
		return err
	}
	settings := script.Object{Tenant: &script.Tenant{Name: name.Tenant}}
	if g := c.TenantGuard; g != nil && s.revision(settings, s.tenants[name.Tenant].Revision) != *g {
		return script.Errorf(script.Conflict, "", "the settings of %s were changed by somebody else first", name.Tenant)
	}
	if _, ok := s.requests[request{name, c.RequestID}]; ok {
		return script.Errorf(script.Conflict, "", "the change of %s was made already", name)
	}
	if c.Publish != nil && c.Guard == 0 && s.versionFloors[name] != c.Publish.Number-1 {
		return script.Errorf(script.Conflict, "", "%s was made and deleted in the meantime", name)
	}
	return nil
}

// apply makes the commit part of the next transaction.
func (s *Store) apply(t *transaction, c registry.Commit) {
	name := c.Release.Name
	if c.Publish != nil {
		s.putVersion(name, *c.Publish)
		s.putSource(c.Publish.Digest, c.Source)
	}
	if c.Spec != nil {
		s.putSource(c.Publish.Spec, c.Spec.Document())
	}
	if c.Signed != nil {
		s.putVersion(name, *c.Signed)
	}
	for _, number := range c.Drop {
		delete(s.versions, script.Ref{Name: name, Version: number})
	}
	s.change(t, c.Release, c.Entry)
	t.audit = append(t.audit, c.Audit)
	t.announce(c.Announced())
	if c.RequestID != "" {
		done := registry.Done{Name: name, Fingerprint: c.Fingerprint, Change: c.Entry.Change, Revision: s.last + 1, Version: c.Found}
		if c.Publish != nil {
			done.Version = c.Publish.Number
		}
		s.requests[request{name, c.RequestID}] = done
	}
}

func (s *Store) guarded(name script.Name, guard script.Revision) error {
	if now := s.revision(script.Object{Release: &script.Release{Name: name}}, s.releases[name].Revision); now != guard {
		return script.Errorf(script.Conflict, "", "%s is at revision %d, not %d: somebody else changed it first", name, now, guard)
	}
	return nil
}

// transaction is the next one, in the making. Its revision is s.last + 1.
type transaction struct {
	registry.Transaction
	audit []script.AuditEntry // the zero AuditEntry: none
}

// announce has those who watch get the content with the transaction.
func (t *transaction) announce(content []byte, ok bool) {
	digest := script.DigestOf(content)
	if ok && !slices.ContainsFunc(t.Sources, func(s registry.Source) bool { return s.Digest == digest }) {
		t.Sources = append(t.Sources, registry.Source{Digest: digest, Content: bytes.Clone(content)})
	}
}

// change makes a release what it is to be.
func (s *Store) change(t *transaction, release script.Release, entry script.HistoryEntry) {
	name, next := release.Name, s.last+1
	release = clone(release)
	release.Revision = next
	s.releases[name] = release
	if entry != (script.HistoryEntry{}) {
		entry.Revision = next
		s.history[name] = append(s.history[name], entry)
	}
	t.Releases = append(t.Releases, release)
}

// changed makes t the next transaction, which touched the tenant, and returns its
// revision.
func (s *Store) changed(ctx context.Context, tenant string, t transaction) script.Revision {
	s.last++
	s.head = s.last
	s.heads[tenant] = s.head
	for o := range t.Objects() {
		delete(s.spoiled, o.Key())
		if o.Deleted() {
			s.removals.Made[tenant]++
			t.Removals.Made = map[string]int64{tenant: s.removals.Made[tenant]}
		}
	}
	s.written++
	t.Revision, t.Written, t.Trace = s.head, s.written, tracecontext.From(ctx)
	for _, audit := range t.audit {
		if audit != (script.AuditEntry{}) {
			audit.Revision = s.head
			s.addAudit(audit)
		}
	}
	s.grow(t.Transaction)
	return s.head
}

// grow adds the transaction to those that are watched.
func (s *Store) grow(t registry.Transaction) {
	s.log = append(s.log, t)
	s.wake()
}

// wake has those who watch look again.
func (s *Store) wake() {
	close(s.grown)
	s.grown = make(chan struct{})
}

func (s *Store) putVersion(name script.Name, v script.Version) {
	ref := script.Ref{Name: name, Version: v.Number}
	s.versions[ref] = v
	s.editions[edition{ref, v.Digest}] = v
}

func (s *Store) putSource(digest script.Digest, source []byte) {
	s.moment++
	s.touched[digest] = s.moment
	if _, ok := s.blobs[digest]; !ok {
		s.blobs[digest] = bytes.Clone(source)
	}
}

// Snapshot implements registry.Store.
func (s *Store) Snapshot(context.Context) (registry.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]script.Release, 0, len(s.releases))
	for r := range maps.Values(s.releases) {
		all = append(all, clone(r))
	}
	slices.SortFunc(all, func(a, b script.Release) int { return strings.Compare(a.Name.String(), b.Name.String()) })
	return registry.Snapshot{
		Fleet:    s.fleet,
		At:       int64(s.last),
		Head:     s.head,
		Written:  s.written,
		Floor:    s.floor,
		Heads:    maps.Clone(s.heads),
		Removals: registry.Removals{Made: maps.Clone(s.removals.Made), Accepted: s.removals.Accepted, At: s.removals.At},
		Freeze:   s.freeze,
		Releases: spoiling(s, all, func(r *script.Release) script.Object { return script.Object{Release: r} }),
		Values:   spoiling(s, s.sortedValues(), func(v *script.Value) script.Object { return script.Object{Value: v} }),
		Tenants:  spoiling(s, s.sortedTenants(), func(t *script.Tenant) script.Object { return script.Object{Tenant: t} }),

		Histories: s.snapshotHistories(),
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
	if after < s.forgotten {
		return nil, nil, script.Errorf(script.Unavailable, "", "up to revision %d: %w", s.forgotten, registry.ErrForgotten)
	}
	first, _ := slices.BinarySearchFunc(s.log, after+1, func(t registry.Transaction, r script.Revision) int {
		return int(t.Revision - r)
	})
	var news []registry.Transaction
	for _, t := range s.log[first:] {
		t.Releases = slices.Clone(t.Releases)
		for i, r := range t.Releases {
			t.Releases[i] = clone(r)
		}
		t.Values, t.Tenants = slices.Clone(t.Values), slices.Clone(t.Tenants)
		news = append(news, t)
	}
	return news, s.grown, nil
}

func clone(r script.Release) script.Release {
	r.Retained = slices.Clone(r.Retained)
	r.Settings.Spec = cloneSpec(r.Settings.Spec)
	r.Settings.Rollout.Steps = slices.Clone(r.Settings.Rollout.Steps)
	if r.Candidate != nil {
		candidate := *r.Candidate
		candidate.Spec = cloneSpec(candidate.Spec)
		if candidate.Set != nil {
			set := *candidate.Set
			set.Scripts, set.Values, set.Plan.Steps = slices.Clone(set.Scripts), slices.Clone(set.Values), slices.Clone(set.Plan.Steps)
			candidate.Set = &set
		}
		r.Candidate = &candidate
	}
	return r
}

func cloneSpec(s script.Spec) script.Spec {
	s.Config, s.Tests = json.RawMessage(bytes.Clone(s.Config)), slices.Clone(s.Tests)
	return s
}
