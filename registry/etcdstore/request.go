package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/singleflight"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// done is what is stored of a registry.Done: its name is in the key, and its revision
// is the key's mod revision.
type done struct {
	Fingerprint script.Change `json:"asked"`
	Digest      []byte        `json:"digest"` // of what was asked
	Change      script.Change `json:"change,omitempty"`
	Version     uint64        `json:"version,omitempty"`
}

// putDone returns the guard that the request is new, and what remembers it.
func (s *Store) putDone(id string, d registry.Done, lease clientv3.LeaseID) (clientv3.Cmp, clientv3.Op, error) {
	value, err := json.Marshal(done{Fingerprint: d.Fingerprint.Change, Digest: d.Fingerprint.Digest[:], Change: d.Change, Version: d.Version})
	if err != nil {
		return clientv3.Cmp{}, clientv3.Op{}, script.Errorf(script.Internal, "", "encode what became of a request: %w", err)
	}
	key := s.keys.request(d.Name, id)
	return clientv3.Compare(clientv3.CreateRevision(key), "=", 0), clientv3.OpPut(key, string(value), clientv3.WithLease(lease)), nil
}

func doneBy(c registry.Commit) registry.Done {
	d := registry.Done{Name: c.Release.Name, Fingerprint: c.Fingerprint, Change: c.Entry.Change, Version: c.Found}
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
		Name: name, Fingerprint: registry.Fingerprint{Change: d.Fingerprint, Digest: digest}, Change: d.Change,
		Revision: script.Revision(kv.ModRevision), Version: d.Version,
	}, true, nil
}

// requestLease is the lease on which request ids are remembered: one for those of a
// whole RequestMemory. It lives for longer than it is used by one more, so that each is
// kept for at least that.
type requestLease struct {
	grants singleflight.Group

	mu      sync.Mutex
	id      clientv3.LeaseID
	granted time.Time
}

// Ages of a lease: from the first on, another one is granted while it is used, from the
// second on it is not used any more, and at the third it ends.
const (
	renewLeaseAfter = registry.RequestMemory
	useLeaseFor     = 2 * registry.RequestMemory
	leaseLives      = 3 * registry.RequestMemory
)

// last returns the lease that was granted last, and its age.
func (l *requestLease) last() (clientv3.LeaseID, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id, time.Since(l.granted)
}

func (l *requestLease) set(id clientv3.LeaseID, granted time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.granted = id, granted
}

func (l *requestLease) forget(id clientv3.LeaseID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == id {
		l.id = clientv3.NoLease
	}
}

// leaseOfRequests returns a lease. Only who finds none waits for a grant: for that which is
// under way, if there is one, and for as long as its own ctx allows.
func (s *Store) leaseOfRequests(ctx context.Context) (clientv3.LeaseID, error) {
	id, age := s.requests.last()
	if id != clientv3.NoLease && age < renewLeaseAfter {
		return id, nil
	}
	granted := s.requests.grants.DoChan("", s.grantLease)
	if id != clientv3.NoLease && age < useLeaseFor {
		return id, nil
	}
	select {
	case result := <-granted:
		if result.Err != nil {
			return clientv3.NoLease, s.failure(ctx, "get a lease to remember requests on", result.Err)
		}
		return result.Val.(clientv3.LeaseID), nil
	case <-ctx.Done():
		return clientv3.NoLease, s.failure(ctx, "get a lease to remember requests on", ctx.Err())
	}
}

// grantLease has etcd grant a lease, for all who wait for one: it does not depend on who
// asked first.
func (s *Store) grantLease() (any, error) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	resp, err := s.client.Grant(ctx, int64(leaseLives/time.Second))
	if err != nil {
		return clientv3.NoLease, err
	}
	s.requests.set(resp.ID, asked)
	return resp.ID, nil
}
