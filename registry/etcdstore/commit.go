package etcdstore

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// historySlack is how many lines of history may be more than can be read, so that
// not every write has to remove one.
const historySlack = 20

// Commit implements registry.Store.
func (s *Store) Commit(ctx context.Context, c registry.Commit) (script.Revision, error) {
	name := c.Release.Name
	writes, err := s.writes(c)
	if err != nil {
		return 0, err
	}
	key := s.keys.release(name)
	resp, err := s.commit(ctx, "change "+name.String(),
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", int64(c.Guard))},
		append(writes, clientv3.OpGet(s.keys.history(name), clientv3.WithPrefix(), clientv3.WithCountOnly())),
		[]clientv3.Op{clientv3.OpGet(key, clientv3.WithKeysOnly())})
	if err != nil {
		return 0, err
	}
	last := resp.Responses[len(resp.Responses)-1].GetResponseRange()
	if !resp.Succeeded {
		var now int64
		if len(last.GetKvs()) > 0 {
			now = last.GetKvs()[0].ModRevision
		}
		return 0, script.Errorf(script.Conflict, "", "%s is at revision %d, not %d: somebody else changed it first", name, now, c.Guard)
	}
	if excess := last.GetCount() - registry.MaxHistory; excess >= historySlack {
		s.trimHistory(ctx, name, excess)
	}
	return script.Revision(resp.Header.Revision), nil
}

// writes are the operations of one commit: at most 6 and one for each version
// that is dropped, of which there are no more than script.MaxHistoryLimit and two.
func (s *Store) writes(c registry.Commit) ([]clientv3.Op, error) {
	name := c.Release.Name
	release, err := encodeRelease(c.Release)
	if err != nil {
		return nil, script.Errorf(script.Internal, "", "encode the release of %s: %w", name, err)
	}
	entry, err := encodeHistory(c.Entry)
	if err != nil {
		return nil, script.Errorf(script.Internal, "", "encode the history of %s: %w", name, err)
	}
	ops := []clientv3.Op{
		clientv3.OpPut(s.keys.release(name), string(release)),
		clientv3.OpPut(s.keys.historyEntry(name, c.Guard), string(entry)),
		clientv3.OpPut(s.keys.head(), ""),
	}
	if c.Publish != nil {
		version, err := encodeVersion(*c.Publish)
		if err != nil {
			return nil, script.Errorf(script.Internal, "", "encode version %d of %s: %w", c.Publish.Number, name, err)
		}
		// The source is content-addressed: what is there already is the same.
		blob := s.keys.blob(c.Publish.Digest)
		ops = append(ops,
			clientv3.OpPut(s.keys.version(name, c.Publish.Number), string(version)),
			clientv3.OpTxn(
				[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(blob), "=", 0)},
				[]clientv3.Op{clientv3.OpPut(blob, string(c.Source))}, nil))
	}
	for _, number := range c.Drop {
		ops = append(ops, clientv3.OpDelete(s.keys.version(name, number)))
	}
	return ops, nil
}

// trimHistory removes the oldest lines. The next commit tries again if it fails.
func (s *Store) trimHistory(ctx context.Context, name script.Name, excess int64) {
	resp, err := s.get(ctx, "trim history", s.keys.history(name), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(excess))
	if err != nil || len(resp.Kvs) == 0 {
		return
	}
	oldest := resp.Kvs[len(resp.Kvs)-1].Key
	_, _ = s.commit(ctx, "trim history", nil,
		[]clientv3.Op{clientv3.OpDelete(s.keys.history(name), clientv3.WithRange(after(string(oldest))))}, nil)
}
