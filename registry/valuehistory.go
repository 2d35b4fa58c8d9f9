package registry

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// RollbackValue asks for a retained version of a key to be its value again. It needs the role
// publish.
type RollbackValue struct {
	Key script.ValueKey
	// Version to go back to; 0: the last one below the present version, or the one that was
	// deleted.
	Version          uint64
	Author, Note     string // as in Write
	ExpectedRevision script.Revision
	By               access.Identity
}

// RollbackValue makes a retained version the value again, which keeps its number. changed is
// false if it is the value. It is NotFound if the version, or its content, is not retained.
func (r *Registry) RollbackValue(ctx context.Context, req RollbackValue) (v script.Value, changed bool, err error) {
	return r.writeValue(ctx, valueRequest{
		key: req.Key, author: req.Author, note: req.Note, expected: req.ExpectedRevision, by: req.By,
		change: script.ChangeRollback, version: req.Version,
	})
}

// minOlderBytes is what the histories of a tenant's values may take, however little its values
// may.
const minOlderBytes = 1 << 20

// pastOfValue is a history whose newest line is that of the value as it is.
type pastOfValue struct{ script.ValueHistory }

// knownHistory returns the history of the value. Of what a registry that knows no histories made
// of the value nothing else is known: it counts as the next version.
func knownHistory(data DataUsage, key script.ValueKey) pastOfValue {
	h, v := pastOfValue{data.History}, data.Value
	h.Key = key
	if v.Revision == 0 {
		return h
	}
	unknown := h.Latest == 0
	h.Latest = max(h.Latest, v.Version, 1)
	if data.UnreadableValue != nil || v.Version != 0 && h.begins(v) {
		return h
	}
	line := script.ValueLine{
		Revision: v.Revision, Change: script.ChangeDelete, Digest: v.Digest, Size: v.Size, Author: v.Author, Time: v.ChangedAt,
	}
	if !v.Deleted {
		if v.Version == 0 && !unknown {
			h.Latest++
		}
		line.Change, line.Version = script.ChangePut, cmp.Or(v.Version, h.Latest)
	}
	h.Lines = append([]script.ValueLine{line}, h.Lines...)
	return h
}

// begins reports whether the newest line is that of the value.
func (h pastOfValue) begins(v script.Value) bool {
	return len(h.Lines) > 0 && h.Lines[0].Digest == v.Digest && (v.Deleted || h.Lines[0].Version == v.Version)
}

// present returns the version after the last change; 0 after a delete, or if nobody knows.
func (h pastOfValue) present() uint64 {
	if len(h.Lines) == 0 {
		return 0
	}
	return h.Lines[0].Version
}

// numberOf returns the number of a content that is put. What takes the place of a record that
// cannot be read may be what was there.
func (h pastOfValue) numberOf(d script.Digest, repair bool) uint64 {
	if repair && len(h.Lines) > 0 && h.Lines[0].Digest == d {
		return h.present()
	}
	return h.Latest + 1
}

// add adds the change that makes the value next.
func (h *pastOfValue) add(a valueRequest, next *script.Value) {
	line := script.ValueLine{
		Change: a.change, Version: next.Version, Digest: next.Digest, Size: next.Size, Author: next.Author, Note: a.note, Time: next.ChangedAt,
	}
	if next.Deleted {
		line.Change, line.Version = script.ChangeDelete, 0
	}
	h.Latest = max(h.Latest, next.Version)
	h.Lines = append([]script.ValueLine{line}, h.Lines...)
}

// retain drops the oldest lines that there is no room for, and returns Usage.Older after that. The
// histories of a tenant may take as much as its values. One takes half of what the others leave at
// most, so that there is always some room for another.
func (h *pastOfValue) retain(data DataUsage) (older int64) {
	others := max(data.Usage.Older-data.History.OlderBytes(), 0)
	room := (max(data.Tenant.Settings.OrDefaults().ValueBytes, minOlderBytes) - others) / 2
	h.Lines = h.Lines[:min(len(h.Lines), script.MaxValueLines)]
	for len(h.Lines) > 1 && h.OlderBytes() > room {
		h.Lines = h.Lines[:len(h.Lines)-1]
	}
	return others + h.OlderBytes()
}

