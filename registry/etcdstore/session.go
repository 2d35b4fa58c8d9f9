package etcdstore

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/script"
)

var _ session.Store = (*Store)(nil)

// Secrets implements session.Store.
func (s *Store) Secrets(ctx context.Context) ([]byte, script.Revision, error) {
	resp, err := s.get(ctx, "read the secrets of sessions", s.keys.sessions())
	if err != nil || len(resp.Kvs) == 0 {
		return nil, 0, err
	}
	return resp.Kvs[0].Value, script.Revision(resp.Kvs[0].ModRevision), nil
}

// PutSecrets implements session.Store.
func (s *Store) PutSecrets(ctx context.Context, secrets []byte, at script.Revision) error {
	key := s.keys.sessions()
	guards := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", int64(at))}
	_, err := s.commit(ctx, "store the secrets of sessions", guards, []clientv3.Op{clientv3.OpPut(key, string(secrets))}, nil)
	return err
}

// Seen implements session.Store.
func (s *Store) Seen() script.Revision { return script.Revision(s.seen.Load()) }

// see notes the revision of an answer.
func (s *Store) see(revision int64) {
	for {
		before := s.seen.Load()
		if revision <= before || s.seen.CompareAndSwap(before, revision) {
			return
		}
	}
}
