package etcdstore

import (
	"context"
	"errors"
	"iter"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
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
		snapshot.Head, snapshot.Written = script.Revision(kvs[0].ModRevision), kvs[0].Version
	}
	if kvs := resp.Responses[1].GetResponseRange().GetKvs(); len(kvs) > 0 {
		snapshot.Floor = script.Revision(decodeFloor(kvs[0]))
	}
	for _, kv := range resp.Responses[3].GetResponseRange().GetKvs() {
		s.addRemovals(&snapshot.Removals, kv)
	}
	snapshot.Freeze = freezeIn(resp.Responses[4])
	for kv, err := range s.pages(ctx, "read the tenants' removals", s.keys.removals(), at, clientv3.WithKeysOnly()) {
		if err != nil {
			return registry.Snapshot{}, err
		}
		s.addRemovals(&snapshot.Removals, kv)
	}
	heads := s.keys.heads()
	for kv, err := range s.pages(ctx, "read the tenants' heads", heads, at, clientv3.WithKeysOnly()) {
		if err != nil {
			return registry.Snapshot{}, err
		}
		snapshot.Heads[strings.TrimPrefix(string(kv.Key), heads)] = script.Revision(kv.ModRevision)
	}
	snapshot.Releases = decoded(ctx, s, s.pages(ctx, "read releases", s.keys.releases(), at), s.keys.decodeRelease)
	snapshot.Values = decoded(ctx, s, s.pages(ctx, "read values", s.keys.values(), at), s.keys.decodeValue)
	snapshot.Tenants = decoded(ctx, s, s.pages(ctx, "read the tenants' settings", s.keys.allSettings(), at), s.keys.decodeTenant)
	snapshot.Histories = s.histories(ctx, s.keys.histories(), at)
	return snapshot, nil
}

// decoded yields what is stored in the keys. What cannot be decoded is an error that
// others follow, and says what was there before.
func decoded[T any](ctx context.Context, s *Store, kvs iter.Seq2[*mvccpb.KeyValue, error], decode func(*mvccpb.KeyValue) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for kv, err := range kvs {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			if !s.keys.isObject(string(kv.Key)) {
				continue
			}
			object, err := decode(kv)
			if u, ok := errors.AsType[*registry.Unreadable](err); ok {
				u.Last = s.past(ctx, kv)
			}
			if !yield(object, err) {
				return
			}
		}
	}
}

// maxPast is how many records of the past are read to find one that can be decoded.
const maxPast = 16

// past returns the object as it was before the record that cannot be decoded; nil if there
// was none, or if etcd does not know any more.
func (s *Store) past(ctx context.Context, kv *mvccpb.KeyValue) *script.Object {
	for range maxPast {
		if kv.Version <= 1 { // the first record of the key
			return nil
		}
		resp, err := s.get(ctx, "read what was there before", string(kv.Key), clientv3.WithRev(kv.ModRevision-1))
		if err != nil || len(resp.Kvs) == 0 {
			return nil
		}
		kv = resp.Kvs[0]
		if o, err := s.keys.decodeObject(kv); err == nil {
			return &o
		}
	}
	return nil
}

// beginSnapshot reads the head, the floor, the fleet's identity, the accepted loss and the freeze.
func (s *Store) beginSnapshot(ctx context.Context) (*clientv3.TxnResponse, error) {
	return s.read(ctx, "begin a snapshot", []clientv3.Op{
		clientv3.OpGet(s.keys.head(), clientv3.WithKeysOnly()), clientv3.OpGet(s.keys.floor()), clientv3.OpGet(s.keys.fleet()), clientv3.OpGet(s.keys.loss()),
		clientv3.OpGet(s.keys.freeze()),
	})
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
		from := int64(after) + 1
		for {
			// etcd counts other writes too, and may have compacted them although no registry
			// has written since.
			compacted, err := s.watch(ctx, from, yield)
			if compacted == 0 || ctx.Err() != nil {
				if err != nil && ctx.Err() == nil {
					yield(registry.Transaction{}, err)
				}
				return
			}
			if err := s.quiet(ctx, after, compacted); err != nil {
				yield(registry.Transaction{}, err)
				return
			}
			from = compacted
		}
	}
}

