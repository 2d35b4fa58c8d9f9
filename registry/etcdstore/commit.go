package etcdstore

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// newChange returns the change with what changes of a release write.
func (s *Store) newChange(guard script.Revision, release script.Release, entry script.HistoryEntry, audit script.AuditEntry) (*change, error) {
	name := release.Name
	value, err := encodeRelease(release)
	if err != nil {
		return nil, script.Errorf(script.Internal, "", "encode the release of %s: %w", name, err)
	}
	c := &change{
		object: script.Object{Release: &release},
		guard:  guard,
		guards: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.keys.release(name)), "=", int64(guard))},
		ops:    []clientv3.Op{clientv3.OpPut(s.keys.release(name), string(value))},
	}
	if entry != (script.HistoryEntry{}) {
		line, err := encodeHistory(entry)
		if err != nil {
			return nil, script.Errorf(script.Internal, "", "encode the history of %s: %w", name, err)
		}
		c.ops = append(c.ops, clientv3.OpPut(s.keys.historyEntry(name, guard), string(line)))
	}
	return c, s.audited(c, audit)
}

// Commit implements registry.Store.
func (s *Store) Commit(ctx context.Context, c registry.Commit) (script.Revision, error) {
	if c.RequestID == "" {
		return s.commitOnce(ctx, c, clientv3.NoLease)
	}
	var revision script.Revision
	err := s.leased(ctx, func(lease clientv3.LeaseID) (err error) {
		revision, err = s.commitOnce(ctx, c, lease)
		return err
	})
	return revision, err
}

func (s *Store) commitOnce(ctx context.Context, c registry.Commit, lease clientv3.LeaseID) (script.Revision, error) {
	ch, err := s.writes(c, lease)
	if err == nil {
		err = s.storeAhead(ctx, ch)
	}
	if err != nil {
		return 0, err
	}
	resp, err := s.apply(ctx, ch)
	if err != nil {
		return 0, err
	}
	if !resp.Succeeded {
		return 0, conflict(c.Release.Name, ch.guard, resp)
	}
	return script.Revision(resp.Header.Revision), nil
}

// apply commits the change of a release, and trims the history if that is due.
func (s *Store) apply(ctx context.Context, c *change) (*clientv3.TxnResponse, error) {
	name := c.object.Release.Name
	traced, end := s.begin(ctx, c.object.Key())
	resp, err := s.commit(traced, "change "+name.String(), c.guards,
		append(s.operations(traced, c), s.countHistory(name)),
		append([]clientv3.Op{clientv3.OpGet(s.keys.release(name), clientv3.WithKeysOnly())}, c.asks...))
	end(outcome(resp, err))
	if err == nil && resp.Succeeded {
		s.trimIfDue(ctx, name, resp.Responses[len(resp.Responses)-1])
	}
	return resp, err
}

// conflict says why a guarded change came to nothing; the release's key was read first.
func conflict(name script.Name, guard script.Revision, resp *clientv3.TxnResponse) error {
	if found := modRevision(resp, 0); found != int64(guard) {
		return script.Errorf(script.Conflict, "", "%s is at revision %d, not %d: somebody else changed it first", name, found, guard)
	}
	return script.Errorf(script.Conflict, "", "in the meantime the change of %s was made already, "+
		"or the script was made and deleted, or its tenant's settings or the freeze were changed", name)
}

// modRevision returns that of the one key that the n-th answer is about; 0 if there
// is none.
func modRevision(resp *clientv3.TxnResponse, n int) int64 {
	if kvs := resp.Responses[n].GetResponseRange().GetKvs(); len(kvs) > 0 {
		return kvs[0].ModRevision
	}
	return 0
}

// writes are the operations of one commit: at most five on keys that are the release's alone, and one
// for each version that is dropped, of which there are no more than script.MaxHistoryLimit and three.
func (s *Store) writes(c registry.Commit, lease clientv3.LeaseID) (*change, error) {
	name := c.Release.Name
	ch, err := s.newChange(c.Guard, c.Release, c.Entry, c.Audit)
	if err != nil {
		return nil, err
	}
	ch.guards = append(ch.guards, s.freezeIs(c.FreezeGuard))
	if c.TenantGuard != nil {
		ch.guards = append(ch.guards, clientv3.Compare(clientv3.ModRevision(s.keys.settings(name.Tenant)), "=", int64(*c.TenantGuard)))
	}
	if c.Publish != nil {
		version, err := encodeVersion(*c.Publish)
		if err != nil {
			return nil, script.Errorf(script.Internal, "", "encode version %d of %s: %w", c.Publish.Number, name, err)
		}
		if c.Guard == 0 {
			// The numbers go on from the version floor, which must be the one that was seen.
			ch.guards = append(ch.guards, s.versionFloorIs(name, c.Publish.Number-1))
		}
		ch.ops = append(ch.ops, clientv3.OpPut(s.keys.version(name, c.Publish.Number), string(version)))
		ch.blobs = append(ch.blobs, registry.Source{Digest: c.Publish.Digest, Content: c.Source})
	}
	if c.Spec != nil {
		ch.blobs = append(ch.blobs, registry.Source{Digest: c.Publish.Spec, Content: c.Spec.Document()})
	}
	ch.announce(c.Announced())
	if c.Signed != nil {
		version, err := encodeVersion(*c.Signed)
		if err != nil {
			return nil, script.Errorf(script.Internal, "", "encode version %d of %s: %w", c.Signed.Number, name, err)
		}
		ch.ops = append(ch.ops, clientv3.OpPut(s.keys.version(name, c.Signed.Number), string(version)))
	}
	if c.RequestID != "" {
		isNew, put, err := s.putDone(c.RequestID, doneBy(c), lease)
		if err != nil {
			return nil, err
		}
		ch.guards, ch.ops = append(ch.guards, isNew), append(ch.ops, put)
	}
	for _, number := range c.Drop {
		ch.ops = append(ch.ops, clientv3.OpDelete(s.keys.version(name, number)))
	}
	return ch, nil
}
