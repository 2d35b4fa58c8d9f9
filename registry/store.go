package registry

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ErrNoFleet is in the chain of a store's errors if the store does not have the fleet that
// is served: its data are gone, or they are somewhere else.
var ErrNoFleet = errors.New("the store does not have the fleet")

// Store keeps the registry's state. etcdstore is the one for production; memstore
// is for tests. Package storetest holds the suite that both pass. A Store is safe
// for concurrent use by any number of registries.
//
// Reads are linearizable. Errors are *script.Error: NotFound, Conflict where
// said, and Unavailable when the store cannot be reached.
type Store interface {
	// Fleet returns the identity of the fleet. It is Unavailable, with ErrNoFleet in the
	// chain, if nobody founded a fleet, or if the store has another fleet than before.
	Fleet(ctx context.Context) (string, error)

	// Head returns the revision of the last transaction; 0 before the first.
	Head(ctx context.Context) (script.Revision, error)

	// Release returns the release of the script, a tombstone included, and
	// NotFound if there never was one. Of a tombstone that was collected the number
	// of the latest version is left: it is returned with revision 0. An error with an
	// *Unreadable in its chain says that there is a record which cannot be read.
	Release(ctx context.Context, name script.Name) (script.Release, error)

	// Releases returns at most limit live releases of the tenant (of all
	// tenants if it is empty) in the order of their names as text, "tenant/name"
	// byte by byte, those after the name `after` alone; the zero Name starts at
	// the beginning. The records that it cannot read come besides, in the same order: all
	// up to the last release, or all that there are if these are fewer than the limit.
	Releases(ctx context.Context, tenant string, after script.Name, limit int) ([]script.Release, []Unreadable, error)

	// Version returns a retained version with its author and note.
	Version(ctx context.Context, name script.Name, number uint64) (script.Version, error)

	// Source returns the source with the digest.
	Source(ctx context.Context, digest script.Digest) ([]byte, error)

	// Sources returns those of the sources that there are, in no particular
	// order. The caller sees to it that they fit into memory together.
	Sources(ctx context.Context, digests []script.Digest) ([]Source, error)

	// History returns the last changes of a script, newest first, at most
	// MaxHistory; none for a script that never was.
	History(ctx context.Context, name script.Name) ([]script.HistoryEntry, error)

	// Audit returns at most limit entries of the audit trail, newest first, those
	// up to the token `after` of an earlier page left out, and the token to go on
	// from, or "" if there are no more. It may return fewer than limit, even none,
	// with a token, so that a filter that few pass does not read the whole trail at
	// once.
	Audit(ctx context.Context, filter AuditFilter, after string, limit int) (entries []script.AuditEntry, token string, err error)

	// AddAudit adds an entry to the audit trail that belongs to no commit. It is no transaction:
	// Head stays what it is, and nobody who watches sees it.
	AddAudit(ctx context.Context, e script.AuditEntry) error

	// Request returns what became of the write of the script with the request id; ok
	// is false if there was none, or if that is longer ago than RequestMemory. Each
	// script has ids of its own.
	Request(ctx context.Context, name script.Name, id string) (done Done, ok bool, err error)

	// NoteRequest remembers under the request id that a write changed nothing, where
	// the release's revision is guard. It is no transaction: Head stays what it is,
	// and nobody who watches sees it. It is Conflict as Commit is. The Revision of
	// done is ignored.
	NoteRequest(ctx context.Context, guard script.Revision, id string, done Done) error

	// Commit applies c in one transaction and returns its revision. If the
	// release's revision is not c.Guard any more, or that of its tenant's settings not
	// c.TenantGuard, or there was a write of the script with c.RequestID, it changes
	// nothing and returns Conflict. If it returns
	// Unavailable, it may or may not have happened.
	Commit(ctx context.Context, c Commit) (script.Revision, error)

	// PutSource stores a source that a Restore will need. It is collected like any
	// other if none comes.
	PutSource(ctx context.Context, source []byte) (script.Digest, error)

	// Restore makes a script what r says, in place of all that is known of it. It
	// is NotFound if a source is missing; else it is as Commit is.
	Restore(ctx context.Context, r Restoration) (script.Revision, error)

	// Remains returns what is left of an object whose record cannot be read: it is a Conflict
	// if the record is not u's any more.
	Remains(ctx context.Context, u Unreadable) (Remains, error)

	// DataUsage returns what there is of the value, and what bounds it, as of one moment.
	// With an empty key it is of the tenant alone.
	DataUsage(ctx context.Context, key script.ValueKey) (DataUsage, error)

	// Values returns at most limit live values of the tenant whose keys begin with
	// the prefix, in the order of the keys byte by byte, those after the key `after`
	// alone; and the records that it cannot read as Releases does.
	Values(ctx context.Context, tenant, prefix, after string, limit int) ([]script.Value, []Unreadable, error)

	// ValueNumbers returns ValueHistory.Latest of those of the keys that have a history.
	ValueNumbers(ctx context.Context, keys []script.ValueKey) (map[script.ValueKey]uint64, error)

	// OlderBytes adds up ValueHistory.OlderBytes of the tenant's histories. Usage.Mark is of
	// before: a commit checks that there was no change since.
	OlderBytes(ctx context.Context, tenant string) (int64, error)

	// CommitValue applies c in one transaction and returns its revision. It is a
	// Conflict, and changes nothing, if the value's revision is not c.Guard any more,
	// or any of the tenant's values has changed since c.Usage was read. The content
	// is kept as sources are: Source and Sources return it. Unavailable is as in
	// Commit.
	CommitValue(ctx context.Context, c ValueCommit) (script.Revision, error)

	// Tenants returns at most limit tenants for which something is set, in the order of
	// their names, those after `after` alone; and the records that it cannot read as
	// Releases does.
	Tenants(ctx context.Context, after string, limit int) ([]script.Tenant, []Unreadable, error)

	// CommitTenant applies c in one transaction and returns its revision. It is a
	// Conflict, and changes nothing, if the revision of the settings is not c.Guard
	// any more. Unavailable is as in Commit.
	CommitTenant(ctx context.Context, c TenantCommit) (script.Revision, error)

	// Freeze returns the registry's freeze, also one that is over; the zero Freeze if there never
	// was any. A record that cannot be read is no error, but the Freeze says so.
	Freeze(ctx context.Context) (script.Freeze, error)

	// CommitFreeze applies c in one transaction and returns its revision. It is a Conflict, and
	// changes nothing, if the revision of the freeze is not c.Guard any more. Unavailable is as in
	// Commit.
	CommitFreeze(ctx context.Context, c FreezeCommit) (script.Revision, error)

	// ChangeSet returns the tenant's change set; NotFound if there is none.
	ChangeSet(ctx context.Context, tenant, name string) (script.ChangeSet, error)

	// ChangeSets returns those of the tenant in the order of their names, and the names of those
	// whose records cannot be read.
	ChangeSets(ctx context.Context, tenant string) (sets []script.ChangeSet, unreadable []string, err error)

	// CommitTogether applies all of c in one transaction and returns its revision. It is a
	// Conflict, and changes nothing, if one of the commits would be. Unavailable is as in Commit.
	CommitTogether(ctx context.Context, c Together) (script.Revision, error)

	// Snapshot returns all there is, as of one moment. Releases come in the order of
	// their names as text, "tenant/name" byte by byte.
	Snapshot(ctx context.Context) (Snapshot, error)

	// Record returns what a release of a Snapshot leaves out, as of the same moment,
	// Snapshot.At: the versions that it retains, with authors and notes, and the
	// history, newest first. It is Unavailable, with ErrForgotten in the chain, if
	// the store has forgotten that moment.
	Record(ctx context.Context, r script.Release, at int64) ([]script.Version, []script.HistoryEntry, error)

	// VersionFloors yields what is left of each tombstone that was collected, as Release
	// returns it; also of scripts that were made again since.
	VersionFloors(ctx context.Context) iter.Seq2[script.Release, error]

	// Watch yields every transaction above after, in order, none left out or
	// doubled, until ctx is done or an error ends it. An error means that the
	// caller has to start again; ErrForgotten is in its chain if the
	// store has forgotten transactions above after.
	Watch(ctx context.Context, after script.Revision) iter.Seq2[Transaction, error]
}

