package agent

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/agent/trial"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// state is what the follower changes: first the disk, then what runs.
type state struct {
	store    *store.Store
	table    *cache.Table
	values   *cache.Values
	tenants  *cache.Tenants
	programs *cache.Programs
	agent    script.Agent  // itself, which decides what of candidates runs here
	tester   *trial.Tester // of candidates
	observer observer      // may be nil
	group    string        // of the feed that is followed
	roots    *publisher.Roots

	cursor     follow.Cursor               // as loaded
	incomplete []script.Object             // as loaded
	others     []string                    // keys of what is on disk and not followed
	refused    map[string]struct{}         // keys of what is on disk and not live: see choose and restore
	trouble    atomic.Pointer[diskTrouble] // the last write that failed
}

var _ follow.State = (*state)(nil)

// observer keeps copies of what is live, such as those that processes of their own
// run.
type observer interface {
	// Committed is called when a change is durable, before it goes live here. It gets the
	// whole change, which the observer should activate as one swap, too. An object in put
	// may be live already, unchanged: its content was lost, and is there again. What the
	// objects need can be read from the agent's store. The change counts as activated once
	// Committed returns. One goroutine at a time calls it, and later changes wait for it.
	Committed(put []script.Object, removed []string)
}

// live is a table of live objects of one kind, by the names that come after their kind
// in their keys.
type live interface {
	Revision(name string) script.Revision
	Names() iter.Seq[string]
	Checksum(again int, leftOut ...string) wire.Sum
	Check(name string) (fingerprint wire.Sum, sound bool)
}

// nothing is the table of what is not followed.
type nothing struct{}

func (nothing) Revision(string) script.Revision          { return 0 }
func (nothing) Names() iter.Seq[string]                  { return func(func(string) bool) {} }
func (nothing) Checksum(int, ...string) (none wire.Sum)  { return none }
func (nothing) Check(string) (none wire.Sum, sound bool) { return none, false }

