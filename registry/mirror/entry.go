package mirror

import (
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Entry is one release, as it travels. What it says never changes. It is safe for
// concurrent use.
type Entry struct {
	name      script.Name
	revision  script.Revision
	deleted   bool
	size      int32         // of the active version's source
	active    script.Digest // zero if there is none
	changedAt time.Time
	sum       wire.Sum // the release's fingerprint
	sealer    *seal.Sealer
	content   atomic.Pointer[content]

	// Neighbours in the order of revisions; guarded by the mirror.
	older, newer *Entry
}

// content is an eventv1.Entry, encoded, or an envelope of it once that was needed.
type content struct {
	bytes  []byte
	sealed bool
}

// InlineSourceBytes is the size of the largest source that travels with its
// release.
const InlineSourceBytes = 64 << 10

// encoding is deterministic, so that all replicas encode the same.
var encoding = proto.MarshalOptions{Deterministic: true}

func newEntry(sealer *seal.Sealer, fleet string, r script.Release) (*Entry, error) {
	bytes, err := encoding.Marshal(wire.FromReleaseEntry(fleet, r))
	if err != nil {
		return nil, script.Errorf(script.Internal, "", "encode the release of %s: %w", r.Name, err)
	}
	e := &Entry{
		name:      r.Name,
		revision:  r.Revision,
		deleted:   r.Deleted,
		changedAt: r.ChangedAt,
		sum:       wire.Fingerprint(r),
		sealer:    sealer,
	}
	if r.Active.Number != 0 {
		e.active, e.size = r.Active.Digest, int32(r.Active.Size)
	}
	e.content.Store(&content{bytes: bytes})
	return e, nil
}

// says reports whether the entry is of the release, as it is. After the store was
// restored from a backup, a revision may be that of another change.
func (e *Entry) says(r script.Release) bool {
	return e.revision == r.Revision && e.changedAt.Equal(r.ChangedAt) && e.sum == wire.Fingerprint(r)
}

// copied returns an entry that says the same and has no neighbours yet.
func (e *Entry) copied() *Entry {
	c := &Entry{
		name: e.name, revision: e.revision, deleted: e.deleted, size: e.size, active: e.active,
		changedAt: e.changedAt, sum: e.sum, sealer: e.sealer,
	}
	c.content.Store(e.content.Load())
	return c
}

// Sealed returns an envelope of the entry, the same bytes each time. They belong to
// the mirror.
func (e *Entry) Sealed() ([]byte, error) {
	c := e.content.Load()
	if c.sealed {
		return c.bytes, nil
	}
	m, err := e.message()
	if err != nil {
		return nil, err
	}
	envelope, err := e.sealer.Seal(m)
	if err != nil {
		return nil, script.Errorf(script.Internal, "", "seal the release of %s: %w", e.name, err)
	}
	if !e.content.CompareAndSwap(c, &content{bytes: envelope, sealed: true}) {
		return e.content.Load().bytes, nil // somebody else has sealed it
	}
	return envelope, nil
}

// Object returns the entry's object. The caller owns it.
func (e *Entry) Object() (*eventv1.Object, error) {
	m, err := e.message()
	return m.GetObject(), err
}

// Inline returns the digest of the active version's source, if that is small
// enough to travel with the release.
func (e *Entry) Inline() (digest script.Digest, size int, ok bool) {
	return e.active, int(e.size), !e.active.IsZero() && e.size <= InlineSourceBytes
}

func (e *Entry) message() (*eventv1.Entry, error) {
	c := e.content.Load()
	bytes := c.bytes
	if c.sealed {
		var env eventv1.Envelope
		if err := proto.Unmarshal(bytes, &env); err != nil {
			return nil, e.unreadable(err)
		}
		bytes = env.GetPayload()
	}
	var m eventv1.Entry
	if err := proto.Unmarshal(bytes, &m); err != nil {
		return nil, e.unreadable(err)
	}
	return &m, nil
}

func (e *Entry) unreadable(err error) error {
	return script.Errorf(script.Internal, "", "the mirror's entry of %s cannot be read: %w", e.name, err)
}

// retained yields the digest of each version that the release retains.
func (e *Entry) retained(yield func(script.Digest) bool) {
	m, err := e.message()
	if err != nil {
		return // it was encoded here
	}
	for _, v := range m.GetObject().GetRelease().GetRetained() {
		if d, err := wire.ToDigest(v.GetDigest()); err != nil || !yield(d) {
			return
		}
	}
}