// Garbage is the part of a store that a Collector cleans up. Errors are as those of
// a Store.
type Garbage interface {
	// Tombstones yields the tombstones, of any kind, of what was deleted before then.
	Tombstones(ctx context.Context, before time.Time) iter.Seq2[script.Object, error]
	// Purge removes a tombstone, of a script or a value with its history, unless the object
	// has changed since, and raises the floor to its revision. The number of a script's
	// latest version stays known. A tombstone with revision 0 stands for a value of which the
	// history alone is left. It is no change of an object: it gets no revision,
	// and nobody who watches sees it.
	Purge(ctx context.Context, tombstone script.Object) error
	// Blobs yields the digest of each stored source, and content of a value.
	Blobs(ctx context.Context) iter.Seq2[Blob, error]
	// Discard removes a source, unless it was written or needed since the blob was
	// yielded. It reports whether it did.
	Discard(ctx context.Context, b Blob) (bool, error)
	// TrimAudit removes the entries of the audit trail from before then, and
	// returns how many those were.
	TrimAudit(ctx context.Context, before time.Time) (int, error)
	// TrimEvents removes the events of the timeline that are no writes and are from before then, but
	// for those of keys, and returns how many those were.
	TrimEvents(ctx context.Context, before time.Time) (int, error)
}

// Blob is a stored source as a Collector sees it.
type Blob struct {
	Digest script.Digest
	// Touched is the store's own mark of the moment of the listing: what writes or
	// needs the source later is seen by Discard. It is not a revision of a release.
	Touched int64
}

// MaxHistory is how many lines of a script's history can be read.
const MaxHistory = 100

// RequestMemory is how long the store at least remembers a request id.
const RequestMemory = time.Hour

// InlineSourceBytes is the size of the largest source, or content of a value, that
// travels to the agents with its object.
const InlineSourceBytes = 64 << 10

// Source is the source of a version, by its digest.
type Source struct {
	Digest  script.Digest
	Content []byte
}

// Commit is one change of one release.
type Commit struct {
	// Guard is the revision that the release must still have; 0: it must not
	// exist.
	Guard script.Revision
	// TenantGuard, if not nil, is the revision that the settings of the script's tenant
	// must still have; 0: nothing must be set.
	TenantGuard *script.Revision
	// FreezeGuard is the revision that the registry's freeze must still have.
	FreezeGuard script.Revision
	// Release is what it becomes. Its Revision is ignored: the commit gives it.
	Release script.Release
	// Publish, if not nil, is a new version, and Source is its source. Without one, Source
	// is that of another version that agents need from now on, if it is at hand.
	Publish *script.Version
	Source  []byte
	// Spec is what the version of Publish runs with. The store keeps its document as it keeps
	// sources.
	Spec *script.Spec
	// Signed, if not nil, is a retained version as it is from now on: with another signature.
	Signed *script.Version
	// Drop are the numbers of versions that are not retained any more.
	Drop []uint64
	// Entry is the line that the history gets; the zero HistoryEntry: none. Its Revision is
	// ignored.
	Entry script.HistoryEntry
	// Audit is the entry that the audit trail gets; the zero AuditEntry: none. Its
	// Revision is ignored.
	Audit script.AuditEntry
	// RequestID, if not empty, is remembered with what was asked for, and the
	// version that was published or found.
	RequestID   string
	Fingerprint Fingerprint
	Found       uint64
}

