package etcdstore

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of a transaction of several changes. etcd allows 128 operations, or guards, in a list. A list
// within another one may have as many less as the longest list around it has. The outer lists have at
// most 87 guards (20 of scripts, 20 of values, 40 of contents, seven of all), and 59 operations: two
// lists for each script, one for each value, nine of what they share, and ten that count the
// histories. This leaves 41 for a list within them.
const (
	bundle = 32 // operations in a list; those that store a content have another list within it
	// maxRequest is the size of a request, as sizeOf estimates it: etcd refuses more than 1.5 MiB.
	maxRequest = 1440 << 10
	perOp      = 64 // bytes of an operation beside its key and its value
	// At most so many contents, and bytes of them, come with a transaction to those who watch.
	maxAnnounced      = 50
	maxAnnouncedBytes = 512 << 10
)

// joint is a transaction in the making of several changes.
type joint struct {
	tenant     string
	names      []script.Name // of the scripts
	guards     []clientv3.Cmp
	lists      [][]clientv3.Op // of each change its own
	usage      *clientv3.Op
	tombstones int
	blobs      []registry.Source // each once
	announced  []registry.Source // each once
	record     []clientv3.Op     // of the change set, and of those that are forgotten
}

// CommitTogether implements registry.Store.
func (s *Store) CommitTogether(ctx context.Context, c registry.Together) (revision script.Revision, err error) {
	if !slices.ContainsFunc(c.Releases, func(r registry.Commit) bool { return r.RequestID != "" }) {
		return s.commitTogether(ctx, c, clientv3.NoLease)
	}
	err = s.leased(ctx, func(lease clientv3.LeaseID) (err error) {
		revision, err = s.commitTogether(ctx, c, lease)
		return err
	})
	return revision, err
}

func (s *Store) commitTogether(ctx context.Context, c registry.Together, lease clientv3.LeaseID) (script.Revision, error) {
	j, err := s.join(c, lease)
	if err != nil {
		return 0, err
	}
	ctx, end := s.begin(ctx, "several objects of "+j.tenant)
	revision, err := s.commitJoint(ctx, j)
	end(revision, err)
	return revision, err
}

// commitJoint commits the changes together.
func (s *Store) commitJoint(ctx context.Context, j *joint) (script.Revision, error) {
	shared := s.sharedBy(ctx, j)
	size := sizeOf(shared)
	for _, ops := range j.lists {
		size += sizeOf(ops)
	}
	stored, size, err := s.storeBlobs(ctx, j, size)
	if err != nil {
		return 0, err
	}
	shared = append(append(shared, stored...), s.announceAll(j, maxRequest-size)...)
	var then []clientv3.Op
	for _, list := range append(j.lists, shared) {
		for ops := range slices.Chunk(list, bundle) {
			then = append(then, clientv3.OpTxn(nil, ops, nil))
		}
	}
	counts := len(then)
	for _, name := range j.names {
		then = append(then, s.countHistory(name))
	}
	asked, asks := asksOf(j.guards)
	resp, err := s.commit(ctx, "change several objects of "+j.tenant, j.guards, then, asks)
	if script.KindOf(err) == script.Invalid && size > maxRequest {
		err = script.Errorf(script.Invalid, "scripts", "and their settings take about %d bytes in one request to etcd, which allows 1.5 MiB: publish fewer together: %w", size, err)
	}
	if err != nil {
		return 0, err
	}
	if !resp.Succeeded {
		return 0, s.failedGuard(asked, resp)
	}
	for i, name := range j.names {
		s.trimIfDue(ctx, name, resp.Responses[counts+i])
	}
	return script.Revision(resp.Header.Revision), nil
}

// join returns all of the changes. What is noted of a request has the lease.
func (s *Store) join(c registry.Together, lease clientv3.LeaseID) (*joint, error) {
	j := &joint{}
	for _, commit := range c.Releases {
		ch, err := s.writes(commit, lease)
		if err != nil {
			return nil, err
		}
		j.names = append(j.names, commit.Release.Name)
		j.add(ch)
	}
	for _, commit := range c.Values {
		ch, err := s.writesValue(commit)
		if err != nil {
			return nil, err
		}
		j.add(ch)
	}
	for _, staged := range c.Staged {
		j.blobs = once(j.blobs, staged)
		if len(staged.Content) <= registry.InlineSourceBytes {
			j.announced = once(j.announced, staged)
		}
	}
	if c.Set != nil {
		j.tenant = c.Set.Tenant
		value, err := encodeChangeSet(*c.Set)
		if err != nil {
			return nil, script.Errorf(script.Internal, "", "encode the change set %s: %w", c.Set.FullName(), err)
		}
		key := s.keys.changeSet(c.Set.Tenant, c.Set.Name)
		j.guards = append(j.guards, clientv3.Compare(clientv3.ModRevision(key), "=", int64(c.SetGuard)))
		j.record = append(j.record, clientv3.OpPut(key, string(value)))
	}
	if j.tenant == "" {
		return nil, script.Errorf(script.Internal, "", "nothing is to be changed together")
	}
	if c.Drop != nil {
		key := s.keys.changeSet(j.tenant, c.Drop.Name)
		j.guards = append(j.guards, clientv3.Compare(clientv3.ModRevision(key), "=", int64(c.Drop.Revision)))
		j.record = append(j.record, clientv3.OpDelete(key))
	}
	return j, nil
}

