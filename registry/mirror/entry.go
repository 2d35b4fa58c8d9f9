package mirror

import (
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Entry is one object, as it travels. What it says never changes. It is safe for
// concurrent use.
type Entry struct {
	key       string // of the object
	tenant    string
	kind      kind
	revision  script.Revision
	deleted   bool
	content   script.Content   // the active version's source, or the value; the zero Content if there is none
	others    []script.Content // the candidate's source, if that is another, and what is staged for it
	changedAt time.Time
	sum       wire.Sum // the object's fingerprint
	sealer    *seal.Sealer
	encoded   atomic.Pointer[encoded]

	// Neighbours in the order of revisions; guarded by the mirror.
	older, newer *Entry
}

// encoded is an eventv1.Entry, encoded, or an envelope of it once that was needed.
type encoded struct {
	bytes  []byte
	sealed bool
}

// encoding is deterministic, so that all replicas encode the same.
var encoding = proto.MarshalOptions{Deterministic: true}

func newEntry(sealer *seal.Sealer, fleet string, o script.Object) (*Entry, error) {
	bytes, err := encoding.Marshal(wire.FromObjectEntry(fleet, o))
	if err != nil {
		return nil, script.Errorf(script.Internal, "", "encode %s: %w", o.Key(), err)
	}
	e := &Entry{
		key:       o.Key(),
		tenant:    o.TenantName(),
		kind:      kindOf(o),
		revision:  o.Revision(),
		deleted:   o.Deleted(),
		changedAt: o.ChangedAt(),
		sum:       wire.FingerprintObject(o),
		sealer:    sealer,
	}
	for c := range o.Contents {
		if e.content == (script.Content{}) {
			e.content = c
			continue
		}
		e.others = append(e.others, c)
	}
	e.encoded.Store(&encoded{bytes: bytes})
	return e, nil
}

// says reports whether the entry is of the object, as it is. After the store was
// restored from a backup, a revision may be that of another change.
func (e *Entry) says(o script.Object) bool {
	return e.revision == o.Revision() && e.changedAt.Equal(o.ChangedAt()) && e.sum == wire.FingerprintObject(o)
}

// copied returns an entry that says the same and has no neighbours yet.
func (e *Entry) copied() *Entry {
	c := &Entry{
		key: e.key, tenant: e.tenant, kind: e.kind, revision: e.revision, deleted: e.deleted, content: e.content, others: e.others,
		changedAt: e.changedAt, sum: e.sum, sealer: e.sealer,
	}
	c.encoded.Store(e.encoded.Load())
	return c
}

// Sealed returns an envelope of the entry, the same bytes each time. They belong to
// the mirror.
func (e *Entry) Sealed() ([]byte, error) {
	c := e.encoded.Load()
	if c.sealed {
		return c.bytes, nil
	}
	m, err := e.message()
	if err != nil {
		return nil, err
	}
	envelope, err := e.sealer.Seal(m)
	if err != nil {
		return nil, script.Errorf(script.Internal, "", "seal %s: %w", e.key, err)
	}
	if !e.encoded.CompareAndSwap(c, &encoded{bytes: envelope, sealed: true}) {
		return e.encoded.Load().bytes, nil // somebody else has sealed it
	}
	return envelope, nil
}

// Object returns the entry's object. The caller owns it.
func (e *Entry) Object() (*eventv1.Object, error) {
	m, err := e.message()
	return m.GetObject(), err
}

// Inline yields the sources of the active version and of the candidate with what is staged for it, or
// the value, as far as they are small enough to travel with the object.
func (e *Entry) Inline(yield func(script.Content) bool) {
	if !e.content.Digest.IsZero() && e.content.Size <= registry.InlineSourceBytes && !yield(e.content) {
		return
	}
	for _, c := range e.others {
		if c.Size <= registry.InlineSourceBytes && !yield(c) {
			return
		}
	}
}

func (e *Entry) message() (*eventv1.Entry, error) {
	c := e.encoded.Load()
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
	return script.Errorf(script.Internal, "", "the mirror's entry of %s cannot be read: %w", e.key, err)
}

// retained yields the digests of what each version that the release retains is made of, and of what is
// staged for the candidate, or that of the value.
func (e *Entry) retained(yield func(script.Digest) bool) {
	switch e.kind {
	case kindValues:
		if !e.deleted {
			yield(e.content.Digest)
		}
		return
	case kindTenants:
		return
	}
	m, err := e.message()
	if err != nil {
		return // it was encoded here
	}
	for _, v := range m.GetObject().GetRelease().GetCandidate().GetSet().GetValues() {
		if d, err := wire.ToDigest(v.GetDigest()); err != nil || !yield(d) {
			return
		}
	}
	for _, v := range m.GetObject().GetRelease().GetRetained() {
		for _, raw := range [][]byte{v.GetDigest(), v.GetSpec()} {
			if d, err := wire.ToDigest(raw); err != nil || !d.IsZero() && !yield(d) {
				return
			}
		}
	}
}
