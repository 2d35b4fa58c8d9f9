package etcdstore

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

func encodeValueHistory(h script.ValueHistory) ([]byte, error) {
	return proto.Marshal(wire.FromValueHistory(h))
}

// decodeValueHistory reads a record. The newest line of one that came with its change does not say
// its revision: the key's mod revision does.
func (k keys) decodeValueHistory(kv *mvccpb.KeyValue) (script.ValueHistory, error) {
	var m scriptv1.ValueHistory
	err := proto.Unmarshal(kv.Value, &m)
	if err != nil {
		return script.ValueHistory{}, k.unreadable(kv, err)
	}
	h, err := wire.ToValueHistory(&m)
	if err == nil && k.valueHistory(h.Key) != string(kv.Key) {
		err = script.Errorf(script.Invalid, "", "it is the record of %.200q", h.Key)
	}
	if err != nil {
		return script.ValueHistory{}, k.unreadable(kv, err)
	}
	if len(h.Lines) > 0 && h.Lines[0].Revision == 0 {
		h.Lines[0].Revision = script.Revision(kv.ModRevision)
	}
	return h, nil
}

// valueHistory returns the history in the record. With the error for one that cannot be read comes
// what it was before, or, if etcd does not know that any more, one without lines.
func (s *Store) valueHistory(ctx context.Context, kv *mvccpb.KeyValue) (script.ValueHistory, error) {
	h, err := s.keys.decodeValueHistory(kv)
	if err == nil {
		return h, nil
	}
	for before := kv; before.Version > 1; {
		resp, getErr := s.get(ctx, "read what was there before", string(kv.Key), clientv3.WithRev(before.ModRevision-1))
		if getErr != nil || len(resp.Kvs) == 0 {
			break
		}
		before = resp.Kvs[0]
		if h, decodeErr := s.keys.decodeValueHistory(before); decodeErr == nil {
			return h, err
		}
	}
	// Each write gives two numbers at most: that of what an older registry wrote, and its own.
	key, _ := script.ParseValueKey(strings.TrimPrefix(string(kv.Key), s.keys.histories())) // zero: no value can have this name
	return script.ValueHistory{Key: key, Latest: 2 * uint64(kv.Version)}, err
}

// histories yields all histories with the prefix as registry.Snapshot has them.
func (s *Store) histories(ctx context.Context, prefix string, at int64) iter.Seq2[script.ValueHistory, error] {
	return func(yield func(script.ValueHistory, error) bool) {
		for kv, err := range s.pages(ctx, "read the histories of values", prefix, at) {
			if err != nil {
				yield(script.ValueHistory{}, err)
				return
			}
			h, err := s.valueHistory(ctx, kv)
			if !yield(h, err) {
				return
			}
		}
	}
}

// OlderBytes implements registry.Store.
func (s *Store) OlderBytes(ctx context.Context, tenant string) (n int64, err error) {
	for kv, err := range s.pages(ctx, "count the histories of "+tenant, s.keys.historiesOf(tenant), now) {
		if err != nil {
			return 0, err
		}
		h, _ := s.valueHistory(ctx, kv)
		n += h.OlderBytes()
	}
	return n, nil
}

// maxReads are made in one transaction: etcd takes 128 operations.
const maxReads = 100

// ValueNumbers implements registry.Store.
func (s *Store) ValueNumbers(ctx context.Context, keys []script.ValueKey) (map[script.ValueKey]uint64, error) {
	latest := map[script.ValueKey]uint64{}
	for batch := range slices.Chunk(keys, maxReads) {
		reads := make([]clientv3.Op, len(batch))
		for i, key := range batch {
			reads[i] = clientv3.OpGet(s.keys.valueHistory(key))
		}
		resp, err := s.read(ctx, "read the histories of values", reads)
		if err != nil {
			return nil, err
		}
		for i, key := range batch {
			for _, kv := range resp.Responses[i].GetResponseRange().GetKvs() {
				h, _ := s.valueHistory(ctx, kv)
				latest[key] = h.Latest
			}
		}
	}
	return latest, nil
}

// purgeHistory returns what removes the history of a value with its tombstone, and what must hold
// for it.
func (s *Store) purgeHistory(ctx context.Context, key script.ValueKey) (guards []clientv3.Cmp, ops []clientv3.Op, err error) {
	resp, err := s.read(ctx, "read the history of "+key.String(), []clientv3.Op{clientv3.OpGet(s.keys.valueHistory(key)), clientv3.OpGet(s.keys.usage(key.Tenant))})
	if err != nil {
		return nil, nil, err
	}
	history := resp.Responses[0].GetResponseRange().GetKvs()
	if len(history) == 0 {
		return nil, nil, nil
	}
	ops = []clientv3.Op{clientv3.OpDelete(s.keys.valueHistory(key))}
	var u usage
	h, err := s.keys.decodeValueHistory(history[0])
	for _, kv := range resp.Responses[1].GetResponseRange().GetKvs() {
		if json.Unmarshal(kv.Value, &u) != nil || u.Older == nil {
			// It is counted anew. Whoever does that now counts what is being removed: the mark tells.
			ops = append(ops, clientv3.OpPut(s.keys.usage(key.Tenant), string(kv.Value)))
			continue
		}
		*u.Older -= h.OlderBytes()
		if err != nil { // nobody knows how much it was
			u.Older = nil
		}
		put, err := s.putUsage(key.Tenant, u)
		if err != nil {
			return nil, nil, err
		}
		ops = append(ops, put)
	}
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.keys.valueHistory(key)), "=", history[0].ModRevision),
		clientv3.Compare(clientv3.ModRevision(s.keys.usage(key.Tenant)), "=", modRevision(resp, 1)),
	}, ops, nil
}
