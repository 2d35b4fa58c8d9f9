package etcdstore

import (
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

func encodeRelease(r script.Release) ([]byte, error) {
	r.Revision = 0 // the key's mod revision says it
	return proto.Marshal(wire.FromRelease(r))
}

func (k keys) decodeRelease(kv *mvccpb.KeyValue) (script.Release, error) {
	var m scriptv1.Release
	err := proto.Unmarshal(kv.Value, &m)
	if err != nil {
		return script.Release{}, k.unreadable(kv, err)
	}
	r, err := wire.ToRelease(&m)
	if err == nil {
		err = k.belongs(kv, script.Object{Release: &r})
	}
	if err != nil {
		return script.Release{}, k.unreadable(kv, err)
	}
	r.Revision = script.Revision(kv.ModRevision)
	return r, nil
}

func encodeValue(v script.Value) ([]byte, error) {
	v.Revision = 0 // the key's mod revision says it
	return proto.Marshal(wire.FromValue(v))
}

func (k keys) decodeValue(kv *mvccpb.KeyValue) (script.Value, error) {
	var m scriptv1.Value
	err := proto.Unmarshal(kv.Value, &m)
	if err != nil {
		return script.Value{}, k.unreadable(kv, err)
	}
	v, err := wire.ToValue(&m)
	if err == nil {
		err = k.belongs(kv, script.Object{Value: &v})
	}
	if err != nil {
		return script.Value{}, k.unreadable(kv, err)
	}
	v.Revision = script.Revision(kv.ModRevision)
	return v, nil
}

func encodeTenant(t script.Tenant) ([]byte, error) {
	t.Revision = 0 // the key's mod revision says it
	return proto.Marshal(wire.FromTenant(t))
}

func (k keys) decodeTenant(kv *mvccpb.KeyValue) (script.Tenant, error) {
	var m scriptv1.Tenant
	err := proto.Unmarshal(kv.Value, &m)
	if err != nil {
		return script.Tenant{}, k.unreadable(kv, err)
	}
	t, err := wire.ToTenant(&m)
	if err == nil {
		err = k.belongs(kv, script.Object{Tenant: &t})
	}
	if err != nil {
		return script.Tenant{}, k.unreadable(kv, err)
	}
	t.Revision = script.Revision(kv.ModRevision)
	return t, nil
}

func encodeVersion(v script.Version) ([]byte, error) { return proto.Marshal(wire.FromVersion(v)) }

func decodeVersion(kv *mvccpb.KeyValue) (script.Version, error) {
	var m scriptv1.Version
	if err := proto.Unmarshal(kv.Value, &m); err != nil {
		return script.Version{}, corrupt(kv, err)
	}
	v, err := wire.ToVersion(&m)
	if err != nil {
		return script.Version{}, corrupt(kv, err)
	}
	return v, nil
}

func encodeHistory(e script.HistoryEntry) ([]byte, error) {
	e.Revision = 0 // etcd keeps it
	return proto.Marshal(wire.FromHistoryEntry(e))
}

func decodeHistory(kv *mvccpb.KeyValue) (script.HistoryEntry, error) {
	var m scriptv1.HistoryEntry
	if err := proto.Unmarshal(kv.Value, &m); err != nil {
		return script.HistoryEntry{}, corrupt(kv, err)
	}
	e, err := wire.ToHistoryEntry(&m)
	if err == nil && e.Change == "" { // of an empty record, too
		err = errors.New("it names no change")
	}
	if err != nil {
		return script.HistoryEntry{}, corrupt(kv, err)
	}
	e.Revision = script.Revision(kv.ModRevision)
	return e, nil
}

func encodeImported(lines []script.HistoryEntry) ([]byte, error) {
	m := &registryv1.HistoryResponse{}
	for _, e := range lines {
		e.Revision = 0 // it was another registry's
		m.Entries = append(m.Entries, wire.FromHistoryEntry(e))
	}
	return proto.Marshal(m)
}

func decodeImported(kv *mvccpb.KeyValue) ([]script.HistoryEntry, error) {
	var m registryv1.HistoryResponse
	if err := proto.Unmarshal(kv.Value, &m); err != nil {
		return nil, corrupt(kv, err)
	}
	lines := make([]script.HistoryEntry, len(m.GetEntries()))
	for i, line := range m.GetEntries() {
		e, err := wire.ToHistoryEntry(line)
		if err != nil {
			return nil, corrupt(kv, err)
		}
		lines[i] = e
	}
	return lines, nil
}

func encodeAudit(e script.AuditEntry) ([]byte, error) {
	e.Revision = 0 // the key's mod revision says it
	return proto.Marshal(wire.FromAuditEntry(e))
}

func decodeAudit(kv *mvccpb.KeyValue) (script.AuditEntry, error) {
	var m scriptv1.AuditEntry
	if err := proto.Unmarshal(kv.Value, &m); err != nil {
		return script.AuditEntry{}, corrupt(kv, err)
	}
	e, err := wire.ToAuditEntry(&m)
	if err != nil {
		return script.AuditEntry{}, corrupt(kv, err)
	}
	e.Revision = script.Revision(kv.ModRevision)
	return e, nil
}

// decodeObject decodes what is stored in the key of an object, of whichever kind.
func (k keys) decodeObject(kv *mvccpb.KeyValue) (script.Object, error) {
	switch key := string(kv.Key); {
	case strings.HasPrefix(key, k.releases()):
		r, err := k.decodeRelease(kv)
		return script.Object{Release: &r}, err
	case strings.HasPrefix(key, k.values()):
		v, err := k.decodeValue(kv)
		return script.Object{Value: &v}, err
	}
	t, err := k.decodeTenant(kv)
	return script.Object{Tenant: &t}, err
}

// belongs refuses a record whose object has another key.
func (k keys) belongs(kv *mvccpb.KeyValue, o script.Object) error {
	if k.object(o) == string(kv.Key) {
		return nil
	}
	return fmt.Errorf("it is the record of %.200q", o.Key())
}

// unreadable returns the error for the record of an object that cannot be decoded.
func (k keys) unreadable(kv *mvccpb.KeyValue, err error) error {
	return script.Errorf(script.Internal, "", "%w: run scriptctl doctor", k.unreadableRecord(kv, err))
}

func (k keys) unreadableRecord(kv *mvccpb.KeyValue, err error) *registry.Unreadable {
	return &registry.Unreadable{
		Key: strings.TrimPrefix(string(kv.Key), k.prefix), Revision: script.Revision(kv.ModRevision), Reason: reason(err),
	}
}

// reason says in one line why a record cannot be decoded. Errors of the decoder have a
// space that tells that nobody is to rely on their text.
func reason(err error) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\u00a0", " ")), " ")
}

func corrupt(kv *mvccpb.KeyValue, err error) error {
	return script.Errorf(script.Internal, "", "what etcd holds at %s cannot be read: %w", kv.Key, fmt.Errorf("%w (mod revision %d)", err, kv.ModRevision))
}
