package etcdstore

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// History implements registry.Store.
func (s *Store) History(ctx context.Context, name script.Name) ([]script.HistoryEntry, error) {
	resp, err := s.read(ctx, "read the history of "+name.String(), s.readHistory(name, 0))
	if err != nil {
		return nil, err
	}
	return decodeLines(resp.Responses[0].GetResponseRange().GetKvs(), resp.Responses[1].GetResponseRange().GetKvs()), nil
}

// readHistory reads the newest lines, and those that the script was imported with,
// as of the revision of etcd; 0: now.
func (s *Store) readHistory(name script.Name, at int64) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpGet(s.keys.history(name), clientv3.WithPrefix(), clientv3.WithRev(at),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend), clientv3.WithLimit(registry.MaxHistory)),
		clientv3.OpGet(s.keys.imported(name), clientv3.WithRev(at)),
	}
}

// decodeLines leaves out the lines that cannot be decoded: nothing but the eyes of people
// depends on them.
func decodeLines(lines, imported []*mvccpb.KeyValue) []script.HistoryEntry {
	entries := make([]script.HistoryEntry, 0, len(lines))
	for _, kv := range lines {
		if e, err := decodeHistory(kv); err == nil {
			entries = append(entries, e)
		}
	}
	for _, kv := range imported {
		if older, err := decodeImported(kv); err == nil {
			entries = append(entries, older...)
		}
	}
	return entries[:min(len(entries), registry.MaxHistory)]
}

// historySlack is how many lines of history may be more than can be read, so that
// not every write has to remove one.
const historySlack = 20

func (s *Store) countHistory(name script.Name) clientv3.Op {
	return clientv3.OpGet(s.keys.history(name), clientv3.WithPrefix(), clientv3.WithCountOnly())
}

// trimIfDue removes the oldest lines if there are too many, by the answer to countHistory.
func (s *Store) trimIfDue(ctx context.Context, name script.Name, counted *etcdserverpb.ResponseOp) {
	if excess := counted.GetResponseRange().GetCount() - registry.MaxHistory; excess >= historySlack {
		s.trimHistory(ctx, name, excess)
	}
}

// trimHistory removes the oldest lines. The next commit tries again if it fails.
func (s *Store) trimHistory(ctx context.Context, name script.Name, excess int64) {
	resp, err := s.get(ctx, "trim history", s.keys.history(name), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(excess))
	if err != nil || len(resp.Kvs) == 0 {
		return
	}
	oldest := resp.Kvs[len(resp.Kvs)-1].Key
	_, _ = s.commit(ctx, "trim history", nil, []clientv3.Op{
		clientv3.OpDelete(s.keys.history(name), clientv3.WithRange(after(string(oldest)))),
		clientv3.OpDelete(s.keys.imported(name)), // older than all of them
	}, nil)
}

// Record implements registry.Store.
func (s *Store) Record(ctx context.Context, r script.Release, at int64) ([]script.Version, []script.HistoryEntry, error) {
	reads := append(s.readHistory(r.Name, at), clientv3.OpGet(s.keys.versions(r.Name), clientv3.WithPrefix(), clientv3.WithRev(at)))
	resp, err := s.read(ctx, "read the record of "+r.Name.String(), reads)
	if err != nil {
		return nil, nil, err
	}
	history := decodeLines(resp.Responses[0].GetResponseRange().GetKvs(), resp.Responses[1].GetResponseRange().GetKvs())
	known := map[uint64]script.Version{}
	for _, kv := range resp.Responses[2].GetResponseRange().GetKvs() {
		if v, err := decodeVersion(kv); err == nil {
			known[v.Number] = v
		}
	}
	versions := make([]script.Version, 0, len(r.Retained))
	for _, v := range r.Retained {
		if full, ok := known[v.Number]; ok && full.Digest == v.Digest {
			full.Spec, full.SpecSize = v.Spec, v.SpecSize // which an older record lacks
			v = full
		}
		versions = append(versions, v) // where the record cannot be read, without author and note
	}
	return versions, history, nil
}
