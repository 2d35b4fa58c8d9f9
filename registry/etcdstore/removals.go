package etcdstore

import (
	"context"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// countRemovals is written with tombstones of the tenant. It takes no guard, so that two removals
// do not get into each other's way. etcd writes a key once in a transaction, so each further
// tombstone of one transaction has a counter of its own.
func (s *Store) countRemovals(tenant string, tombstones int) (ops []clientv3.Op) {
	for n := range tombstones {
		counter := s.keys.removals() + tenant
		if n > 0 {
			counter += "/" + strconv.Itoa(n+1)
		}
		ops = append(ops, clientv3.OpPut(counter, ""))
	}
	return ops
}

// AcceptLoss implements registry.Checkup.
func (s *Store) AcceptLoss(ctx context.Context, objects int64, freeze script.Revision, audit script.AuditEntry) (script.Revision, error) {
	entry, err := encodeAudit(audit)
	if err != nil {
		return 0, script.Errorf(script.Internal, "", "encode the audit entry of an accepted loss: %w", err)
	}
	resp, err := s.commit(ctx, "accept a loss", []clientv3.Cmp{s.freezeIs(freeze)}, []clientv3.Op{
		clientv3.OpPut(s.keys.loss(), strconv.FormatInt(objects, 10)),
		clientv3.OpPut(s.keys.head(), tracecontext.From(ctx).String()),
		clientv3.OpPut(s.newAuditKey(audit.Time), string(entry)),
	}, nil)
	if err != nil {
		return 0, err
	}
	if !resp.Succeeded {
		return 0, script.Errorf(script.Conflict, "", "the freeze was changed in the meantime")
	}
	return script.Revision(resp.Header.Revision), nil
}

// addRemovals takes in what a key says of removals, and reports whether it says anything.
func (s *Store) addRemovals(r *registry.Removals, kv *mvccpb.KeyValue) bool {
	counter, counts := strings.CutPrefix(string(kv.Key), s.keys.removals())
	switch {
	case counts:
		if r.Made == nil {
			r.Made = map[string]int64{}
		}
		r.Made[counter] = kv.Version
	case string(kv.Key) == s.keys.loss():
		if n, err := strconv.ParseInt(string(kv.Value), 10, 64); err == nil {
			r.Accepted, r.At = n, script.Revision(kv.ModRevision)
		}
	default:
		return false
	}
	return true
}