// choose takes the objects of other tenants than those that are followed from disk,
// and returns the rest. It leaves out the scripts of tenants whose settings are lost: they may need a process of
// their own, or a record of each call. The full snapshot that follows a loss brings both. The cursor of another
// group is not one of this, but for the fleet: it asks for a full snapshot. So is one that has passed what was not kept.
func (s *state) choose(loaded *store.Loaded, tenants script.Selector, log *slog.Logger) []script.Object {
	s.cursor = follow.Cursor{Fleet: loaded.Fleet, Revision: loaded.Cursor.Revision, Removals: loaded.Cursor.Removals, Withheld: loaded.Cursor.Withheld, Accepted: loaded.Cursor.Accepted}
	kept := make([]script.Object, 0, len(loaded.Releases)+len(loaded.Values)+len(loaded.Tenants))
	if loaded.Cursor == (store.Cursor{}) {
		s.cursor.Removals = follow.UnknownRemovals
	}
	s.refused = map[string]struct{}{}
	lost := loaded.LostSettings()
	for o := range loaded.Objects() {
		_, isLost := lost[o.TenantName()]
		switch {
		case !tenants.Matches(o.TenantName()):
			s.others = append(s.others, o.Key())
		case isLost && o.Release != nil:
			s.refused[o.Key()] = struct{}{}
		default:
			kept = append(kept, o)
		}
	}
	others := len(s.others)
	var err error
	if len(loaded.Doubted) == 0 { // else with the first snapshot: clearing up removes the sources of what is in doubt
		err = errors.Join(s.removeOthers(), s.removeRefused())
	}
	for tenant := range lost {
		log.Warn("the settings of a tenant are lost or not believed; its scripts are not served until the registry has sent both", "tenant", tenant)
	}
	if s.cursor.Revision > 0 && cmp.Or(loaded.Cursor.Group, script.GroupAll) != s.group {
		log.Info("other tenants are followed than before; everything is fetched and compared", "tenants", tenants.String(), "objects_removed", others)
		s.cursor.Revision, s.cursor.Removals = 0, follow.UnknownRemovals
		err = errors.Join(err, s.SaveCursor(s.cursor))
	}
	if s.cursor.Revision > 0 && loaded.ReleasesAlone {
		log.Info("the state folder is of software that kept scripts alone; everything is fetched once, for values and settings of tenants")
		s.cursor.Revision = 0
	}
	if err != nil {
		log.Warn("what is on disk of tenants that are not followed cannot be removed from disk; they are not served, and it is tried again after the first sync", "error", err)
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

// removeRefused removes what choose has refused from disk: the next start may not find out that settings are lost.
func (s *state) removeRefused() error {
	if len(s.refused) == 0 {
		return nil
	}
	err := s.store.Commit(store.Batch{Removed: slices.Collect(maps.Keys(s.refused))})
	if err == nil {
		clear(s.refused)
	}
	return err
}

// restore makes live what was on disk. Its programs were compiled before they
// were stored, and are compiled again when they are first called, or before.
//
// What its publisher has not signed, as the keys are now, is not made live.
func (s *state) restore(objects []script.Object) {
	trust := s.roots.Trust()
	believed := make([]script.Object, 0, len(objects))
	for _, o := range objects {
		if o.Release != nil && trust.Release(o.Release) != nil {
			s.incomplete = append(s.incomplete, alone(o))
			s.refused[o.Key()] = struct{}{}
			continue
		}
		live := o
		for c := range o.Contents {
			if !s.store.HasSource(c.Digest) {
				s.incomplete = append(s.incomplete, alone(o))
				live = unstaged(o)
				break
			}
		}
		believed = append(believed, live)
	}
	s.makeLive(believed, nil)
}

// unstaged returns an object that lacks something without what must not begin before all of it is
// there: a candidate of a change set neither runs nor is tested then. What else is lost is fetched
// by the call that needs it.
func unstaged(o script.Object) script.Object {
	if o.Release == nil || o.Release.Candidate == nil || o.Release.Candidate.Set == nil {
		return o
	}
	r, c := *o.Release, *o.Release.Candidate
	c.Threshold, c.Selections, c.Keys = 0, nil, nil
	c.Failed = cmp.Or(c.Failed, "the agent fetches again what the "+c.Set.String()+" needs")
	r.Candidate = &c
	return script.Object{Release: &r}
}

// alone returns an object that does not keep what it was loaded with in memory.
func alone(o script.Object) script.Object {
	switch {
	case o.Release != nil:
		r := *o.Release
		return script.Object{Release: &r}
	case o.Value != nil:
		v := *o.Value
		return script.Object{Value: &v}
	}
	return o
}

// warm compiles what was on disk, as far as there is room, so that first calls
// need not wait for it.
func (s *state) warm(ctx context.Context, log *slog.Logger) {
	for r := range s.table.All() {
		for ; r != nil; r = r.Split {
			if ctx.Err() != nil || s.programs.Full() {
				return
			}
			s.warmUp(r, log)
		}
	}
}

func (s *state) warmUp(r *cache.Release, log *slog.Logger) {
	key := cache.KeyOf(r.Runs)
	if s.elsewhere(r.Name.Tenant) || s.programs.Has(key) || !s.store.HasSource(key.Digest) {
		return
	}
	source, err := s.store.Source(key.Digest)
	if err == nil {
		err = s.programs.Prepare(r.Name.Tenant, key, source, r.Inputs(), false)
	}
	if err != nil {
		log.Warn("a live script cannot be compiled", "script", r.Name.String(), "version", r.Runs.Number, "error", err)
	}
}

// Cursor implements follow.State.
func (s *state) Cursor() follow.Cursor { return s.cursor }

// live returns the table that has the object with the key, and its name there.
func (s *state) live(key string) (in live, name string) {
	kind, name, _ := strings.Cut(key, "/")
	switch script.ObjectKind(kind) {
	case script.Releases:
		return s.table, name
	case script.Values:
		return s.values, name
	case script.Tenants:
		return s.tenants, name
	}
	return nothing{}, name
}

// Revision implements follow.State.
func (s *state) Revision(key string) script.Revision {
	in, name := s.live(key)
	return in.Revision(name)
}

// Live implements follow.State. What was refused at the start is among it: it is removed from
// disk when the registry has it no more.
func (s *state) Live() iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range s.refused {
			if !yield(key) {
				return
			}
		}
		for _, kind := range []script.ObjectKind{script.Releases, script.Values, script.Tenants} {
			prefix := string(kind) + "/"
			in, _ := s.live(prefix)
			for name := range in.Names() {
				if !yield(prefix + name) {
					return
				}
			}
		}
	}
}

// Incomplete implements follow.State.
func (s *state) Incomplete() []script.Object { return s.incomplete }

// HasSource implements follow.State.
func (s *state) HasSource(d script.Digest) bool { return s.store.HasSource(d) }

// PutSources implements follow.State.
func (s *state) PutSources(sources map[script.Digest][]byte) error {
	list := make([]store.Source, 0, len(sources))
	for d, content := range sources {
		list = append(list, store.Source{Digest: d, Content: content})
	}
	return s.noteWrite(s.store.PutSources(list))
}

// diskTrouble is a write that failed.
type diskTrouble struct {
	err error
	at  time.Time
}

// wrote notes a write that failed, and returns its error.
func (s *state) noteWrite(err error) error {
	if err != nil {
		s.trouble.Store(&diskTrouble{err: err, at: time.Now()})
	}
	return err
}

// troubleFor is how long a failed write counts: a change that cannot be stored is tried again
// within a second.
const troubleFor = 10 * time.Second

// diskError returns why the disk could not be written lately; nil if it could.
func (s *state) diskError(now time.Time) error {
	if t := s.trouble.Load(); t != nil && now.Sub(t.at) < troubleFor {
		return t.err
	}
	return nil
}

