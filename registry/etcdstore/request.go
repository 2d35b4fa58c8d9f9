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

// done is what is stored of a registry.Done: its revision is the key's mod revision.
type done struct {
	Script  string        `json:"script"`
	Change  script.Change `json:"change"`
	Version uint64        `json:"version,omitempty"`
}

func encodeDone(c registry.Commit) ([]byte, error) {
	d := done{Script: c.Release.Name.String(), Change: c.Entry.Change, Version: c.Found}
	if c.Publish != nil {
		d.Version = c.Publish.Number
	}
	return json.Marshal(d)
}

// Request implements registry.Store.
func (s *Store) Request(ctx context.Context, id string) (registry.Done, bool, error) {
	resp, err := s.get(ctx, "read what became of a request", s.keys.request(id))
	if err != nil || len(resp.Kvs) == 0 {
		return registry.Done{}, false, err
	}
	kv := resp.Kvs[0]
	var d done
	if err := json.Unmarshal(kv.Value, &d); err != nil {
		return registry.Done{}, false, corrupt(kv, err)
	}
	name, err := script.ParseName(d.Script)
	if err != nil {
		return registry.Done{}, false, corrupt(kv, err)
	}
	return registry.Done{Name: name, Change: d.Change, Revision: script.Revision(kv.ModRevision), Version: d.Version}, true, nil
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

func leaseIsGone(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }
