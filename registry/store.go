package registry

import (
	"context"
	"iter"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Store keeps the registry's state. etcdstore is the one for production; memstore
// is for tests. Package storetest holds the suite that both pass. A Store is safe
// for concurrent use by any number of registries.
//
// Reads are linearizable. Errors are *script.Error: NotFound, Conflict where
// said, and Unavailable when the store cannot be reached.
type Store interface {
	// Fleet returns the identity that was made when the store was first used.
	Fleet(ctx context.Context) (string, error)

	// Head returns the revision of the last transaction; 0 before the first.
	Head(ctx context.Context) (script.Revision, error)

	// Release returns the release of the script, a tombstone included, and
	// NotFound if there never was one.
	Release(ctx context.Context, name script.Name) (script.Release, error)

	// Releases returns at most limit live releases of the tenant (of all
	// tenants if it is empty) in the order of their names as text, "tenant/name"
	// byte by byte, those after the name `after` alone; the zero Name starts at
	// the beginning.
	Releases(ctx context.Context, tenant string, after script.Name, limit int) ([]script.Release, error)

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

	// Commit applies c in one transaction and returns its revision. If the
	// release's revision is not c.Guard any more, it changes nothing and
	// returns Conflict. If it returns Unavailable, it may or may not have
	// happened.
	Commit(ctx context.Context, c Commit) (script.Revision, error)

	// Changes yields every release with a revision above since, tombstones
	// included, as of one moment, in no particular order. If since is 0, below
	// the floor or ahead of the store, it yields all live releases instead,
	// with Full set.
	Changes(ctx context.Context, since script.Revision) (Changes, error)

	// Watch yields every transaction above after, in order, none left out or
	// doubled, until ctx is done or an error ends it. An error means that the
	// caller has to start again from Changes; ErrForgotten is in its chain if the
	// store has forgotten transactions above after.
	Watch(ctx context.Context, after script.Revision) iter.Seq2[Transaction, error]
}

// MaxHistory is how many lines of a script's history can be read.
const MaxHistory = 100

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
	// Release is what it becomes. Its Revision is ignored: the commit gives it.
	Release script.Release
	// Publish, if not nil, is a new version, and Source is its source.
	Publish *script.Version
	Source  []byte
	// Drop are the numbers of versions that are not retained any more.
	Drop []uint64
	// Entry is the line that the history gets. Its Revision is ignored.
	Entry script.HistoryEntry
}

// Changes is what became of the releases since a revision.
type Changes struct {
	// Head is the revision that a follower has once it has applied them all.
	Head script.Revision
	// Full: the releases are all there are; whatever else a follower has is gone.
	Full bool
	// Releases may be ranged over once.
	Releases iter.Seq2[script.Release, error]
}

// Transaction is one committed change, as watched.
type Transaction struct {
	Revision script.Revision
	Releases []script.Release
}
