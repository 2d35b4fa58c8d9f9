package wire

import (
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FromValue returns the message for v.
func FromValue(v script.Value) *scriptv1.Value {
	return &scriptv1.Value{
		Tenant:    v.Key.Tenant,
		Key:       v.Key.Key,
		Revision:  int64(v.Revision),
		Digest:    FromDigest(v.Digest),
		Size:      int64(v.Size),
		Deleted:   v.Deleted,
		Author:    v.Author,
		ChangedAt: fromTime(v.ChangedAt),
	}
}

// ToValue reads m. A value that is not deleted has a digest.
func ToValue(m *scriptv1.Value) (script.Value, error) {
	v := script.Value{
		Key:       script.ValueKey{Tenant: m.GetTenant(), Key: m.GetKey()},
		Revision:  script.Revision(m.GetRevision()),
		Size:      int(m.GetSize()),
		Deleted:   m.GetDeleted(),
		Author:    m.GetAuthor(),
		ChangedAt: toTime(m.GetChangedAt()),
	}
	if err := v.Key.Validate(); err != nil {
		return script.Value{}, err
	}
	if m.GetSize() < 0 || m.GetSize() > script.MaxValueBytes {
		return script.Value{}, script.Errorf(script.Invalid, "value", "%s has the impossible size %d", v.Key, m.GetSize())
	}
	digest, err := ToDigest(m.GetDigest())
	if err != nil {
		return script.Value{}, err
	}
	if digest.IsZero() != v.Deleted {
		return script.Value{}, script.Errorf(script.Invalid, "value", "%s has a digest if and only if it is not deleted", v.Key)
	}
	v.Digest = digest
	return v, nil
}