func (j *joint) add(c *change) {
	j.tenant = c.object.TenantName()
	for _, guard := range c.guards {
		if !slices.ContainsFunc(j.guards, func(other clientv3.Cmp) bool { return sameGuard(other, guard) }) {
			j.guards = append(j.guards, guard)
		}
	}
	j.lists = append(j.lists, c.ops)
	if c.usage != nil {
		j.usage = c.usage
	}
	if c.object.Deleted() {
		j.tombstones++
	}
	for _, b := range c.blobs {
		j.blobs = once(j.blobs, b)
	}
	for _, content := range c.announced {
		j.announced = once(j.announced, registry.Source{Digest: script.DigestOf(content), Content: content})
	}
}

// once adds the source unless it is there.
func once(list []registry.Source, s registry.Source) []registry.Source {
	if slices.ContainsFunc(list, func(other registry.Source) bool { return other.Digest == s.Digest }) {
		return list
	}
	return append(list, s)
}

// sharedBy are the operations on keys that several changes write, but for contents. A transaction
// without an object leaves the heads alone: nobody who watches would see it.
func (s *Store) sharedBy(ctx context.Context, j *joint) []clientv3.Op {
	ops := slices.Clone(j.record)
	if len(j.lists) > 0 {
		ops = append(ops, s.touchHeads(ctx, j.tenant)...)
	}
	if j.usage != nil {
		ops = append(ops, *j.usage)
	}
	return append(ops, s.countRemovals(j.tenant, j.tombstones)...)
}

// storeBlobs returns what stores the contents, and the size of the request with it. If that is too
// large, it stores the largest ones ahead, as an import does. The transaction then needs them to be
// there: nobody collects what was stored a moment ago.
func (s *Store) storeBlobs(ctx context.Context, j *joint, size int) (ops []clientv3.Op, _ int, err error) {
	for _, b := range j.blobs {
		size += sizeOf(s.putBlob(b))
	}
	blobs := slices.SortedStableFunc(slices.Values(j.blobs), func(a, b registry.Source) int { return cmp.Compare(len(b.Content), len(a.Content)) })
	for _, b := range blobs {
		if size <= maxRequest {
			ops = append(ops, s.putBlob(b)...)
			continue
		}
		if _, err := s.PutSource(ctx, b.Content); err != nil {
			return nil, 0, err
		}
		size -= len(b.Content)
		j.guards = append(j.guards, clientv3.Compare(clientv3.CreateRevision(s.keys.blob(b.Digest)), ">", 0))
		ops = append(ops, clientv3.OpPut(s.keys.touched(b.Digest), ""))
	}
	return ops, size, nil
}

// announceAll has those who watch get the contents, as far as there is room.
func (s *Store) announceAll(j *joint, room int) (ops []clientv3.Op) {
	room = min(room, maxAnnouncedBytes)
	for _, a := range j.announced {
		op := clientv3.OpPut(s.keys.announcedWith(len(ops)), string(a.Content))
		if size := sizeOf([]clientv3.Op{op}); size <= room && len(ops) < maxAnnounced {
			room -= size
			ops = append(ops, op)
		}
	}
	return ops
}

// sizeOf estimates what the operations take in a request.
func sizeOf(ops []clientv3.Op) (n int) {
	for _, op := range ops {
		n += perOp + len(op.KeyBytes()) + len(op.ValueBytes())
		if op.IsTxn() {
			_, then, otherwise := op.Txn()
			n += sizeOf(then) + sizeOf(otherwise)
		}
	}
	return n
}

func sameGuard(a, b clientv3.Cmp) bool {
	revision, ok := guardedRevision(a)
	other, alike := guardedRevision(b)
	return ok && alike && revision == other && string(a.KeyBytes()) == string(b.KeyBytes())
}

// guardedRevision returns the mod revision that the key must have, if that is what the guard is about.
func guardedRevision(g clientv3.Cmp) (int64, bool) {
	compare := g.GetCompare()
	return compare.GetModRevision(), compare.GetTarget() == etcdserverpb.Compare_MOD
}

// asksOf returns the guards that are about a revision, and reads of their keys.
func asksOf(guards []clientv3.Cmp) (asked []clientv3.Cmp, asks []clientv3.Op) {
	for _, g := range guards {
		if _, ok := guardedRevision(g); ok {
			asked = append(asked, g)
			asks = append(asks, clientv3.OpGet(string(g.KeyBytes()), clientv3.WithKeysOnly()))
		}
	}
	return asked, asks
}

// failedGuard says which guard does not hold, by the answers to asksOf.
func (s *Store) failedGuard(asked []clientv3.Cmp, resp *clientv3.TxnResponse) error {
	for i, g := range asked {
		want, _ := guardedRevision(g)
		if found := modRevision(resp, i); found != want {
			return script.Errorf(script.Conflict, "", "%s is at revision %d, not %d: somebody else changed it first",
				strings.TrimPrefix(string(g.KeyBytes()), s.keys.prefix), found, want)
		}
	}
	return script.Errorf(script.Conflict, "", "in the meantime one of the scripts was made and deleted, or a content was collected")
}