// Together are changes of one tenant's releases and values that are made in one transaction, with
// what the registry keeps of their change set. Each release, and each value, is there once.
type Together struct {
	// At most one of Releases has a RequestID.
	Releases []Commit
	// Values have the same Usage.Mark, and the Usage of the last is what all of them take then.
	Values []ValueCommit
	// Staged are contents that candidates among Releases read. The store keeps them like contents of values.
	Staged []Source
	// Set is what the record of the change set becomes; nil leaves it. SetGuard is the revision that
	// it must still have; 0: there must be none.
	Set      *script.ChangeSet
	SetGuard script.Revision
	// Drop, if not nil, is another change set of the tenant that the store forgets. It must still be at
	// its Revision.
	Drop *script.ChangeSet
}

// Announced returns the source that whoever watches gets with the commit, if there is one:
// that of an active version or a candidate, which is small. Otherwise each replica would
// read it before it can tell its agents, and the changes of others would wait meanwhile.
func (c Commit) Announced() (content []byte, ok bool) {
	has := c.Source != nil
	if c.Publish != nil {
		has = needs(c.Release, c.Publish.Digest)
	}
	return c.Source, has && len(c.Source) <= InlineSourceBytes
}

// Announced is as that of a Commit.
func (r Restoration) Announced() (content []byte, ok bool) {
	return r.Source, r.Source != nil && len(r.Source) <= InlineSourceBytes
}

// Announced is as that of a Commit.
func (c ValueCommit) Announced() (content []byte, ok bool) {
	return c.Content, !c.Value.Deleted && len(c.Content) <= InlineSourceBytes
}

// needs reports whether agents need the source for the release.
func needs(r script.Release, d script.Digest) bool {
	for content := range (script.Object{Release: &r}).Contents {
		if content.Digest == d {
			return true
		}
	}
	return false
}

// Fingerprint identifies what a request asks for: two requests with one id are the same
// request if their fingerprints are equal.
type Fingerprint struct {
	Change script.Change
	Digest script.Digest // of all that decides what becomes of it
}

// Done is what became of a write.
type Done struct {
	Name        script.Name
	Fingerprint Fingerprint
	Change      script.Change   // "" if nothing changed
	Revision    script.Revision // that it made; of one that changed nothing not a release's
	Version     uint64          // of a publish: the one that holds the source
}

// Restoration is a script as it was exported.
type Restoration struct {
	// Guard and FreezeGuard as in Commit.
	Guard, FreezeGuard script.Revision

	Release script.Release   // its Revision is ignored
	Version []script.Version // all that the release retains, with authors and notes
	// History is newest first. The first line is that of the restoration and gets
	// its revision; the others have none, for theirs were another registry's.
	History []script.HistoryEntry
	Audit   script.AuditEntry
	// Source of the active version, if it is at hand.
	Source []byte
}

// Remains is what a store has of an object whose record cannot be read.
type Remains struct {
	// Last is the object as it was before; nil if the store does not know that any more.
	Last *script.Object
	// First: the object had no record before, since it was made or collected.
	First bool

	// Of a script: the versions whose records can be read, with authors and notes, by
	// their numbers; the numbers of those whose records cannot; the history, newest first;
	// whether its newest line is that of the last change, and not one that is older than a
	// line which cannot be read; and the number of the last version before the script was
	// made, if it was deleted and collected before.
	Versions     []script.Version
	Broken       []uint64
	History      []script.HistoryEntry
	Current      bool
	VersionFloor uint64
}

// TenantCommit is one change of one tenant's settings.
type TenantCommit struct {
	Guard  script.Revision // as in ValueCommit
	Tenant script.Tenant   // its Revision is ignored
	// FreezeGuard as in Commit.
	FreezeGuard script.Revision
	Audit       script.AuditEntry
}

// FreezeCommit is one change of the registry's freeze.
type FreezeCommit struct {
	Guard  script.Revision // as in ValueCommit
	Freeze script.Freeze   // its Revision is ignored
	Audit  script.AuditEntry
}

