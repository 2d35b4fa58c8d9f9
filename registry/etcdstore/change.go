package etcdstore

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// change is a transaction in the making that changes one object, or one of the changes of a
// transaction that makes several.
type change struct {
	object script.Object // as it is from then on
	guard  script.Revision
	guards []clientv3.Cmp
	// ops write keys that no change of another object writes.
	ops []clientv3.Op
	// The rest may write the same keys as other changes do: see operations and joint.
	usage     *clientv3.Op // what the tenant's values take then
	blobs     []registry.Source
	announced [][]byte
	// asks are read if a guard does not hold, after the release's key.
	asks []clientv3.Op
}

// announce has those who watch get a content with the transaction that needs it.
func (c *change) announce(content []byte, ok bool) {
	if ok {
		c.announced = append(c.announced, content)
	}
}

// audited adds the entry to the audit trail; the zero AuditEntry is none.
func (s *Store) audited(c *change, audit script.AuditEntry) error {
	if audit == (script.AuditEntry{}) {
		return nil
	}
	entry, err := encodeAudit(audit)
	if err != nil {
		return script.Errorf(script.Internal, "", "encode the audit entry of %s: %w", c.object.Key(), err)
	}
	c.ops = append(c.ops, clientv3.OpPut(s.newAuditKey(audit.Time), string(entry)))
	return nil
}

// operations are all of a transaction that makes this change alone. Its content takes one key,
// which every such transaction overwrites.
func (s *Store) operations(ctx context.Context, c *change) []clientv3.Op {
	tenant, tombstones := c.object.TenantName(), 0
	if c.object.Deleted() {
		tombstones = 1
	}
	ops := append(slices.Clip(c.ops), s.touchHeads(ctx, tenant)...)
	ops = append(ops, s.countRemovals(tenant, tombstones)...)
	if c.usage != nil {
		ops = append(ops, *c.usage)
	}
	for _, b := range c.blobs {
		ops = append(ops, s.putBlob(b)...)
	}
	for _, content := range c.announced {
		ops = append(ops, clientv3.OpPut(s.keys.announced(), string(content)))
	}
	return ops
}

// touchHeads is written with each change of the tenant's objects. Those who watch the head find in it
// which trace made the change.
func (s *Store) touchHeads(ctx context.Context, tenant string) []clientv3.Op {
	return []clientv3.Op{clientv3.OpPut(s.keys.head(), tracecontext.From(ctx).String()), clientv3.OpPut(s.keys.tenantHead(tenant), "")}
}

// putBlob stores a source unless it is there, and says that it is needed. It is
// content-addressed: what is there already is the same.
func (s *Store) putBlob(b registry.Source) []clientv3.Op {
	blob := s.keys.blob(b.Digest)
	return []clientv3.Op{
		clientv3.OpPut(s.keys.touched(b.Digest), ""),
		clientv3.OpTxn(
			[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(blob), "=", 0)},
			[]clientv3.Op{clientv3.OpPut(blob, string(b.Content))}, nil),
	}
}
