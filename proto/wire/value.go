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
		Version:   v.Version,
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
		Version:   m.GetVersion(),
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

// FromValueHistory returns the message for h.
func FromValueHistory(h script.ValueHistory) *scriptv1.ValueHistory {
	m := &scriptv1.ValueHistory{Tenant: h.Key.Tenant, Key: h.Key.Key, Latest: h.Latest}
	for _, l := range h.Lines {
		m.Lines = append(m.Lines, &scriptv1.ValueLine{
			Revision: int64(l.Revision), Change: string(l.Change), Version: l.Version, Digest: FromDigest(l.Digest), Size: int64(l.Size),
			Author: l.Author, Note: l.Note, Time: fromTime(l.Time),
		})
	}
	return m
}

// ToValueHistory reads m. A line has a digest if and only if it has a version.
func ToValueHistory(m *scriptv1.ValueHistory) (script.ValueHistory, error) {
	h := script.ValueHistory{Key: script.ValueKey{Tenant: m.GetTenant(), Key: m.GetKey()}, Latest: m.GetLatest()}
	if err := h.Key.Validate(); err != nil {
		return script.ValueHistory{}, err
	}
	for _, line := range m.GetLines() {
		digest, err := ToDigest(line.GetDigest())
		if err != nil {
			return script.ValueHistory{}, err
		}
		switch size := line.GetSize(); {
		case line.GetChange() == "":
			return script.ValueHistory{}, script.Errorf(script.Invalid, "history", "a line of %s names no change", h.Key)
		case size < 0 || size > script.MaxValueBytes:
			return script.ValueHistory{}, script.Errorf(script.Invalid, "history", "a line of %s has the impossible size %d", h.Key, size)
		case line.GetVersion() > h.Latest || digest.IsZero() != (line.GetVersion() == 0):
			return script.ValueHistory{}, script.Errorf(script.Invalid, "history", "a line of %s has the impossible version %d", h.Key, line.GetVersion())
		}
		h.Lines = append(h.Lines, script.ValueLine{
			Revision: script.Revision(line.GetRevision()), Change: script.Change(line.GetChange()), Version: line.GetVersion(), Digest: digest,
			Size: int(line.GetSize()), Author: line.GetAuthor(), Note: line.GetNote(), Time: toTime(line.GetTime()),
		})
	}
	return h, nil
}