// Snapshot is all there is of the objects.
type Snapshot struct {
	// Fleet is the identity that Store.Fleet returns; a snapshot fails as it does.
	Fleet string
	// At is the store's own mark of the moment, for Store.Record. It is not a revision
	// of a release, but none that comes later is lower: a watch after it misses nothing.
	At   int64
	Head script.Revision
	// Written is how many transactions registries had made.
	Written int64
	// Floor: tombstones with a revision up to it may have been collected.
	Floor script.Revision
	// Heads has the revision of the last transaction that touched each tenant.
	Heads    map[string]script.Revision
	Removals Removals
	Freeze   script.Freeze
	// Releases yields every release, tombstones included, in the order of their names
	// as text. It may be ranged over once. An error with an *Unreadable in its chain stands
	// for one release, and others follow; any other error is the last.
	Releases iter.Seq2[script.Release, error]
	// Values and Tenants yield those objects in the same way, in the order of their
	// keys.
	Values  iter.Seq2[script.Value, error]
	Tenants iter.Seq2[script.Tenant, error]
	// Histories yields those of all values, also of values that are gone. With an *Unreadable
	// comes what the history was before, or one without lines.
	Histories iter.Seq2[script.ValueHistory, error]
}

// Objects yields all of them. It may be ranged over once, in place of Releases, Values
// and Tenants. Errors are as theirs.
func (s Snapshot) Objects() iter.Seq2[script.Object, error] {
	return func(yield func(script.Object, error) bool) {
		_ = each(s.Releases, func(r script.Release) script.Object { return script.Object{Release: &r} }, yield) &&
			each(s.Values, func(v script.Value) script.Object { return script.Object{Value: &v} }, yield) &&
			each(s.Tenants, func(t script.Tenant) script.Object { return script.Object{Tenant: &t} }, yield)
	}
}

// each yields the objects, and reports whether more is wanted.
func each[T any](all iter.Seq2[T, error], object func(T) script.Object, yield func(script.Object, error) bool) bool {
	for t, err := range all {
		if err == nil {
			if !yield(object(t), nil) {
				return false
			}
			continue
		}
		_, one := errors.AsType[*Unreadable](err)
		if !yield(script.Object{}, err) || !one {
			return false
		}
	}
	return true
}

// Removals says which removals of objects are meant. A store that lost records has no account
// of it here, so agents keep the objects.
type Removals struct {
	// Made counts the objects that registries have removed since the fleet was founded. A store
	// may have several counters of a tenant: "tenant", "tenant/2" and so on. All of them together
	// are the tenant's.
	Made map[string]int64
	// Accepted is how many objects' loss an administrator accepted last, at the revision At.
	Accepted int64
	At       script.Revision
}

// Transaction is one committed change, as watched.
type Transaction struct {
	Revision script.Revision
	Releases []script.Release
	Values   []script.Value
	Tenants  []script.Tenant
	// Unreadable are objects that the transaction wrote, and that cannot be decoded.
	Unreadable []Unreadable
	// Removals is zero unless the transaction has changed it.
	Removals Removals
	// Freeze is the registry's, if the transaction has changed it, and nothing else; else nil. It
	// is Foreign then: nobody else follows it.
	Freeze *script.Freeze
	// Foreign: the transaction is none of a registry's, and Store.Head does not count it.
	Foreign bool
	// Written is how many transactions registries had made, this one included; 0 if it is
	// foreign. It goes on from less where the store was restored from a backup.
	Written int64
	// Sources are of the sources, and contents of values, that the transaction has
	// brought, those that the store tells of right away: Store.Sources has all.
	Sources []Source
	// Trace is the trace context that the commit had, which Go's context carried; zero if none.
	Trace tracecontext.Context
}

// Objects yields all that the transaction changed, always in the same order. They
// belong to the transaction.
func (t Transaction) Objects() iter.Seq[script.Object] {
	return objects(t.Releases, t.Values, t.Tenants)
}

func objects(releases []script.Release, values []script.Value, tenants []script.Tenant) iter.Seq[script.Object] {
	return func(yield func(script.Object) bool) {
		for i := range releases {
			if !yield(script.Object{Release: &releases[i]}) {
				return
			}
		}
		for i := range values {
			if !yield(script.Object{Value: &values[i]}) {
				return
			}
		}
		for i := range tenants {
			if !yield(script.Object{Tenant: &tenants[i]}) {
				return
			}
		}
	}
}
