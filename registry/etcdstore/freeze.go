package etcdstore

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Freeze implements registry.Store.
func (s *Store) Freeze(ctx context.Context) (script.Freeze, error) {
	resp, err := s.get(ctx, "read the freeze", s.keys.freeze())
	if err != nil || len(resp.Kvs) == 0 {
		return script.Freeze{}, err
	}
	return decodeFreeze(resp.Kvs[0]), nil
}

// CommitFreeze implements registry.Store. It leaves the head alone: registries that know no
// freeze follow that, and would wait for a change that they do not see.
func (s *Store) CommitFreeze(ctx context.Context, c registry.FreezeCommit) (script.Revision, error) {
	value, err := proto.Marshal(wire.FromFreeze(c.Freeze))
	if err != nil {
		return 0, script.Errorf(script.Internal, "", "encode the freeze: %w", err)
	}
	entry, err := encodeAudit(c.Audit)
	if err != nil {
		return 0, script.Errorf(script.Internal, "", "encode the audit entry of the freeze: %w", err)
	}
	resp, err := s.commit(ctx, "change the freeze", []clientv3.Cmp{s.freezeIs(c.Guard)}, []clientv3.Op{
		clientv3.OpPut(s.keys.freeze(), string(value)),
		clientv3.OpPut(s.newAuditKey(c.Audit.Time), string(entry)),
	}, nil)
	if err != nil {
		return 0, err
	}
	if !resp.Succeeded {
		return 0, script.Errorf(script.Conflict, "", "somebody else changed the freeze first")
	}
	return script.Revision(resp.Header.Revision), nil
}

// freezeIs holds if the record of the freeze has the revision; 0: if there is none.
func (s *Store) freezeIs(revision script.Revision) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(s.keys.freeze()), "=", int64(revision))
}

// freezeIn decodes the freeze that was read; zero if there is none.
func freezeIn(resp *etcdserverpb.ResponseOp) script.Freeze {
	if kvs := resp.GetResponseRange().GetKvs(); len(kvs) > 0 {
		return decodeFreeze(kvs[0])
	}
	return script.Freeze{}
}

// decodeFreeze reads the record. Of one that cannot be read it is not known what is frozen, so
// all is.
func decodeFreeze(kv *mvccpb.KeyValue) script.Freeze {
	var m scriptv1.Freeze
	err := proto.Unmarshal(kv.Value, &m)
	var f script.Freeze
	if err == nil {
		f, err = wire.ToFreeze(&m)
	}
	if err != nil {
		f = script.Freeze{Unreadable: reason(err)}
	}
	f.Revision = script.Revision(kv.ModRevision)
	return f
}