// goBackTo returns the line of the version to go back to; 0 is as in RollbackValue.
func (h pastOfValue) goBackTo(version uint64, isLive bool) (script.ValueLine, error) {
	if line, ok := h.Retains(version); ok {
		return line, nil
	}
	switch {
	case len(h.Lines) == 0:
		return script.ValueLine{}, noValue(h.Key)
	case version != 0:
		return script.ValueLine{}, h.notKept(version)
	}
	for _, line := range h.Lines {
		if line.Version != 0 && (!isLive || h.present() == 0 || line.Version < h.present()) {
			return line, nil
		}
	}
	if h.present() == 0 || len(h.Versions()) < 2 {
		return script.ValueLine{}, script.Errorf(script.NotFound, "version", "%s keeps no version to go back to: %s", h.Key, h.kept())
	}
	return script.ValueLine{}, script.Errorf(script.NotFound, "version", "%s is at version %d, and keeps none before it: name the version to go back to; %s", h.Key, h.present(), h.kept())
}

func (h pastOfValue) notKept(version uint64) error {
	return script.Errorf(script.NotFound, "version", "%s has no version %d; %s", h.Key, version, h.kept())
}

// kept says which versions are retained: "it keeps versions 1, 4 to 6".
func (h pastOfValue) kept() string {
	numbers := h.Versions()
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := fmt.Sprint(numbers[i])
		if last > i {
			part = fmt.Sprintf("%d to %d", numbers[i], numbers[last])
		}
		parts, i = append(parts, part), last+1
	}
	switch len(numbers) {
	case 0:
		return "it keeps none"
	case 1:
		return "it keeps version " + parts[0]
	}
	return "it keeps versions " + strings.Join(parts, ", ")
}

// retainedContent returns the content of the value's version.
func (r *Registry) retainedContent(ctx context.Context, v script.Value) ([]byte, error) {
	content, err := r.store.Source(ctx, v.Digest)
	switch {
	case script.KindOf(err) == script.NotFound:
		return nil, script.Errorf(script.NotFound, "version", "the content of version %d of %s is gone: somebody removed it from the store, or a registry that keeps no versions did: "+
			"put it again, or choose another version (scriptctl kv history)", v.Version, v.Key)
	case err == nil && script.DigestOf(content) != v.Digest:
		return nil, script.Errorf(script.Internal, "version", "what is stored as the content of version %d of %s has another digest: run scriptctl doctor", v.Version, v.Key)
	}
	return content, err
}

// Value returns a value with its content; of a version other than 0 as it was when it last became
// the value. It needs the role read.
func (r *Registry) Value(ctx context.Context, by access.Identity, key script.ValueKey, version uint64) (script.Value, []byte, error) {
	data, err := r.dataOf(ctx, by, key)
	if err != nil {
		return script.Value{}, nil, err
	}
	history := knownHistory(data, key)
	if version != 0 {
		line, ok := history.Retains(version)
		if !ok {
			return script.Value{}, nil, history.notKept(version)
		}
		v := script.Value{
			Key: key, Revision: line.Revision, Digest: line.Digest, Size: line.Size, Author: line.Author, ChangedAt: line.Time, Version: version,
		}
		content, err := r.retainedContent(ctx, v)
		if err != nil {
			return script.Value{}, nil, err
		}
		return v, content, nil
	}
	if u := data.UnreadableValue; u != nil {
		return script.Value{}, nil, script.Errorf(script.Internal, "key", "%w: put the value again, delete it, or run scriptctl doctor", u)
	}
	if data.Value.Revision == 0 || data.Value.Deleted {
		return script.Value{}, nil, noValue(key)
	}
	content, err := r.store.Source(ctx, data.Value.Digest)
	if err != nil {
		return script.Value{}, nil, err
	}
	data.Value.Version = history.present()
	return data.Value, content, nil
}

func (r *Registry) dataOf(ctx context.Context, by access.Identity, key script.ValueKey) (DataUsage, error) {
	if err := key.Validate(); err != nil {
		return DataUsage{}, err
	}
	if err := by.Check(access.Read, key.Tenant); err != nil {
		return DataUsage{}, err
	}
	return r.store.DataUsage(ctx, key)
}

// ValueHistory returns the last changes of a key, also of one that was deleted. It needs the role
// read.
func (r *Registry) ValueHistory(ctx context.Context, by access.Identity, key script.ValueKey) (script.ValueHistory, error) {
	data, err := r.dataOf(ctx, by, key)
	if err != nil {
		return script.ValueHistory{}, err
	}
	h := knownHistory(data, key)
	if len(h.Lines) == 0 && data.UnreadableValue == nil {
		return script.ValueHistory{}, noValue(key)
	}
	return h.ValueHistory, nil
}

// number gives the values that a registry without histories wrote the numbers that they count as.
func (r *Registry) number(ctx context.Context, values []script.Value) error {
	var keys []script.ValueKey
	for _, v := range values {
		if v.Version == 0 {
			keys = append(keys, v.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	latest, err := r.store.ValueNumbers(ctx, keys)
	for i, v := range values {
		if v.Version == 0 {
			values[i].Version = latest[v.Key] + 1
		}
	}
	return err
}