// Prepare implements follow.State.
func (s *state) Prepare(_ context.Context, r script.Release, sources map[script.Digest][]byte, bulk bool) error {
	err := s.prepare(r.Name.Tenant, r.RunsOn(s.agent), r.SpecOn(s.agent).Inputs(), sources, bulk)
	if err == nil && r.SplitsOn(s.agent) {
		err = s.prepare(r.Name.Tenant, r.Candidate.Version, r.Candidate.Spec.Inputs(), sources, bulk)
	}
	return err
}

// prepare makes sure that a version of the tenant can run here.
func (s *state) prepare(tenant string, v script.Version, in script.Inputs, sources map[script.Digest][]byte, bulk bool) error {
	key := cache.KeyOf(v)
	if s.programs.Has(key) {
		return nil
	}
	source, here := sources[key.Digest]
	if !here {
		var err error
		if source, err = s.store.Source(key.Digest); err != nil {
			return script.Errorf(script.Unavailable, "disk", "its source cannot be read: %w", err)
		}
	}
	if s.elsewhere(tenant) {
		return s.programs.Check(tenant, key, source, in)
	}
	return s.programs.Prepare(tenant, key, source, in, !bulk)
}

// elsewhere reports whether the tenant's scripts run in a process of their own: then no
// program of them is kept here. Whether one compiles is seen here all the same, within
// the compiler's bounds, since a release that does not must not go live.
func (s *state) elsewhere(tenant string) bool {
	return s.tenants.Settings(tenant).Isolation == script.IsolationProcess
}

// Commit implements follow.State. First the disk; then those who keep copies; then what
// runs: see makeLive.
func (s *state) Commit(put []follow.Item, removed []string) error {
	batch := store.Batch{Put: entries(put), Removed: removed}
	if err := s.noteWrite(s.store.Commit(batch)); err != nil {
		return err
	}
	s.trouble.Store(nil)
	for _, item := range put {
		delete(s.refused, item.Key)
	}
	for _, key := range removed {
		delete(s.refused, key)
	}
	objects := make([]script.Object, 0, len(put))
	for _, item := range put {
		objects = append(objects, item.Object)
	}
	if s.observer != nil {
		s.observer.Committed(objects, removed)
	}
	s.makeLive(objects, removed)
	return nil
}

// makeLive swaps what runs: the settings of tenants, values, releases, and then the
// values that are gone. So a script finds the values that were there before it, and
// those that go with it only after it has gone. Values of one tenant are swapped
// together, and so are all releases. Then candidates are tested.
func (s *state) makeLive(put []script.Object, removed []string) {
	var tenants []script.Tenant
	var values []script.Value
	releases := make([]*cache.Release, 0, len(put))
	var toTest []*script.Release
	for _, o := range put {
		switch {
		case o.Release != nil:
			releases = append(releases, cache.NewReleaseOn(s.agent, *o.Release))
			toTest = append(toTest, o.Release)
		case o.Value != nil:
			values = append(values, *o.Value)
		default:
			tenants = append(tenants, *o.Tenant)
		}
	}
	var goneScripts []script.Name
	var goneValues []script.ValueKey
	var goneTenants []string
	for _, key := range removed {
		kind, name, _ := strings.Cut(key, "/")
		tenant, rest, _ := strings.Cut(name, "/")
		switch script.ObjectKind(kind) {
		case script.Releases:
			goneScripts = append(goneScripts, script.Name{Tenant: tenant, Script: rest})
		case script.Values:
			goneValues = append(goneValues, script.ValueKey{Tenant: tenant, Key: rest})
		case script.Tenants:
			goneTenants = append(goneTenants, name)
		}
	}
	s.tenants.Update(tenants, goneTenants)
	s.values.Update(values, nil)
	s.table.Update(releases, goneScripts)
	s.values.Update(nil, goneValues)
	s.tester.Live(toTest, goneScripts)
}

// entries are what is new to the disk.
func entries(items []follow.Item) []store.Entry {
	list := make([]store.Entry, 0, len(items))
	for _, item := range items {
		if item.Sealed != nil {
			list = append(list, store.Entry{Object: item.Object, Sealed: item.Sealed, SealedBy: item.SealedBy})
		}
	}
	return list
}

// Reseal implements follow.State.
func (s *state) Reseal(items []follow.Item) error { return s.store.Reseal(entries(items)) }

// Keys implements follow.State.
func (s *state) Keys() []string { return s.store.Keys() }

// Checksum implements follow.State.
func (s *state) Checksum(kind script.ObjectKind, again int, leftOut []string) wire.Sum {
	prefix := string(kind) + "/"
	names := make([]string, 0, len(leftOut))
	for _, key := range leftOut {
		names = append(names, strings.TrimPrefix(key, prefix))
	}
	in, _ := s.live(prefix)
	return in.Checksum(again, names...)
}

// Check implements follow.State.
func (s *state) Check(key string) (wire.Sum, bool) {
	in, name := s.live(key)
	return in.Check(name)
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
	return s.noteWrite(s.store.SaveCursor(store.Cursor{Fleet: c.Fleet, Revision: c.Revision, Group: s.group, Removals: c.Removals, Withheld: c.Withheld, Accepted: c.Accepted}))
}
