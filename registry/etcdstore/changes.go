package etcdstore

import (
	"context"
	"iter"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// pageSize is how many objects are read at once: it bounds the memory of a snapshot,
// however many there are.
const pageSize = 500

// Snapshot implements registry.Store. It is consistent as of one revision of etcd,
// which must not be compacted while the objects are read.
func (s *Store) Snapshot(ctx context.Context) (registry.Snapshot, error) {
	resp, err := s.beginSnapshot(ctx)
	if err != nil {
		return registry.Snapshot{}, err
	}
	at := resp.Header.Revision
	fleet, err := s.serve(resp.Responses[2].GetResponseRange().GetKvs())
	if err != nil {
		return registry.Snapshot{}, err
	}
	snapshot := registry.Snapshot{Fleet: fleet, At: at, Heads: map[string]script.Revision{}}
	if kvs := resp.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
		snapshot.Head = script.Revision(kvs[0].ModRevision)
	}
	if kvs := resp.Responses[1].GetResponseRange().GetKvs(); len(kvs) > 0 {
		floor, err := decodeFloor(kvs[0])
		if err != nil {
			return registry.Snapshot{}, err
		}
		snapshot.Floor = script.Revision(floor)
	}
	heads := s.keys.heads()
	for kv, err := range s.pages(ctx, "read the tenants' heads", heads, at, clientv3.WithKeysOnly()) {
		if err != nil {
			return registry.Snapshot{}, err
		}
		snapshot.Heads[strings.TrimPrefix(string(kv.Key), heads)] = script.Revision(kv.ModRevision)
	}
	snapshot.Releases = decoded(s.pages(ctx, "read releases", s.keys.releases(), at), decodeRelease)
	snapshot.Values = decoded(s.pages(ctx, "read values", s.keys.values(), at), decodeValue)
	snapshot.Tenants = decoded(s.pages(ctx, "read the tenants' settings", s.keys.allSettings(), at), decodeTenant)
	return snapshot, nil
}

// decoded yields what is stored in the keys. What cannot be decoded is an error that
// others follow.
func decoded[T any](kvs iter.Seq2[*mvccpb.KeyValue, error], decode func(*mvccpb.KeyValue) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for kv, err := range kvs {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			if !yield(decode(kv)) {
				return
			}
		}
	}
}

// beginSnapshot reads the head, the floor and the fleet's identity.
func (s *Store) beginSnapshot(ctx context.Context) (*clientv3.TxnResponse, error) {
	return s.commit(ctx, "begin a snapshot", nil, []clientv3.Op{
		clientv3.OpGet(s.keys.head(), clientv3.WithKeysOnly()), clientv3.OpGet(s.keys.floor()), clientv3.OpGet(s.keys.fleet()),
	}, nil)
}

// pages yields all keys with the prefix as of one revision of etcd. An error is the
// last that it yields.
func (s *Store) pages(ctx context.Context, what, prefix string, at int64, opts ...clientv3.OpOption) iter.Seq2[*mvccpb.KeyValue, error] {
	return func(yield func(*mvccpb.KeyValue, error) bool) {
		from := prefix
		opts := append([]clientv3.OpOption{
			clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithRev(at), clientv3.WithLimit(pageSize),
		}, opts...)
		for {
			resp, err := s.get(ctx, what, from, opts...)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, kv := range resp.Kvs {
				if !yield(kv, nil) {
					return
				}
				from = after(string(kv.Key))
			}
			if !resp.More {
				return
			}
		}
	}
}

// Watch implements registry.Store.
func (s *Store) Watch(ctx context.Context, after script.Revision) iter.Seq2[registry.Transaction, error] {
	return func(yield func(registry.Transaction, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		from, err := s.watchFrom(ctx, after)
		if err != nil {
			yield(registry.Transaction{}, err)
			return
		}
		// A member that lost its leader may be cut off: the watch has to end then, so
		// that the next one finds another member.
		// One watch for all kinds: etcd keeps no order between two.
		first, end := s.keys.objects()
		updates := s.client.Watch(clientv3.WithRequireLeader(ctx), first,
			clientv3.WithRange(end), clientv3.WithRev(from), clientv3.WithFilterDelete())
		for resp := range updates {
			if err := resp.Err(); err != nil {
				if ctx.Err() == nil {
					yield(registry.Transaction{}, s.failure(ctx, "watch the objects", err))
				}
				return
			}
			for t, err := range s.transactions(resp.Events) {
				if !yield(t, err) || err != nil {
					return
				}
			}
		}
		if ctx.Err() == nil {
			yield(registry.Transaction{}, script.Errorf(script.Unavailable, "", "the watch on etcd at %s was closed", s.endpoints))
		}
	}
}

// watchFrom returns etcd's revision to watch from. It is not always the one behind
// after: etcd counts other writes too, and may have compacted it although no
// object has changed since.
func (s *Store) watchFrom(ctx context.Context, after script.Revision) (int64, error) {
	resp, err := s.get(ctx, "read the head", s.keys.head())
	if err != nil {
		return 0, err
	}
	if len(resp.Kvs) == 0 || resp.Kvs[0].ModRevision <= int64(after) {
		return resp.Header.Revision + 1, nil
	}
	return int64(after) + 1, nil
}

// transactions groups the events of objects by revision: etcd never splits a revision
// between two responses.
func (s *Store) transactions(events []*clientv3.Event) iter.Seq2[registry.Transaction, error] {
	return func(yield func(registry.Transaction, error) bool) {
		var t registry.Transaction
		for _, event := range events {
			next := t
			if revision := script.Revision(event.Kv.ModRevision); t.Revision != revision {
				next = registry.Transaction{Revision: revision}
			}
			is, err := s.add(&next, event.Kv)
			switch {
			case err != nil:
				yield(registry.Transaction{}, err)
				return
			case !is:
				continue
			case t.Revision != 0 && t.Revision != next.Revision && !yield(t, nil):
				return
			}
			t = next
		}
		if t.Revision != 0 {
			yield(t, nil)
		}
	}
}

// add adds what is stored in the key to the transaction, if it is an object or comes
// along with one.
func (s *Store) add(t *registry.Transaction, kv *mvccpb.KeyValue) (is bool, err error) {
	switch key := string(kv.Key); {
	case strings.HasPrefix(key, s.keys.releases()):
		release, err := decodeRelease(kv)
		t.Releases = append(t.Releases, release)
		return true, err
	case strings.HasPrefix(key, s.keys.values()):
		value, err := decodeValue(kv)
		t.Values = append(t.Values, value)
		return true, err
	case strings.HasPrefix(key, s.keys.allSettings()):
		tenant, err := decodeTenant(kv)
		t.Tenants = append(t.Tenants, tenant)
		return true, err
	case key == s.keys.handedOn():
		t.Sources = append(t.Sources, registry.Source{Digest: script.DigestOf(kv.Value), Content: kv.Value})
		return true, nil
	}
	return false, nil
}
