package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// done is what is stored of a registry.Done: its name is in the key, and its revision
// is the key's mod revision.
type done struct {
	Asked   script.Change `json:"asked"`
	Digest  []byte        `json:"digest"` // of what was asked
	Change  script.Change `json:"change,omitempty"`
	Version uint64        `json:"version,omitempty"`
}

// putDone returns the guard that the request is new, and what remembers it.
func (s *Store) putDone(id string, d registry.Done, lease clientv3.LeaseID) (clientv3.Cmp, clientv3.Op, error) {
	value, err := json.Marshal(done{Asked: d.Asked.Change, Digest: d.Asked.Digest[:], Change: d.Change, Version: d.Version})
	if err != nil {
		return clientv3.Cmp{}, clientv3.Op{}, script.Errorf(script.Internal, "", "encode what became of a request: %w", err)
	}
	key := s.keys.request(d.Name, id)
	return clientv3.Compare(clientv3.CreateRevision(key), "=", 0), clientv3.OpPut(key, string(value), clientv3.WithLease(lease)), nil
}

func doneBy(c registry.Commit) registry.Done {
	d := registry.Done{Name: c.Release.Name, Asked: c.Asked, Change: c.Entry.Change, Version: c.Found}
	if c.Publish != nil {
		d.Version = c.Publish.Number
	}
	return d
}

// NoteRequest implements registry.Store.
func (s *Store) NoteRequest(ctx context.Context, guard script.Revision, id string, d registry.Done) error {
	return s.leased(ctx, func(lease clientv3.LeaseID) error {
		isNew, put, err := s.putDone(id, d, lease)
		if err != nil {
			return err
		}
		release := s.keys.release(d.Name)
		resp, err := s.commit(ctx, "remember a request", []clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(release), "=", int64(guard)), isNew,
		}, []clientv3.Op{put}, []clientv3.Op{clientv3.OpGet(release, clientv3.WithKeysOnly())})
		if err != nil || resp.Succeeded {
			return err
		}
		return conflict(d.Name, guard, resp)
	})
}

// leased does a write that needs the lease of requests, once more if etcd does not
// know that any more.
func (s *Store) leased(ctx context.Context, write func(clientv3.LeaseID) error) error {
	lease, err := s.leaseOfRequests(ctx)
	if err != nil {
		return err
	}
	err = write(lease)
	if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return err
	}
	s.requests.forget(lease) // nothing was done
	if lease, err = s.leaseOfRequests(ctx); err != nil {
		return err
	}
	return write(lease)
}

// Request implements registry.Store.
func (s *Store) Request(ctx context.Context, name script.Name, id string) (registry.Done, bool, error) {
	resp, err := s.get(ctx, "read what became of a request", s.keys.request(name, id))
	if err != nil || len(resp.Kvs) == 0 {
		return registry.Done{}, false, err
	}
	kv := resp.Kvs[0]
	var d done
	if err := json.Unmarshal(kv.Value, &d); err != nil {
		return registry.Done{}, false, corrupt(kv, err)
	}
	var digest script.Digest
	if copy(digest[:], d.Digest) != len(digest) {
		return registry.Done{}, false, corrupt(kv, errors.New("the digest is too short"))
	}
	return registry.Done{
		Name: name, Asked: registry.Asked{Change: d.Asked, Digest: digest}, Change: d.Change,
		Revision: script.Revision(kv.ModRevision), Version: d.Version,
	}, true, nil
}

// requestLease is the lease on which request ids are remembered: one for those of a
// whole RequestMemory, and twice as long, so that each is kept for at least that.
type requestLease struct {
	mu      sync.Mutex
	id      clientv3.LeaseID
	renewAt time.Time
}

func (l *requestLease) forget(id clientv3.LeaseID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == id {
		l.id = clientv3.NoLease
	}
}

func (s *Store) leaseOfRequests(ctx context.Context) (clientv3.LeaseID, error) {
	l := &s.requests
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := time.Now()
	if l.id != clientv3.NoLease && asked.Before(l.renewAt) {
		return l.id, nil
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	const lives = 2 * registry.RequestMemory
	resp, err := s.client.Grant(bounded, int64(lives/time.Second))
	if err != nil {
		return clientv3.NoLease, s.failure(ctx, "get a lease to remember requests on", err)
	}
	l.id, l.renewAt = resp.ID, asked.Add(registry.RequestMemory)
	return l.id, nil
}
