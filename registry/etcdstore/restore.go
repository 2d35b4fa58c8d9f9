package etcdstore

import (
	"context"
	"slices"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// PutSource implements registry.Store.
func (s *Store) PutSource(ctx context.Context, source []byte) (script.Digest, error) {
	digest := script.DigestOf(source)
	b := registry.Source{Digest: digest, Content: source}
	if len(source) > chunkBytes {
		return digest, s.putChunked(ctx, b)
	}
	_, err := s.commit(ctx, "store a source", nil, s.putBlob(b), nil)
	return digest, err
}

// Restore implements registry.Store. It is one transaction of at most 115
// operations: 9 of its own, and 53 each for versions that come and go.
func (s *Store) Restore(ctx context.Context, r registry.Restoration) (script.Revision, error) {
	ch, err := s.restoration(ctx, r)
	if err != nil {
		return 0, err
	}
	resp, err := s.apply(ctx, ch)
	if err != nil {
		return 0, err
	}
	if resp.Succeeded {
		return script.Revision(resp.Header.Revision), nil
	}
	if modRevision(resp, 0) == int64(r.Guard) {
		for i, digest := range needed(r) {
			if resp.Responses[1+i].GetResponseRange().GetCount() == 0 {
				return 0, script.Errorf(script.NotFound, "digest", "there is no source %s, which %s needs", digest, r.Release.Name)
			}
		}
	}
	return 0, conflict(r.Release.Name, ch.guard, resp)
}

func (s *Store) restoration(ctx context.Context, r registry.Restoration) (*change, error) {
	name := r.Release.Name
	if len(r.History) == 0 {
		return nil, script.Errorf(script.Internal, "", "the restoration of %s has no line of history", name)
	}
	ch, err := s.newChange(r.Guard, r.Release, r.History[0], r.Audit)
	if err != nil {
		return nil, err
	}
	ch.guards = append(ch.guards, s.freezeIs(r.FreezeGuard))
	ch.ops = append(ch.ops, clientv3.OpPut(s.keys.restored(), ""))
	ch.announce(r.Announced())
	if err := s.replaceHistory(ch, r); err != nil {
		return nil, err
	}
	for _, v := range r.Version {
		value, err := encodeVersion(v)
		if err != nil {
			return nil, script.Errorf(script.Internal, "", "encode version %d of %s: %w", v.Number, name, err)
		}
		ch.ops = append(ch.ops, clientv3.OpPut(s.keys.version(name, v.Number), string(value)))
	}
	for _, digest := range needed(r) {
		blob := s.keys.blob(digest)
		ch.guards = append(ch.guards, clientv3.Compare(clientv3.CreateRevision(blob), ">", 0))
		ch.asks = append(ch.asks, clientv3.OpGet(blob, clientv3.WithCountOnly()))
	}
	return ch, s.replaceRelease(ctx, ch, r)
}

// needed are the digests of what the restored release retains, each once: at most two of each
// version.
func needed(r registry.Restoration) []script.Digest {
	var digests []script.Digest
	for digest := range (script.Object{Release: &r.Release}).Retained {
		if !slices.Contains(digests, digest) {
			digests = append(digests, digest)
		}
	}
	return digests
}

// replaceHistory puts the restoration's lines in place of those that there are,
// which all have lower keys than the line that it writes.
func (s *Store) replaceHistory(ch *change, r registry.Restoration) error {
	name := r.Release.Name
	older, err := encodeImported(r.History[1:])
	if err != nil {
		return script.Errorf(script.Internal, "", "encode the history of %s: %w", name, err)
	}
	ch.ops = append(ch.ops, clientv3.OpPut(s.keys.imported(name), string(older)))
	if r.Guard > 0 {
		ch.ops = append(ch.ops, clientv3.OpDelete(s.keys.history(name), clientv3.WithRange(s.keys.historyEntry(name, r.Guard))))
	}
	return nil
}

// replaceRelease removes the versions that are not restored. Of a script that is
// not there it sees to it that its numbers are not used again.
func (s *Store) replaceRelease(ctx context.Context, ch *change, r registry.Restoration) error {
	name := r.Release.Name
	cur, err := s.Release(ctx, name)
	if script.KindOf(err) == script.NotFound {
		cur, err = script.Release{Name: name}, nil
	}
	if err != nil {
		return err
	}
	if cur.Revision != r.Guard {
		return script.Errorf(script.Conflict, "", "%s is at revision %d, not %d: somebody else changed it first", name, cur.Revision, r.Guard)
	}
	if cur.Latest > r.Release.Latest {
		return script.Errorf(script.Conflict, "", "%s has had %d versions: the numbers above %d cannot be given again", name, cur.Latest, r.Release.Latest)
	}
	if r.Guard == 0 {
		ch.guards = append(ch.guards, s.versionFloorIs(name, cur.Latest))
	}
	stays := map[uint64]bool{}
	for _, v := range r.Version {
		stays[v.Number] = true
	}
	for _, v := range cur.Retained {
		if !stays[v.Number] {
			ch.ops = append(ch.ops, clientv3.OpDelete(s.keys.version(name, v.Number)))
		}
	}
	return nil
}

// versionFloorIs holds if the version floor of the script is the number; 0: if there is none.
func (s *Store) versionFloorIs(name script.Name, latest uint64) clientv3.Cmp {
	if latest == 0 {
		return clientv3.Compare(clientv3.CreateRevision(s.keys.versionFloor(name)), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(s.keys.versionFloor(name)), "=", encodeVersionFloor(latest))
}

func encodeVersionFloor(latest uint64) string { return strconv.FormatUint(latest, 10) }

// decodeVersionFloor returns what is left of a tombstone.
func (s *Store) decodeVersionFloor(kv *mvccpb.KeyValue) (script.Release, error) {
	name, err := script.ParseName(string(kv.Key[len(s.keys.versionFloors()):]))
	if err != nil {
		return script.Release{}, corrupt(kv, err)
	}
	latest, err := strconv.ParseUint(string(kv.Value), 10, 64)
	if err != nil {
		return script.Release{}, corrupt(kv, err)
	}
	return script.Release{Name: name, Latest: latest, Deleted: true}, nil
}