// watch yields the transactions from etcd's revision on, until ctx is done. If etcd has
// compacted some of them, it returns the first revision that it has. It returns no error
// where nobody wants more.
func (s *Store) watch(ctx context.Context, from int64, yield func(registry.Transaction, error) bool) (compacted int64, err error) {
	// One watch for all kinds: etcd keeps no order between two. A member that lost its
	// leader may be cut off: the watch has to end then, so that the next one finds another
	// member.
	first, end := s.keys.watched()
	updates := s.client.Watch(clientv3.WithRequireLeader(ctx), first,
		clientv3.WithRange(end), clientv3.WithRev(from), clientv3.WithFilterDelete())
	for resp := range updates {
		if resp.CompactRevision > 0 {
			return resp.CompactRevision, nil
		}
		if err := resp.Err(); err != nil {
			return 0, s.failure(ctx, "watch the objects", err)
		}
		for t := range s.transactions(resp.Events) {
			if !yield(t, nil) {
				return 0, nil
			}
		}
	}
	return 0, script.Errorf(script.Unavailable, "", "the watch on etcd at %s was closed", s.endpoints)
}

// quiet returns an error if a registry may have written an object or the freeze after the
// transaction, and before etcd's revision.
func (s *Store) quiet(ctx context.Context, after script.Revision, before int64) error {
	for _, key := range []string{s.keys.head(), s.keys.freeze()} {
		resp, err := s.get(ctx, "read the head", key, clientv3.WithRev(before))
		if err != nil {
			return err
		}
		if len(resp.Kvs) > 0 && resp.Kvs[0].ModRevision > int64(after) {
			return s.failure(ctx, "watch the objects", rpctypes.ErrCompacted)
		}
	}
	return nil
}

// transactions groups the events of objects by revision: etcd never splits a revision
// between two responses.
func (s *Store) transactions(events []*clientv3.Event) iter.Seq[registry.Transaction] {
	return func(yield func(registry.Transaction) bool) {
		var t registry.Transaction
		some := false
		for _, event := range events {
			if revision := script.Revision(event.Kv.ModRevision); t.Revision != revision {
				if some && !yield(t) {
					return
				}
				t, some = registry.Transaction{Revision: revision, Foreign: true}, false
			}
			some = s.add(&t, event.Kv) || some
		}
		if some {
			yield(t)
		}
	}
}

// add adds what is stored in the key to the transaction, if it is an object or comes
// along with one. It reports whether it is an object.
func (s *Store) add(t *registry.Transaction, kv *mvccpb.KeyValue) bool {
	switch key := string(kv.Key); {
	case key == s.keys.head():
		t.Foreign, t.Written = false, kv.Version
		t.Trace, _ = tracecontext.Parse(string(kv.Value))
		return false
	case key == s.keys.announced(), strings.HasPrefix(key, s.keys.announced()+"/"):
		t.Sources = append(t.Sources, registry.Source{Digest: script.DigestOf(kv.Value), Content: kv.Value})
		return false
	case key == s.keys.freeze(): // which comes alone
		t.Freeze = new(decodeFreeze(kv))
		return true
	case s.addRemovals(&t.Removals, kv):
		return key == s.keys.loss() // which comes alone
	case !s.keys.isObject(key):
		return false
	}
	o, err := s.keys.decodeObject(kv)
	u, unreadable := errors.AsType[*registry.Unreadable](err)
	switch {
	case unreadable:
		t.Unreadable = append(t.Unreadable, *u)
	case o.Release != nil:
		t.Releases = append(t.Releases, *o.Release)
	case o.Value != nil:
		t.Values = append(t.Values, *o.Value)
	default:
		t.Tenants = append(t.Tenants, *o.Tenant)
	}
	return true
}
